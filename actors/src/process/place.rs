//! Where a process stands to the attempts, by what the kernel shows of its
//! ancestors. Whatever a process says of itself is not asked.
//!
//! Everything that an attempt starts stays below its shim, which adopts its
//! orphans (prctl(2)). Those of a killed shim become children of the daemon, or stay below
//! their leader. The daemon knows its shims and their leaders by pid and
//! start time. Of several above one process the outermost counts: one that only
//! poses as a shim can't stand above a real one.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::{PeerCredentials, PeerPidfd};
use nix::unistd::geteuid;

use super::identity::{Identity, Process};
use super::manifest::{self, Started};
use super::pidfd::PidFd;
use super::proc::{self, Stat};
use super::roots::attempt_of;
use super::shims::Shims;
use crate::ids::AttemptId;

/// How often a line of ancestors is read that changes while it is read.
const TRIES: u32 = 100;

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The line of its ancestors was seen to its end, and none is of an attempt.
    Outside,
    /// It is part of an attempt, or nothing proves that it is not; `None`: of which
    /// one is not known.
    Inside(Option<AttemptId>),
}

impl Place {
    pub fn is_inside(self) -> bool {
        self != Self::Outside
    }

    /// The attempt that it is part of, where that is known.
    pub fn attempt(self) -> Option<AttemptId> {
        match self {
            Self::Inside(attempt) => attempt,
            Self::Outside => None,
        }
    }
}

/// The process that connected a socket.
#[derive(Debug)]
pub struct Peer {
    /// 0: a process that this PID namespace does not show.
    pid: i32,
    /// `None`: it has ended.
    handle: Option<PidFd>,
}

impl Peer {
    /// Who is at the other end of a connected Unix socket.
    ///
    /// # Errors
    /// It is no such socket.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        let pid = getsockopt(socket, PeerCredentials)?.pid();
        let handle = match getsockopt(socket, PeerPidfd) {
            Ok(handle) => Some(PidFd::from(handle)),
            // Linux before 6.5: the process that has the pid now, which may be a later one.
            Err(Errno::ENOPROTOOPT) if pid > 0 => PidFd::open(pid).ok(),
            Err(_) => None,
        };
        Ok(Self { pid, handle })
    }

    fn is_alive(&self) -> bool {
        self.handle.as_ref().is_some_and(|handle| !handle.wait_dead(Duration::ZERO))
    }
}

/// One in a line of ancestors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    process: Process,
    stat: LinkStat,
}

/// What must not change while a line is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LinkStat {
    parent: i32,
    session: i32,
}

/// A process and its ancestors, itself first; the daemon, where it is one of them,
/// last. `None` when one can't be looked at.
fn line_of(mut pid: i32, daemon: i32) -> Option<Vec<Link>> {
    let mut line = Vec::new();
    loop {
        let Stat { ppid, session, start_time, .. } = Stat::of(pid)?;
        let stat = LinkStat { parent: ppid, session };
        line.push(Link { process: Process { pid, start_time }, stat });
        // The parent of the first process, and of one that came from outside the namespace.
        if ppid == 0 || pid == daemon {
            return Some(line);
        }
        pid = ppid;
    }
}

impl Shims {
    /// Where the process at the other end of a connection stands. One that has ended,
    /// or that can't be looked at, counts as inside.
    pub fn place_of(&self, peer: &Peer) -> Place {
        if peer.pid <= 0 {
            return Place::Inside(None);
        }
        let place = self.place(peer.pid);
        // Alive now, it had its pid all along.
        if peer.is_alive() { place } else { Place::Inside(None) }
    }

    /// The same of this process, which has no peer.
    pub fn own_place(&self) -> Place {
        match nix::unistd::getppid().as_raw() {
            // The first process of its namespace.
            0 => Place::Outside,
            parent => self.place(parent),
        }
    }

