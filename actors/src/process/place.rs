//! Whether a process belongs to an attempt, by what the kernel shows of its ancestors. What a process says of
//! itself does not count. Reads `/proc` only.
//!
//! Everything that an attempt starts stays below its shim, which adopts orphans (prctl(2)). The orphans of a
//! killed shim become children of the daemon, or stay below their leader. The daemon knows its shims and
//! leaders by pid and start time.
//!
//! - If several known processes are above one process, the outermost decides: a process that only imitates a
//!   shim can't be above a real one.
//! - A process in a box counts as inside even if none of its ancestors is known any more.
//! - Without proof (a process has ended, a line of ancestors keeps changing) the answer is inside.

use std::fs;
use std::path::PathBuf;

use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use super::child_registry::{attempt_of, known, learn_leader};
pub use super::identity::Peer;
use super::identity::Process;
use super::network;
use super::proc::{self, Stat};
use super::records::{self, Started};
use super::shims::Shims;
use crate::ids::AttemptId;
use crate::sandbox;

/// How often a line of ancestors that changes during the reading is read again.
const TRIES: u32 = 100;

/// Where a caller is. It decides what the caller may do (`domain/callers.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallerLocation {
    /// All of its ancestors were read, none belongs to an attempt, and it is in no box.
    Outside,
    /// It is part of an attempt, or nothing proves that it is not. For a process of a check, the check
    /// run's id is in the attempt's place. `None`: which attempt is unknown.
    Inside(Option<AttemptId>),
}

impl CallerLocation {
    /// Also `true` for an unknown attempt.
    pub fn is_inside(self) -> bool {
        self != Self::Outside
    }

    /// `None` outside, and inside of an unknown attempt: [`Self::is_inside`] tells the two apart.
    pub fn attempt(self) -> Option<AttemptId> {
        match self {
            Self::Inside(attempt) => attempt,
            Self::Outside => None,
        }
    }
}

/// One process in a line of ancestors, with the fields that must be equal in two reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    process: Process,
    parent: i32,
    session: i32,
}

/// A process and its ancestors, innermost first, up to the daemon or the first process of the namespace.
/// `None`: one of them ended during the reading.
fn line_of(mut pid: i32, daemon: i32) -> Option<Vec<Link>> {
    let mut line = Vec::new();
    loop {
        let Stat { ppid: parent, session, start_time, .. } = Stat::of(pid)?;
        line.push(Link { process: Process { pid, start_time }, parent, session });
        // The kernel shows parent 0 for the first process of a PID namespace, and for a process that entered
        // the namespace from outside.
        if parent == 0 || pid == daemon {
            return Some(line);
        }
        pid = parent;
    }
}

impl Shims {
    /// Where the peer of a connection is. A peer that has ended counts as inside.
    pub fn place_of(&self, peer: &Peer) -> CallerLocation {
        peer.sure(place).unwrap_or(CallerLocation::Inside(None))
    }

    /// Where several processes that share a socket are: inside if one of them is inside. Outside for an empty
    /// list: the socket is then open only in processes of other users.
    pub fn place_of_all(&self, pids: &[i32]) -> CallerLocation {
        let places = pids.iter().map(|pid| place(*pid));
        places.into_iter().find(|place| place.is_inside()).unwrap_or(CallerLocation::Outside)
    }

    /// Where this process itself is. Asks for its parent, since this process counts as the daemon. A daemon
    /// refuses to start inside an attempt: it would end with the attempt.
    pub fn own_place(&self) -> CallerLocation {
        match nix::unistd::getppid().as_raw() {
            // The first process of its namespace.
            0 => CallerLocation::Outside,
            parent => place(parent),
        }
    }

    /// Learns the shims, proxies and leaders that earlier daemons left, by their working folder below
    /// `homes`. To be called at the start, before any connection is accepted. The arguments alone identify
    /// a shim here: an imitation does no harm, because the outermost known process decides.
    pub fn recognise(&self, homes: &[PathBuf]) {
        let homes: Vec<PathBuf> =
            homes.iter().filter_map(|home| fs::canonicalize(home).ok()).collect();
        let own = geteuid().as_raw();
        for pid in proc::all() {
            // The folder is checked first, since that takes one call. The owner is checked before the
            // arguments: reading the arguments of another user's process may block.
            let Ok(folder) = fs::read_link(format!("/proc/{pid}/cwd")) else { continue };
            if homes.iter().any(|home| folder.starts_with(home))
                && proc::real_uid(pid) == Some(own)
                && [proc::ARGUMENT, network::ARGUMENT].iter().any(|it| proc::is_run_as(pid, it))
                && let Some(shim) = Process::of(pid)
            {
                known().shims.insert(shim, attempt_of(&folder));
                if let Ok(Some(started)) = records::read::<Started>(&folder, Started::FILE) {
                    learn_leader(&started, &folder);
                }
            }
        }
    }
}

