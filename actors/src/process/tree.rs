//! Which processes belong to one execution process: everything that its leader started,
//! whatever session, group or parent it has by now.
//!
//! A living shim is a subreaper, so all of them are below it (prctl(2)). Without it they are
//! identified by the leader, the leader's session, and the environment that they inherited;
//! only the last of these can be removed on purpose.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use nix::unistd::geteuid;

use super::cgroup::Cgroup;
use super::identity::Process;
use super::proc::{self, Stat};
use crate::ids::{AttemptId, ProcessId};

/// Where to look for the processes of one execution process.
#[derive(Clone, Debug)]
pub struct Tree {
    /// All below this one, which is spared itself: a shim.
    pub below: Option<i32>,
    pub roots: Vec<Process>,
    /// All in the session of this one, the leader.
    pub session_of: Option<Process>,
    /// The subreaper above a shim that has died; its orphans may be ours.
    pub adopter: Option<i32>,
    pub cgroup: Option<Cgroup>,
    pub marker: Marker,
    /// Never part of the tree, nor what is below them: the daemon, ourselves.
    pub spared: BTreeSet<i32>,
}

impl Tree {
    /// A tree whose shim has died, and of which only the marker is known.
    pub fn without_shim(marker: Marker) -> Self {
        let own = std::process::id().cast_signed();
        Self {
            below: None,
            roots: Vec::new(),
            session_of: None,
            adopter: Some(own),
            cgroup: None,
            marker,
            spared: BTreeSet::from([own]),
        }
    }

    pub fn is_gone(&self) -> bool {
        self.members().is_empty() && self.marked().is_empty()
    }

    /// The living members that parents and sessions lead to.
    pub fn members(&self) -> Vec<Process> {
        let mut found = BTreeSet::new();
        if let Some(shim) = self.below {
            for child in proc::children(shim) {
                self.add(child, &mut found);
            }
        }
        for root in self.roots.iter().filter(|root| root.is_alive()) {
            self.add(root.pid, &mut found);
        }
        for pid in self.cgroup.iter().flat_map(Cgroup::members) {
            self.add(pid, &mut found);
        }
        if let Some(leader) = self.session_of {
            for pid in proc::all() {
                if Stat::of(pid).is_some_and(|stat| self.is_in_session(leader, &stat)) {
                    self.add(pid, &mut found);
                }
            }
        }
        found.into_iter().collect()
    }

    /// The living ones that carry the marker and that no other shim supervises, and all below.
    pub fn marked(&self) -> Vec<Process> {
        let own = geteuid().as_raw();
        let mut found = BTreeSet::new();
        for pid in proc::all() {
            let ours = fs::metadata(format!("/proc/{pid}")).is_ok_and(|meta| meta.uid() == own);
            if ours
                && self.marker.claims(&proc::environ(pid))
                && shim_above(pid, &self.spared).is_none()
            {
                self.add(pid, &mut found);
            }
        }
        found.into_iter().collect()
    }

    /// The shims of this execution process.
    pub fn shims_above(&self) -> BTreeSet<Process> {
        let is_own = |shim: &i32| self.marker.is_its_shim(*shim);
        let carries = |pid: &i32| self.marker.claims(&proc::environ(*pid));
        let shim = |pid| shim_above(pid, &self.spared).filter(is_own).and_then(Process::of);
        proc::all().into_iter().filter(carries).filter_map(shim).collect()
    }

    /// Whether a process was certainly not started by the leader. `false` for one that is gone.
    pub fn is_outside(&self, pid: i32) -> bool {
        // Without the shim that started it, an orphan's parents prove nothing.
        if self.below.is_none() && self.marker.claims(&proc::environ(pid)) {
            return false;
        }
        let mut at = pid;
        loop {
            let Some(stat) = Stat::of(at) else { return false };
            let above = Some(stat.ppid);
            if self.roots.iter().any(|root| root.pid == at)
                || self.session_of.is_some_and(|leader| leader.pid == stat.session)
                || above == self.below
            {
                return false;
            }
            if stat.ppid <= 1 {
                return true;
            }
            at = stat.ppid;
        }
    }

    fn add(&self, pid: i32, found: &mut BTreeSet<Process>) {
        let mut pids = vec![pid];
        while let Some(pid) = pids.pop() {
            if !self.spared.contains(&pid)
                && let Some(process) = Process::of(pid)
                && found.insert(process)
            {
                pids.extend(proc::children(pid));
            }
        }
    }

