//! What this process knows of its children, and of the orphans that become its children: which execution
//! process they belong to, and whether a task waits for them. Its one lock is held for `/proc` reads and
//! wait(2) calls that do not wait, and nothing else is locked meanwhile.

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

/// Global, not part of [`Shims`](super::shims::Shims): the children and orphans belong to the whole process
/// (wait(2), prctl(2)).
static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// The registry. `place` asks it who a caller is; `rescue` asks it for statuses and for free orphans.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// A task waits for each of these pids. No other code may reap them.
    pub(super) waited_for: BTreeSet<i32>,
    /// The statuses of leaders that `reap_stray` reaped before their rescue asked.
    ended: BTreeMap<Process, ExitStatus>,
    /// Shims and proxies that this daemon or an earlier one has started.
    pub(super) shims: Roots,
    pub(super) leaders: Roots,
    /// Orphans that a rescue has taken for its process, so that no other rescue takes them.
    pub(super) claims: Roots,
}

/// Locks the registry. Nothing that waits may run while the guard lives.
pub(super) fn known() -> MutexGuard<'static, Known> {
    lock(&KNOWN)
}

/// Spawns a shim or a proxy. The lock is held over the spawn, so that no caller can ask for the location of
/// the child before it is registered.
pub(super) fn spawn_known(command: &mut Command, dir: &Path) -> io::Result<Child> {
    let mut known = known();
    let child = command.spawn()?;
    let pid = child.id().map_or(0, u32::cast_signed);
    known.waited_for.insert(pid);
    // Works even if the child is dead already: a zombie still shows its start time.
    if let Some(stat) = Stat::of(pid) {
        known.shims.insert(Process { pid, start_time: stat.start_time }, attempt_of(dir));
    }
    Ok(child)
}

/// Reaps a dead child that no task waits for. Keeps the status of a leader, which a rescue may ask for.
pub(super) fn reap_stray(stray: Process) {
    let mut known = known();
    if !known.waited_for.contains(&stray.pid)
        && let Reaped::Child(_, status) = reap(Some(stray.pid))
        && known.leaders.holds(stray)
    {
        known.ended.insert(stray, status);
    }
}

/// The status of a leader that is a dead child of ours and is reaped now, or that was reaped before. `None`:
/// it lives, or was not our child when it died. Each status is returned once.
pub(super) fn reap_leader(leader: Process) -> Option<ExitStatus> {
    let mut known = known();
    known.ended.remove(&leader).or_else(|| {
        match leader.holds_its_pid().then(|| reap(Some(leader.pid))) {
            Some(Reaped::Child(_, status)) => Some(status),
            _ => None,
        }
    })
}

/// Claims orphans for a rescued process. Returns those that no rescue has claimed before, without shims.
pub(super) fn claim(mut orphans: Vec<Process>, attempt: Option<AttemptId>) -> Vec<Process> {
    let mut known = known();
    orphans.retain(|orphan| !known.claims.holds(*orphan) && !known.shims.holds(*orphan));
    for orphan in &orphans {
        known.claims.insert(*orphan, attempt);
    }
    orphans
}

/// Registers the leader of a folder, unless it was started in another boot.
pub(super) fn learn_leader(started: &Started, folder: &Path) {
    if let Some(leader) = started.of_this_boot() {
        known().leaders.insert(leader, attempt_of(folder));
    }
}

/// The attempt or check run of a process's folder, `<attempt>/<process>`. `None`: the name is no id.
pub(super) fn attempt_of(folder: &Path) -> Option<AttemptId> {
    folder.parent()?.file_name()?.to_str()?.parse().ok()
}
