//! Who dies, and where: the table of faults. `inject` brings them about.

use crate::finishes::End;

/// Killed by its pid, at a random instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victims {
    Daemon,
    Shim,
    Bridge,
    DaemonAndBridge,
    DaemonAndShim,
    All,
}

/// What leads to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Whatever goes on.
    Any,
    FollowUp,
    Stop,
    /// A shim is killed.
    Rescue,
    /// A turn that begins with more output than is taken at once.
    Flood,
    /// A short turn, waited for.
    Exit,
    /// An attempt with a setup script starts.
    Setup,
    /// The work of an attempt that is over is finished.
    Finish(End),
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Kill(Victims),
    /// The daemon comes to its end at one of these places.
    Daemon(Way, &'static [&'static str]),
    /// The first shim that is started does.
    Shim(Way, &'static [&'static str]),
    /// A shim is killed, and the one that takes over ends at such a place.
    Rescuer(&'static [&'static str]),
    /// The daemon of a new home, again and again until the schema is there.
    Migration,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub name: &'static str,
    pub kind: Kind,
}

const fn fault(name: &'static str, kind: Kind) -> Fault {
    Fault { name, kind }
}

pub const FAULTS: &[Fault] = &[
    fault("daemon", Kind::Kill(Victims::Daemon)),
    fault("a shim", Kind::Kill(Victims::Shim)),
    fault("the bridge", Kind::Kill(Victims::Bridge)),
    fault("daemon and bridge", Kind::Kill(Victims::DaemonAndBridge)),
    fault("daemon and a shim", Kind::Kill(Victims::DaemonAndShim)),
    fault("daemon, bridge and a shim", Kind::Kill(Victims::All)),
    fault(
        "daemon, between intent and effect",
        Kind::Daemon(
            Way::Any,
            &[
                "create_task.written",
                "create_task.committed",
                "start.written",
                "start.committed",
                "start_task_attempt.answering",
                "worktree.next",
                "worktree.made",
                "worktrees.marked",
                "log.begun",
                "manifest.written",
            ],
        ),
    ),
    fault(
        "daemon, while it makes a worktree ready",
        Kind::Daemon(Way::Any, &["ports.taken", "copy.next", "copy.made"]),
    ),
    fault(
        "daemon, in a setup",
        Kind::Daemon(
            Way::Setup,
            &["setup.next", "shim.spawned", "shim.started", "setup.ended", "settled.written"],
        ),
    ),
    fault(
        "daemon, between spawn and record",
        Kind::Daemon(
            Way::Any,
            &["shim.spawned", "shim.started", "running.written", "running.committed"],
        ),
    ),
    fault(
        "daemon, between exit and record",
        Kind::Daemon(
            Way::Any,
            &["settled.written", "settled.committed", "closed.written", "closed.committed"],
        ),
    ),
    fault(
        "daemon, in a snapshot",
        Kind::Daemon(
            Way::Exit,
            &[
                "snapshot.made",
                "snapshot.referred",
                "snapshot.written",
                "snapshot.committed",
                "probes.written",
                "probes.committed",
            ],
        ),
    ),
    fault(
        "daemon, in a queue delivery",
        Kind::Daemon(
            Way::FollowUp,
            &[
                "follow_up.written",
                "follow_up.committed",
                "follow_up.answering",
                "settled.written",
                "settled.committed",
            ],
        ),
    ),
    fault(
        "daemon, in a stop",
        Kind::Daemon(
            Way::Stop,
            &[
                "intent.written",
                "intent.committed",
                "held.written",
                "held.committed",
                "stopping.written",
                "stopping.committed",
                "answer.next",
                "answer.kept",
                "stop_attempt.answering",
            ],
        ),
    ),
    fault(
        "daemon, between frame and index",
        Kind::Daemon(
            Way::Any,
            &["block.begun", "lines.shown", "entries.filed", "checkpoint.written"],
        ),
    ),
    fault(
        "daemon, in a rescue",
        Kind::Daemon(Way::Rescue, &["rescue.gathered", "rescue.launched"]),
    ),
    fault(
        "daemon, in a commit and a merge",
        Kind::Daemon(
            Way::Finish(End::Merge),
            &[
                "finish.written",
                "finish.committed",
                "commit.locked",
                "commit.made",
                "commit.moved",
                "finish_step.written",
                "finish_step.committed@2",
                "advance.locked",
                "advance.switched",
                "advance.moved",
                "advance.kept",
                "finish_end.written",
                "finish_end.committed",
                "finish_attempt.answering",
            ],
        ),
    ),
    fault(
        "daemon, in a push",
        Kind::Daemon(
            Way::Finish(End::Push),
            &[
                "finish.committed",
                "commit.moved",
                "push.next",
                "push.done",
                "finish_step.written@2",
                "finish_step.committed@2",
                "finish_end.written",
            ],
        ),
    ),
    fault(
        "daemon, in a discard",
        Kind::Daemon(
            Way::Finish(End::Discard),
            &[
                "finish.committed",
                "collect.examined",
                "collect.marked",
                "collect.moved",
                "collect.forgotten",
                "finish_step.written",
                "finish_end.written",
                "finish_end.committed",
            ],
        ),
    ),
    fault("daemon, in a migration", Kind::Migration),
    fault("a shim, between intent and effect", Kind::Shim(Way::Any, &["executor.next"])),
    fault(
        "a shim, between spawn and record",
        Kind::Shim(Way::Any, &["executor.spawned", "handshake.made"]),
    ),
    fault(
        "a shim, between frame and index",
        Kind::Shim(
            Way::Any,
            &["spool.taken", "spool.taken@2", "spool.taken@5", "spool.recorded@2"],
        ),
    ),
    fault("a shim, in the middle of a frame", Kind::Shim(Way::Flood, &["spool.taken"])),
    fault(
        "a shim, between exit and record",
        Kind::Shim(Way::Exit, &["exit.next", "exit.recorded", "tree.gone"]),
    ),
    fault("a shim, in a stop", Kind::Shim(Way::Stop, &["tree.killed"])),
    fault(
        "a shim, and then its rescuer",
        Kind::Rescuer(&[
            "takeover.received",
            "takeover.prepared",
            "handshake.made",
            "spool.taken",
            "spool.recorded",
            "exit.next",
            "exit.recorded",
            "tree.gone",
        ]),
    ),
];