/// Where a process is: reads its line of ancestors until two reads are equal, then judges it. Inside of an
/// unknown attempt if it has ended, or if the line does not settle.
fn place(pid: i32) -> CallerLocation {
    let daemon = std::process::id().cast_signed();
    for _ in 0..TRIES {
        // The children of a parent that ends get another parent. Two equal reads prove that the line was
        // never mixed from before and after such a change.
        let line = line_of(pid, daemon);
        if let Some(line) = line
            && line_of(pid, daemon).as_ref() == Some(&line)
        {
            return match judge(&line, daemon) {
                CallerLocation::Outside if sandbox::holds(pid) => CallerLocation::Inside(None),
                place => place,
            };
        }
    }
    CallerLocation::Inside(None)
}

/// The owner of the outermost known process of a line. Without one: inside if the line ends at the daemon,
/// else outside.
fn judge(line: &[Link], daemon: i32) -> CallerLocation {
    let known = known();
    let roots = [&known.shims, &known.leaders, &known.claims];
    let owner =
        |link: &Link| roots.iter().find_map(|roots| roots.owner(link.process, link.session));
    match line.iter().rev().find_map(owner) {
        Some(attempt) => CallerLocation::Inside(attempt),
        // Below the daemon without a known process between: what the daemon itself runs, such as git, or an
        // orphan of a shim that was killed.
        None if line.last().is_some_and(|last| last.process.pid == daemon) => {
            CallerLocation::Inside(None)
        }
        None => CallerLocation::Outside,
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests need real children")]
mod tests {
    use std::io;
    use std::os::unix::net::UnixStream;
    use std::process::{Child, Command, Stdio};

    use super::super::identity::PidFd;
    use super::*;

    fn shims() -> Shims {
        Shims::new("/proc/self/exe".into())
    }

    /// A shell with a child, and the child's pid.
    struct Family {
        parent: Child,
        child: i32,
    }

    impl Family {
        fn new() -> Self {
            let mut shell = Command::new("sh");
            shell.args(["-c", "sleep 600 & echo $!; wait"]).stdout(Stdio::piped());
            let mut parent = shell.spawn().unwrap();
            let mut line = String::new();
            let stdout = parent.stdout.take().unwrap();
            io::BufRead::read_line(&mut io::BufReader::new(stdout), &mut line).unwrap();
            Self { parent, child: line.trim().parse().unwrap() }
        }

        fn parent(&self) -> Process {
            Process::of(self.parent.id().cast_signed()).unwrap()
        }
    }

    impl Drop for Family {
        fn drop(&mut self) {
            if let Some(child) = Process::of(self.child) {
                child.signal(nix::libc::SIGKILL);
            }
            let _ = self.parent.kill();
            let _ = self.parent.wait();
        }
    }

    #[test]
    fn below_a_known_root_is_inside_and_the_outermost_counts() {
        let family = Family::new();
        let attempt = AttemptId::new();
        // This process is their ancestor: what it runs for itself is inside as well.
        assert_eq!(place(family.child), CallerLocation::Inside(None));
        known().shims.insert(family.parent(), Some(attempt));
        assert_eq!(place(family.child), CallerLocation::Inside(Some(attempt)));
        let pretender = Process::of(family.child).unwrap();
        known().shims.insert(pretender, Some(AttemptId::new()));
        assert_eq!(place(family.child), CallerLocation::Inside(Some(attempt)));
    }

    #[test]
    fn an_earlier_process_with_the_pid_of_a_root_is_none() {
        let family = Family::new();
        let mut earlier = family.parent();
        earlier.start_time -= 1;
        known().shims.insert(earlier, Some(AttemptId::new()));
        assert_eq!(place(family.child), CallerLocation::Inside(None));
    }

    #[test]
    fn the_parent_of_this_process_is_outside() {
        assert_eq!(shims().own_place(), CallerLocation::Outside);
    }

    #[test]
    fn a_peer_that_is_alive_is_where_it_is_and_any_other_counts_as_inside() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = Peer::of(&ours).unwrap();
        assert!(peer.handle.is_some() && peer.pid == std::process::id().cast_signed());
        assert_eq!(shims().place_of(&Peer { pid: 0, ..peer }), CallerLocation::Inside(None));

        let parent = nix::unistd::getppid().as_raw();
        let alive = Peer { pid: parent, handle: PidFd::open(parent).ok() };
        assert_eq!(shims().place_of(&alive), CallerLocation::Outside);

        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        let handle = PidFd::open(pid).unwrap();
        child.wait().unwrap();
        let gone = Peer { pid: parent, handle: Some(handle) };
        assert_eq!(shims().place_of(&gone), CallerLocation::Inside(None));
        let gone = Peer { handle: None, ..gone };
        assert_eq!(shims().place_of(&gone), CallerLocation::Inside(None));
    }
}
