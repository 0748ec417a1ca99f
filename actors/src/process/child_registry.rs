//! What this process knows of its children, and of the orphans that become its children: who they are,
//! and who waits for them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::{LazyLock, Mutex, MutexGuard};

use tokio::process::{Child, Command};

use super::identity::{Process, Reaped, reap};
use super::proc::Stat;
use super::records::Started;
use super::roots::Roots;
use crate::blocking::lock;
use crate::ids::AttemptId;

/// One for all [`Shims`](super::shims::Shims): a process has its children and orphans once (wait(2),
/// prctl(2)).
static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

#[derive(Debug, Default)]
pub(super) struct Known {
    /// A task waits for each of these pids; no other may reap them.
    pub(super) waited_for: BTreeSet<i32>,
    /// How leaders ended that were reaped before their rescue asked.
    ended: BTreeMap<Process, ExitStatus>,
    pub(super) shims: Roots,
    pub(super) leaders: Roots,
    /// Orphans that belong to a rescued process.
    pub(super) claims: Roots,
}

pub(super) fn known() -> MutexGuard<'static, Known> {
    lock(&KNOWN)
}

/// Spawns a shim and registers it before any caller can ask for its place.
pub(super) fn spawn_known(command: &mut Command, dir: &Path) -> io::Result<Child> {
    let mut known = known();
    let child = command.spawn()?;
    let pid = child.id().map_or(0, u32::cast_signed);
    known.waited_for.insert(pid);
    // A zombie has its start time too.
    if let Some(stat) = Stat::of(pid) {
        known.shims.insert(Process { pid, start_time: stat.start_time }, attempt_of(dir));
    }
    Ok(child)
}

/// Reaps a dead child of ours that no task waits for. A rescue may need a leader's status.
pub(super) fn reap_stray(stray: Process) {
    let mut known = known();
    if !known.waited_for.contains(&stray.pid)
        && let Reaped::Child(_, status) = reap(Some(stray.pid))
        && known.leaders.holds(stray)
    {
        known.ended.insert(stray, status);
    }
}

/// The status of a leader that is, or was, a dead child of ours.
pub(super) fn reap_leader(leader: Process) -> Option<ExitStatus> {
    let mut known = known();
    known.ended.remove(&leader).or_else(|| {
        match leader.holds_its_pid().then(|| reap(Some(leader.pid))) {
            Some(Reaped::Child(_, status)) => Some(status),
            _ => None,
        }
    })
}

/// Claims orphans for a rescued process. Returns those that were free, and no shims.
pub(super) fn claim(mut orphans: Vec<Process>, attempt: Option<AttemptId>) -> Vec<Process> {
    let mut known = known();
    orphans.retain(|orphan| !known.claims.holds(*orphan) && !known.shims.holds(*orphan));
    for orphan in &orphans {
        known.claims.insert(*orphan, attempt);
    }
    orphans
}

pub(super) fn learn_leader(started: &Started, folder: &Path) {
    if let Some(leader) = started.of_this_boot() {
        known().leaders.insert(leader, attempt_of(folder));
    }
}

pub(super) fn attempt_of(folder: &Path) -> Option<AttemptId> {
    folder.parent()?.file_name()?.to_str()?.parse().ok()
}
