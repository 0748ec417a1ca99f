//! Ending a whole tree, and signalling one: the only place that decides in
//! which order processes die. Blocks, for [`BUDGET`] at most.
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
use super::proc;
use super::tree::Tree;

/// How long the dying may take.
pub const BUDGET: Duration = Duration::from_secs(10);

/// The result of a kill.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillReport {
    /// How many processes were signalled.
    pub signalled: usize,
    /// Processes that survived: a fault, for a person to look at.
    pub survivors: Vec<Survivor>,
}

/// A process that survived a kill: stuck in the kernel, or another user's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    pub pid: i32,
    /// The command's name, 15 bytes at most.
    pub command: String,
}

/// Kills all members of the tree, then all that only their environment identifies.
/// `reap` is called whenever children of ours may have died.
pub fn kill_tree(tree: &Tree, reap: &mut dyn FnMut()) -> KillReport {
    let deadline = Instant::now() + BUDGET;
    let cgroup = tree.cgroup.as_ref();
    let mut round = Round { victims: BTreeSet::new(), deadline, cgroup, reap };
    round.kill_all(&|| tree.members());
    round.kill_all(&|| tree.marked());

    let Round { victims, .. } = round;
    let survivors = victims
        .iter()
        .copied()
        .chain(tree.members())
        .filter(|process| process.is_alive())
        .collect::<BTreeSet<_>>();
    KillReport {
        signalled: victims.len(),
        survivors: survivors
            .into_iter()
            .map(|Process { pid, .. }| Survivor { pid, command: proc::command_name(pid) })
            .collect(),
    }
}

/// Sends a signal to every member, and SIGCONT after it so that a stopped one
/// gets to handle it. Returns how many were signalled.
pub fn signal_tree(tree: &Tree, signal: i32) -> usize {
    let signalled: Vec<Process> =
        tree.members().into_iter().filter(|process| process.signal(signal)).collect();
    if !matches!(signal, SIGSTOP | SIGKILL) {
        for process in &signalled {
            process.signal(SIGCONT);
        }
    }
    signalled.len()
}

struct Round<'a> {
    victims: BTreeSet<Process>,
    deadline: Instant,
    cgroup: Option<&'a Cgroup>,
    reap: &'a mut dyn FnMut(),
}

impl Round<'_> {
    /// Kills what `find` finds, until it finds nothing twice: a list of children can miss
    /// one when another dies while it is read (proc_pid_task(5)).
    fn kill_all(&mut self, find: &dyn Fn() -> Vec<Process>) {
        let mut empty = 0;
        while empty < 2 && Instant::now() < self.deadline {
            let found = self.freeze(find);
            if found.is_empty() {
                empty += 1;
                continue;
            }
            empty = 0;
            for process in &found {
                process.signal(SIGKILL);
            }
            if let Some(cgroup) = self.cgroup {
                cgroup.kill();
            }
            for process in &found {
                self.wait_dead(*process);
            }
            (self.reap)();
            self.victims.extend(found);
        }
    }

    fn freeze(&self, find: &dyn Fn() -> Vec<Process>) -> BTreeSet<Process> {
        let mut frozen = BTreeSet::new();
        loop {
            let new: Vec<_> =
                find().into_iter().filter(|process| frozen.insert(*process)).collect();
            for process in &new {
                process.signal(SIGSTOP);
            }
            if new.is_empty() || Instant::now() >= self.deadline {
                return frozen;
            }
        }
    }

    /// Not for long: one that is stuck must not use up the others' time.
    fn wait_dead(&self, process: Process) {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if let Some(handle) = process.open() {
            handle.wait_dead(left.min(Duration::from_millis(100)));
        }
    }
}
