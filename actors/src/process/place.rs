//! Whether a process belongs to an attempt, by what the kernel shows of its ancestors. What a
//! process claims doesn't count.
//!
//! Everything that an attempt starts stays below its shim, which adopts its orphans
//! (prctl(2)). Those of a killed shim become children of the daemon, or stay below their
//! leader. The daemon knows its shims and leaders by pid and start time. Of several above one
//! process the outermost counts: a process that only poses as a shim can't be above a real one.
//! A process in a box counts as inside also where none of its ancestors is known any more.

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

/// How often a line of ancestors that changes meanwhile is read again.
const TRIES: u32 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallerLocation {
    /// All of its ancestors were seen, and none belongs to an attempt.
    Outside,
    /// It is part of an attempt (`None`: an unknown one), or nothing proves that it is not.
    Inside(Option<AttemptId>),
}

impl CallerLocation {
    pub fn is_inside(self) -> bool {
        self != Self::Outside
    }

    pub fn attempt(self) -> Option<AttemptId> {
        match self {
            Self::Inside(attempt) => attempt,
            Self::Outside => None,
        }
    }
}

/// One in a line of ancestors: what must not change while the line is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    process: Process,
    parent: i32,
    session: i32,
}

/// A process and its ancestors, up to the daemon; `None` when one can't be looked at.
fn line_of(mut pid: i32, daemon: i32) -> Option<Vec<Link>> {
    let mut line = Vec::new();
    loop {
        let Stat { ppid: parent, session, start_time, .. } = Stat::of(pid)?;
        line.push(Link { process: Process { pid, start_time }, parent, session });
        // The parent of the first process, and of one that came from outside the namespace.
        if parent == 0 || pid == daemon {
            return Some(line);
        }
        pid = parent;
    }
}

impl Shims {
    /// Where a connection's peer belongs. One that has ended counts as inside.
    pub fn place_of(&self, peer: &Peer) -> CallerLocation {
        peer.sure(place).unwrap_or(CallerLocation::Inside(None))
    }

    /// Where several processes that share something belong: inside an attempt if one of them does.
    pub fn place_of_all(&self, pids: &[i32]) -> CallerLocation {
        let places = pids.iter().map(|pid| place(*pid));
        places.into_iter().find(|place| place.is_inside()).unwrap_or(CallerLocation::Outside)
    }

    pub fn own_place(&self) -> CallerLocation {
        match nix::unistd::getppid().as_raw() {
            // The first process of its namespace.
            0 => CallerLocation::Outside,
            parent => place(parent),
        }
    }

    /// Learns the shims, their proxies and the leaders that earlier daemons left: those that work
    /// below `homes`. Looking like a shim is enough here, since the outermost counts.
    pub fn recognise(&self, homes: &[PathBuf]) {
        let homes: Vec<PathBuf> =
            homes.iter().filter_map(|home| fs::canonicalize(home).ok()).collect();
        let own = geteuid().as_raw();
        for pid in proc::all() {
            // Its folder first, which takes one call; and the owner before the arguments: to read those
            // of another one's process may block.
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

fn place(pid: i32) -> CallerLocation {
    let daemon = std::process::id().cast_signed();
    for _ in 0..TRIES {
        // A parent that ends gives its children another: two equal reads count.
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

fn judge(line: &[Link], daemon: i32) -> CallerLocation {
    let known = known();
    let roots = [&known.shims, &known.leaders, &known.claims];
    let owner =
        |link: &Link| roots.iter().find_map(|roots| roots.owner(link.process, link.session));
    match line.iter().rev().find_map(owner) {
        Some(attempt) => CallerLocation::Inside(attempt),
        // What the daemon runs, and orphans of a shim that was killed.
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
