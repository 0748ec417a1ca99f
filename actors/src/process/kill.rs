//! Kills, freezes or signals a whole tree. Every function blocks: a kill for about [`BUDGET`], a pass of a
//! freeze for about `FREEZE_BUDGET`.
//!
//! A tree that forks while the kill runs outruns any list of pids. Stopped processes do not fork, so a kill
//! stops first, and works in rounds:
//!
//! ```text
//!  search ──found──▶ SIGSTOP all, search again until nothing new ──▶ SIGKILL all ─┐
//!    ▲  │                                                                         │
//!    │  └─nothing, twice in a row──▶ (the tree is dead)                           ▼
//!    └──────────────────────────────── reap ◀─── wait for each, 100 ms at most ───┘
//! ```
//!
//! The first rounds search by parents, sessions and cgroup (`Tree::members`), the last ones by the marker in
//! the environment (`Tree::marked`).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::libc::{SIGCONT, SIGKILL, SIGSTOP};
use serde::{Deserialize, Serialize};

use super::cgroup::Cgroup;
use super::identity::Process;
use super::proc::{self, Stat};
use super::tree::Tree;

/// How long [`kill_tree`] begins new rounds. What is alive then is a survivor.
pub const BUDGET: Duration = Duration::from_secs(10);

/// The result of [`kill_tree`]. A shim sends it to the daemon as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillReport {
    /// How many processes got SIGKILL, over all rounds.
    pub signalled: usize,
    /// Processes that survived. This is a fault that a person has to look at.
    pub survivors: Vec<Survivor>,
}

/// A process that survived a kill: it is stuck in the kernel, or belongs to another user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    pub pid: i32,
    pub command: String,
}

/// Kills all members of the tree, then all processes that only their environment identifies.
/// Calls `reap` after each round: some of the dead may be children of this process.
pub fn kill_tree(tree: &Tree, reap: &mut dyn FnMut()) -> KillReport {
    let deadline = Instant::now() + BUDGET;
    let mut victims = BTreeSet::new();
    for find in [Tree::members, Tree::marked] {
        // A search must find nothing twice in a row: the kernel's list of children can leave one out when
        // another child dies while the list is read (proc_pid_task(5)).
        let mut empty = 0;
        while empty < 2 && Instant::now() < deadline {
            let found = freeze(|| find(tree), deadline);
            if found.is_empty() {
                empty += 1;
                continue;
            }
            empty = 0;
            for process in &found {
                process.signal(SIGKILL);
            }
            if let Some(cgroup) = &tree.cgroup {
                cgroup.kill();
            }
            for handle in found.iter().filter_map(|process| process.open()) {
                // A short wait: one process that is stuck must not use up the time for the others.
                let left = deadline.saturating_duration_since(Instant::now());
                handle.wait_dead(left.min(Duration::from_millis(100)));
            }
            reap();
            victims.extend(found);
        }
    }
    let all: BTreeSet<Process> = victims.iter().copied().chain(tree.members()).collect();
    let survivors = all.into_iter().filter(|process| process.is_alive());
    let survivors = survivors
        .map(|Process { pid, .. }| Survivor { pid, command: proc::command_name(pid) })
        .collect();
    KillReport { signalled: victims.len(), survivors }
}

/// Stops the processes that `find` returns, until it returns no new one or the time is up.
fn freeze(find: impl Fn() -> Vec<Process>, deadline: Instant) -> BTreeSet<Process> {
    let mut frozen = BTreeSet::new();
    loop {
        let new: Vec<_> = find().into_iter().filter(|process| frozen.insert(*process)).collect();
        for process in &new {
            process.signal(SIGSTOP);
        }
        if new.is_empty() || Instant::now() >= deadline {
            return frozen;
        }
    }
}

/// How long one pass over a tree may take. The next pass, 250 ms later (`shim/fence.rs`), continues.
const FREEZE_BUDGET: Duration = Duration::from_secs(5);

/// Stops the running members of a tree until a search finds no new one, and adds them to `stopped`.
/// Processes that are stopped already are not added, so that [`thaw_tree`] does not continue them.
/// Calls `before` with the whole set before it freezes the cgroup, and before each round of SIGSTOP: the
/// caller writes the set to disk, so that a later shim knows of every process that is stopped.
pub fn freeze_tree(
    tree: &Tree,
    stopped: &mut BTreeSet<Process>,
    before: &mut dyn FnMut(&BTreeSet<Process>),
) {
    let deadline = Instant::now() + FREEZE_BUDGET;
    if stopped.is_empty() {
        before(stopped);
    }
    // SIGCONT does not thaw a frozen cgroup, so its members need no SIGSTOP.
    let cgroup = tree.cgroup.as_ref().filter(|cgroup| cgroup.freeze(true));
    let mut seen = BTreeSet::new();
    loop {
        let mut found = tree.members();
        if tree.below.is_none() {
            found.extend(tree.marked());
        }
        let new: Vec<_> = found.into_iter().filter(|process| seen.insert(*process)).collect();
        let held = cgroup.map(Cgroup::members).unwrap_or_default();
        let runs = |process: &&Process| {
            !held.contains(&process.pid)
                && Stat::of(process.pid).is_some_and(|stat| stat.state != b'T')
        };
        let running: Vec<Process> = new.iter().filter(runs).copied().collect();
        if !running.is_empty() {
            stopped.extend(&running);
            before(stopped);
        }
        for process in running {
            process.signal(SIGSTOP);
        }
        if new.is_empty() || Instant::now() >= deadline {
            return;
        }
    }
}

/// Continues the processes that [`freeze_tree`] has stopped, and thaws the cgroup.
pub fn thaw_tree(tree: &Tree, stopped: &BTreeSet<Process>) {
    if let Some(cgroup) = &tree.cgroup {
        cgroup.freeze(false);
    }
    for process in stopped {
        process.signal(SIGCONT);
    }
}

/// Sends a signal to every member. Then sends SIGCONT, so that a stopped process handles the signal, unless
/// the tree is frozen or the signal is SIGSTOP or SIGKILL. Returns how many processes got the signal.
pub fn signal_tree(tree: &Tree, signal: i32, is_frozen: bool) -> usize {
    let signalled: Vec<Process> =
        tree.members().into_iter().filter(|process| process.signal(signal)).collect();
    if !is_frozen && !matches!(signal, SIGSTOP | SIGKILL) {
        for process in &signalled {
            process.signal(SIGCONT);
        }
    }
    signalled.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{AttemptId, ProcessId};
    use crate::process::tree::Marker;

    #[test]
    fn a_freeze_is_on_record_before_it_begins() {
        let dir = tempfile::tempdir().unwrap();
        // A folder in which the kernel does nothing.
        let cgroup = Cgroup::named(dir.path(), "x");
        cgroup.make().unwrap();
        let marker = Marker { attempt: AttemptId::new(), process: ProcessId::new() };
        let tree = Tree { cgroup: Some(cgroup.clone()), ..Tree::without_shim(marker) };
        let mut recorded = Vec::new();
        let mut before = |_: &BTreeSet<Process>| recorded.push(cgroup.is_frozen());
        freeze_tree(&tree, &mut BTreeSet::new(), &mut before);
        assert_eq!((recorded, cgroup.is_frozen()), (vec![false], true));
    }
}
