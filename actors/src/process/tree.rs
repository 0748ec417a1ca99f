//! Which processes belong to one execution process: everything that its leader started, whatever session,
//! group or parent it has by now. Reads `/proc` only.
//!
//! A living shim is a subreaper (prctl(2)), so all of them are below it. Without the shim they are found by
//! four signs: below the leader or a known orphan, in the leader's session, in the cgroup, or with the marker
//! in their environment. A process can leave the session and remove the marker; it can't leave the cgroup.

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
    /// The shim: all below it belong to the tree, the shim itself does not. `None`: the shim is dead, or the
    /// caller is a rescue shim, which is not above the tree.
    pub below: Option<i32>,
    /// The leader and orphans: they and all below them belong to the tree.
    pub roots: Vec<Process>,
    /// The leader: all processes in its session belong to the tree.
    pub session_of: Option<Process>,
    /// The subreaper that adopts the orphans of a dead shim: the daemon. Some of its children may be ours.
    pub adopter: Option<i32>,
    pub cgroup: Option<Cgroup>,
    pub marker: Marker,
    /// These pids and all below them never belong to the tree: the daemon, this process, clients of the shim.
    pub spared: BTreeSet<i32>,
}

impl Tree {
    /// A tree of which only the marker is known. The caller adds what it knows by struct update.
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

    /// Whether no process of the tree is alive. Searches all processes.
    pub fn is_gone(&self) -> bool {
        self.members().is_empty() && self.marked().is_empty()
    }

    /// The living members that parents, the session and the cgroup lead to. Without `session_of` this does
    /// not search all processes.
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

    /// The living processes of this user that have the marker and no shim above them, and all below those.
    /// Searches all processes.
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

    /// The shims of this execution process, found by their working folder. Used when the folder, and with
    /// it the socket, is deleted.
    pub fn shims(&self) -> BTreeSet<Process> {
        let own = geteuid().as_raw();
        // The owner is checked first: reading files of another user's process may block.
        let is_own = |pid: &i32| {
            !self.spared.contains(pid)
                && proc::real_uid(*pid) == Some(own)
                && proc::is_shim(*pid)
                && self.marker.is_its_shim(*pid)
        };
        proc::all().into_iter().filter(is_own).filter_map(Process::of).collect()
    }

    /// Whether a process certainly does not belong to the tree. `false` without proof, as for one that is
    /// gone.
    pub fn is_outside(&self, pid: i32) -> bool {
        // Without the shim, an orphan of ours has the daemon as its parent, so its parents prove nothing.
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

    /// Adds a living process and all below it, without those that are spared and what is below them.
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

    /// Whether a process is in the session that the leader began. A session's number is the pid of the
    /// process that began it, and once the session is gone another one may get the number. So when the
    /// leader does not hold its pid any more, the number counts only for children of the adopter.
    fn is_in_session(&self, leader: Process, stat: &Stat) -> bool {
        let leader_is_there =
            || Stat::of(leader.pid).is_some_and(|stat| stat.start_time == leader.start_time);
        stat.session == leader.pid
            && stat.start_time >= leader.start_time
            && (self.adopter == Some(stat.ppid) || leader_is_there())
    }
}

/// The ids of an execution process, as its processes have them in their environment. For a check, the check
/// run's id is in the attempt's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    pub attempt: AttemptId,
    pub process: ProcessId,
}

impl Marker {
    /// The variable that every process of an attempt has.
    pub const ATTEMPT: &str = "PROVOST_ATTEMPT_ID";
    /// The variable that tells the execution processes of one attempt apart.
    pub const PROCESS: &str = "PROVOST_PROCESS_ID";

    /// The marker of an environment; `None`: it lacks one of the two ids.
    pub fn of(environ: &[u8]) -> Option<Self> {
        let named = |name| str::from_utf8(value(environ, name)?).ok();
        let attempt = named(Self::ATTEMPT)?.parse().ok()?;
        Some(Self { attempt, process: named(Self::PROCESS)?.parse().ok()? })
    }

    /// Whether an environment names any attempt.
    pub fn is_in(environ: &[u8]) -> bool {
        value(environ, Self::ATTEMPT).is_some()
    }

    /// Whether a process belongs to this execution process. All its processes are below its shim, except
    /// after a rescue: then they are below no shim, and the environment decides. A shim of a nested attempt
    /// may be between, so all shims above are examined.
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

    /// Whether a shim supervises this execution process, by its working folder, which may be deleted.
    fn is_its_shim(&self, shim: i32) -> bool {
        let folder = format!("/{}/{}", self.attempt, self.process);
        let cwd = fs::read_link(format!("/proc/{shim}/cwd")).unwrap_or_default();
        cwd.to_string_lossy().trim_end_matches(" (deleted)").ends_with(&folder)
    }

    /// Whether this environment (`NAME=value` entries, each ended by NUL) is of our execution process. One
    /// with our attempt and without a process id counts too.
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

/// Whether a process is in another attempt than this shim's: below a shim that is neither this process nor
/// above it.
pub fn is_in_another_attempt(pid: i32) -> bool {
    let mut own = BTreeSet::from([std::process::id().cast_signed()]);
    let mut at = Stat::of(std::process::id().cast_signed());
    while let Some(stat) = at.filter(|stat| stat.ppid > 1) {
        own.insert(stat.ppid);
        at = Stat::of(stat.ppid);
    }
    shim_above(pid, &own).is_some()
}

/// The nearest shim above a process. `None`: there is none, or a spared process is nearer.
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