    fn place(&self, pid: i32) -> Place {
        let daemon = std::process::id().cast_signed();
        for _ in 0..TRIES {
            // A parent that ends gives its children another: a line counts once it
            // has been read twice.
            let line = line_of(pid, daemon);
            if let Some(line) = line
                && line_of(pid, daemon).as_ref() == Some(&line)
            {
                return self.judge(&line, daemon);
            }
        }
        Place::Inside(None)
    }

    fn judge(&self, line: &[Link], daemon: i32) -> Place {
        let known = self.known();
        let roots = [&known.shims, &known.leaders, &known.claims];
        let owner = |link: &Link| {
            roots.iter().find_map(|roots| roots.owner(link.process, link.stat.session))
        };
        match line.iter().rev().find_map(owner) {
            Some(attempt) => Place::Inside(attempt),
            // What the daemon runs, and orphans of a shim that was killed.
            None if line.last().is_some_and(|last| last.process.pid == daemon) => {
                Place::Inside(None)
            }
            None => Place::Outside,
        }
    }

    /// Learns the shims and leaders that earlier daemons left, by the folders that
    /// shims work in: whatever is below `homes`. To be called before any place is
    /// asked for.
    ///
    /// What a shim looks like is enough here, since the outermost counts.
    pub fn recognise(&self, homes: &[PathBuf]) {
        let homes: Vec<PathBuf> =
            homes.iter().filter_map(|home| fs::canonicalize(home).ok()).collect();
        let own = geteuid().as_raw();
        for pid in proc::all() {
            let looks_like_one = proc::real_uid(pid) == Some(own) && proc::is_shim(pid);
            if looks_like_one
                && let Some(shim) = Process::of(pid)
                && let Ok(folder) = fs::read_link(format!("/proc/{pid}/cwd"))
                && homes.iter().any(|home| folder.starts_with(home))
            {
                self.known().shims.insert(shim, attempt_of(&folder));
                if let Ok(Some(started)) = manifest::read::<Started>(&folder, Started::FILE) {
                    self.learn_leader(&started, &folder);
                }
            }
        }
    }

    /// Remembers the leader of a process folder.
    pub(super) fn learn_leader(&self, started: &Started, folder: &Path) {
        if let Some(leader) = Identity::from(started).of_this_boot() {
            self.known().leaders.insert(leader, attempt_of(folder));
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests need real children")]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::process::{Child, Command, Stdio};

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
        let (family, shims) = (Family::new(), shims());
        let attempt = AttemptId::new();
        // This process is their ancestor: what it runs for itself is inside as well.
        assert_eq!(shims.place(family.child), Place::Inside(None));
        shims.known().shims.insert(family.parent(), Some(attempt));
        assert_eq!(shims.place(family.child), Place::Inside(Some(attempt)));
        let pretender = Process::of(family.child).unwrap();
        shims.known().shims.insert(pretender, Some(AttemptId::new()));
        assert_eq!(shims.place(family.child), Place::Inside(Some(attempt)));
    }

    #[test]
    fn an_earlier_process_with_the_pid_of_a_root_is_none() {
        let (family, shims) = (Family::new(), shims());
        let mut earlier = family.parent();
        earlier.start_time -= 1;
        shims.known().shims.insert(earlier, Some(AttemptId::new()));
        assert_eq!(shims.place(family.child), Place::Inside(None));
    }

    #[test]
    fn the_parent_of_this_process_is_outside() {
        assert_eq!(shims().own_place(), Place::Outside);
    }

    #[test]
    fn a_peer_that_has_ended_or_is_not_shown_counts_as_inside() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = Peer::of(&ours).unwrap();
        assert!(peer.is_alive() && peer.pid == std::process::id().cast_signed());
        assert_eq!(shims().place_of(&Peer { pid: 0, ..peer }), Place::Inside(None));

        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        let handle = PidFd::open(pid).unwrap();
        child.wait().unwrap();
        let gone = Peer { pid: nix::unistd::getppid().as_raw(), handle: Some(handle) };
        assert_eq!(shims().place_of(&gone), Place::Inside(None));
        let gone = Peer { handle: None, ..gone };
        assert_eq!(shims().place_of(&gone), Place::Inside(None));
    }
}
