//! Kills or signals a whole tree. Blocks, for [`BUDGET`] at most.
//!
//! A tree that forks while it is being killed outruns any list of pids. So every member
//! is stopped first, until a search finds no new one; stopped processes do not fork. Then
//! all are killed. The next round finds what was forked in between.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::libc::{SIGCONT, SIGKILL, SIGSTOP};
use serde::{Deserialize, Serialize};

use super::cgroup::Cgroup;
use super::identity::Process;
use super::proc::{self, Stat};
use super::tree::Tree;

pub const BUDGET: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillReport {
    pub signalled: usize,
    /// Processes that survived: a fault, for a person to look at.
    pub survivors: Vec<Survivor>,
}

/// A process that survived a kill: stuck in the kernel, or another user's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    pub pid: i32,
    pub command: String,
}

/// Kills all members of the tree, then all that only their environment identifies.
/// `reap` is called whenever children of ours may have died.
pub fn kill_tree(tree: &Tree, reap: &mut dyn FnMut()) -> KillReport {
    let deadline = Instant::now() + BUDGET;
    let mut victims = BTreeSet::new();
    for find in [Tree::members, Tree::marked] {
        // A search must find nothing twice: a list of children can miss one when another
        // dies while it is read (proc_pid_task(5)).
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
                // Not for long: one that is stuck must not use up the others' time.
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

/// Stops all that `find` finds, until it finds nothing new.
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

/// How long one pass over a tree may take: the next one goes on.
const FREEZE_BUDGET: Duration = Duration::from_secs(5);

/// Stops what runs of a tree, until a search finds nothing new, and adds it to `stopped`, which
/// `before` gets before each round of signals. What stands still already is left as it is.
pub fn freeze_tree(
    tree: &Tree,
    stopped: &mut BTreeSet<Process>,
    before: &mut dyn FnMut(&BTreeSet<Process>),
) {
    let deadline = Instant::now() + FREEZE_BUDGET;
    // Its members can't be continued by anyone but us.
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
        if !running.is_empty() || stopped.is_empty() {
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

/// Continues what [`freeze_tree`] has stopped.
pub fn thaw_tree(tree: &Tree, stopped: &BTreeSet<Process>) {
    if let Some(cgroup) = &tree.cgroup {
        cgroup.freeze(false);
    }
    for process in stopped {
        process.signal(SIGCONT);
    }
}

/// Sends a signal to every member, and then SIGCONT unless the tree is to stand still. Returns how
/// many got it.
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
