//! What the gateway receives: calls that need a slot or concern all attempts, and reports of its own tasks.

use ractor::{ActorRef, RpcReplyPort};

use crate::attempt::{AttemptEvent, AttemptMessage};
use crate::event::Timestamp;
use crate::host::HostState;
use crate::ids::{AttemptId, ProcessId, RepoId, TaskId};
use crate::journal::{
    Attempt, AttemptStarted, AttemptStopped, Finish, Idempotent, Intent, Key, Priority,
};
use crate::refusal::Refusal;

/// Where a caller gets its answer. If it is dropped, the caller sees `shutting_down`.
pub type Port<T> = RpcReplyPort<Result<T, Refusal>>;

/// How a claim ended.
pub enum Claim {
    /// These attempts are this host's now.
    Done(Vec<AttemptId>),
    /// The claim failed, or its answer came when the lease may have been over; nothing begins on such a
    /// lease. The rows are read after the next renewal, because they may say that the claim took effect.
    Unsure,
    /// What such a claim has brought: the attempts of this host that wait.
    Found(Vec<AttemptId>),
}

/// A message to the gateway. The second part of the list comes from the gateway's own tasks and its
/// attempts.
pub enum GatewayMessage {
    /// A start that has been checked: it needs a slot.
    Start(Option<Key>, Box<Attempt>, Port<Idempotent<AttemptStarted>>),
    /// A stop of an attempt, whatever it does. `true`: forced, SIGKILL at once.
    Stop(Option<Key>, AttemptId, bool, Port<Idempotent<AttemptStopped>>),
    /// The state of this host, as its row says. Answered once the gateway follows it.
    HostState(HostState, RpcReplyPort<()>),
    /// Work that attempts of other hosts have committed for attempts of this host.
    Apply(Vec<Finish>),
    /// There may be attempts that no host has.
    Claim,
    /// The claim under way has ended.
    Claimed(Claim),
    /// This host has claimed an attempt because a call concerns it: the attempt needs an owner.
    TakeUp(AttemptId),
    /// The board lets these attempts begin under the limits of their executors; empty after an error.
    Admitted(Vec<AttemptId>),
    /// Whether a slot for work is free that no waiting attempt could have.
    Free(RpcReplyPort<bool>),
    /// How many attempts run and how many wait for a slot on this host.
    Counts(RpcReplyPort<(usize, usize)>),
    /// Takes up what an earlier daemon left, once after the start. Answered with the number of attempts
    /// when all have an owner; until then nothing is claimed.
    Restore(Port<usize>),
    /// Stops everything that runs or waits; from then on nothing starts. The answer names what can't be
    /// killed.
    StopAll(RpcReplyPort<StoppedAll>),
    /// Starts are allowed again: not everything could be stopped, so the daemon keeps running.
    GoOn,

    /// A start has been written down, or was refused.
    Recorded(
        Box<Attempt>,
        Result<Idempotent<AttemptStarted>, Refusal>,
        Port<Idempotent<AttemptStarted>>,
    ),
    /// Asks for an attempt's owner. `true`: the request may begin a turn, and takes a slot if one is free.
    Owner(AttemptId, bool, Port<Owned>),
    /// The row of an attempt without an owner has been read.
    Loaded(AttemptId, Box<Result<Option<Attempt>, Refusal>>),
    /// All that had an owner has been stopped.
    StoppedAll(StoppedAll, RpcReplyPort<StoppedAll>),
    /// What an earlier daemon left has been read.
    Restored(Result<Left, Refusal>, Port<usize>),
    /// All stops of the attempt that an earlier daemon began are over. With a priority: they failed, and the
    /// attempt, which had waited for a slot, waits again.
    IntentCompleted(AttemptId, Option<Priority>),
    /// An attempt's actor wants or frees a slot, has ended, or names the time at which the attempt resumes.
    AttemptEvent(AttemptEvent),
}

/// An attempt to be started, as a caller asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartRequest {
    pub task_id: TaskId,
    pub executor: String,
    /// `None`: the executor's default.
    pub variant: Option<String>,
    /// The repositories, each with its target branch or its default one. `None`: all of the project's.
    pub repos: Option<Vec<(RepoId, Option<String>)>>,
    /// `None`: the task's title, description, reason and brief.
    pub prompt: Option<String>,
    /// Starts although tasks that the task depends on are not done.
    pub ignore_dependencies: bool,
    /// Begins from the snapshot of a turn of this attempt; without a turn, of its last one.
    pub fork: Option<(AttemptId, Option<u32>)>,
    /// The attempt whose agent asked for the start: its sandbox is the least that the new one has.
    pub parent: Option<AttemptId>,
    /// Another host's daemon forwarded the start to this host: it is not forwarded again.
    pub is_carried: bool,
}

/// The result of a stop of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoppedAll {
    /// Attempts whose processes are still alive, and why, in a sentence.
    pub alive: Vec<(AttemptId, String)>,
    /// Stopped attempts whose stop could not be written down yet.
    pub unrecorded: Vec<AttemptId>,
}

/// The owner of an attempt, and whether a slot was taken for the request.
pub type Owned = (ActorRef<AttemptMessage>, bool);

/// What an earlier daemon left: the attempts that need an owner; the calls that it had not completed; and
/// the attempts that resume by themselves: after which turn, and when.
pub type Left = (Vec<Attempt>, Vec<(Key, Intent)>, Vec<(AttemptId, ProcessId, Timestamp)>);