    /// A session's number is its first process's pid. Once the session is gone another one may
    /// have it, so without its leader a session proves something only of our orphans.
    fn is_in_session(&self, leader: Process, stat: &Stat) -> bool {
        let leader_is_there =
            || Stat::of(leader.pid).is_some_and(|stat| stat.start_time == leader.start_time);
        stat.session == leader.pid
            && stat.start_time >= leader.start_time
            && (self.adopter == Some(stat.ppid) || leader_is_there())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    pub attempt: AttemptId,
    pub process: ProcessId,
}

impl Marker {
    /// Set in every process of an attempt.
    pub const ATTEMPT: &str = "PROVOST_ATTEMPT_ID";
    /// Tells the processes of one attempt apart, where it is set.
    pub const PROCESS: &str = "PROVOST_PROCESS_ID";

    /// Of an environment that names both.
    pub fn of(environ: &[u8]) -> Option<Self> {
        let named = |name| str::from_utf8(value(environ, name)?).ok();
        let attempt = named(Self::ATTEMPT)?.parse().ok()?;
        Some(Self { attempt, process: named(Self::PROCESS)?.parse().ok()? })
    }

    pub fn is_in(environ: &[u8]) -> bool {
        value(environ, Self::ATTEMPT).is_some()
    }

    /// Whether this execution process has started a process, whatever has become of that. All are
    /// below its shim, and below no shim if that has died and another one has taken over.
    pub fn has_started(&self, pid: i32) -> bool {
        let spared = BTreeSet::from([std::process::id().cast_signed()]);
        let mut above = shim_above(pid, &spared);
        if above.is_none() {
            return self.claims(&proc::environ(pid));
        }
        while let Some(shim) = above.filter(|shim| !self.is_its_shim(*shim)) {
            above = shim_above(shim, &spared);
        }
        above.is_some()
    }

    /// By the shim's working folder, which may be deleted.
    fn is_its_shim(&self, shim: i32) -> bool {
        let folder = format!("/{}/{}", self.attempt, self.process);
        let cwd = fs::read_link(format!("/proc/{shim}/cwd")).unwrap_or_default();
        cwd.to_string_lossy().trim_end_matches(" (deleted)").ends_with(&folder)
    }

    /// Whether this environment (`NAME=value`, NUL) is that of our execution process.
    pub fn claims(&self, environ: &[u8]) -> bool {
        let attempt = self.attempt.to_string();
        let process = self.process.to_string();
        value(environ, Self::ATTEMPT) == Some(attempt.as_bytes())
            && value(environ, Self::PROCESS).is_none_or(|id| id == process.as_bytes())
    }
}

fn value<'a>(environ: &'a [u8], name: &str) -> Option<&'a [u8]> {
    environ
        .split(|&byte| byte == 0)
        .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// Whether a process is in another attempt than this one's: below a shim that is not above this
/// process, too.
pub fn is_in_another_attempt(pid: i32) -> bool {
    let mut own = BTreeSet::from([std::process::id().cast_signed()]);
    let mut at = Stat::of(std::process::id().cast_signed());
    while let Some(stat) = at.filter(|stat| stat.ppid > 1) {
        own.insert(stat.ppid);
        at = Stat::of(stat.ppid);
    }
    shim_above(pid, &own).is_some()
}

/// The next shim above a process, unless one that is spared comes first.
fn shim_above(mut pid: i32, spared: &BTreeSet<i32>) -> Option<i32> {
    while let Some(stat) = Stat::of(pid).filter(|stat| stat.ppid > 1) {
        pid = stat.ppid;
        if spared.contains(&pid) {
            return None;
        }
        if proc::is_shim(pid) {
            return Some(pid);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_claims_its_own_attempt_and_process_alone() {
        let marker = Marker { attempt: AttemptId::new(), process: ProcessId::new() };
        let attempt = format!("PROVOST_ATTEMPT_ID={}\0", marker.attempt);
        let process = format!("PROVOST_PROCESS_ID={}\0", marker.process);
        let claims = |environ: String| marker.claims(environ.as_bytes());

        assert!(claims(format!("A=1\0{attempt}")));
        assert!(claims(format!("{process}{attempt}B=\0")));
        assert!(!claims(process.clone()));
        assert!(!claims(format!("X{attempt}")));
        assert!(!claims(format!("PROVOST_ATTEMPT_ID={}\0", AttemptId::new())));
        assert!(!claims(format!("{attempt}PROVOST_PROCESS_ID={}\0", ProcessId::new())));
        assert!(!claims(String::new()));
    }
}
