//! Everything that can be asked of the gateway: the one list.

use ractor::{ActorRef, RpcReplyPort};

use crate::attempt::{AttemptEvent, AttemptMessage, Collect, CollectPort};
use crate::event::Timestamp;
use crate::executor::Verdict;
use crate::ids::{ApprovalId, AttemptId, ProcessId, RepoId, TaskId};
use crate::journal::{
    Approval, Attempt, AttemptStarted, AttemptStopped, FollowUpAction, FollowedUp, Intent, Key,
    Once, Priority,
};
use crate::refusal::Refusal;

/// The port of a caller.
pub type Port<T> = RpcReplyPort<Result<T, Refusal>>;

pub enum GatewayMessage {
    Start(Option<Key>, StartRequest, Port<Once<AttemptStarted>>),
    Stop(Option<Key>, AttemptId, bool, Port<Once<AttemptStopped>>),
    FollowUp(Option<Key>, FollowUpRequest, Port<Once<FollowedUp>>),
    Respond(Option<Key>, RespondRequest, Port<Once<Approval>>),
    /// Takes an attempt's worktrees away, if nothing would be lost with them.
    Collect(AttemptId, Collect, CollectPort),
    /// How many attempts run and how many wait.
    Counts(RpcReplyPort<(usize, usize)>),
    /// Takes up what an earlier daemon left. Answered when all have an owner.
    Restore(Port<usize>),
    /// Stops everything that runs or waits. Answered when nothing does, or with the
    /// processes that can't be killed.
    StopAll(RpcReplyPort<StoppedAll>),
    /// Starts may be made again: not all could be stopped, so the daemon goes on.
    GoOn,

    /// A start has been checked; it needs a slot.
    Checked(Option<Key>, Box<Attempt>, Port<Once<AttemptStarted>>),
    /// A start has been written down, or was refused.
    Recorded(Box<Attempt>, Result<Once<AttemptStarted>, Refusal>, Port<Once<AttemptStarted>>),
    /// Asks for the owner of an attempt. `true`: the request may begin a turn, and takes
    /// a running slot if one is free.
    Owner(AttemptId, bool, Port<Owned>),
    /// An attempt without an owner has been read, so that it can have one.
    Loaded(AttemptId, Box<Result<Option<Attempt>, Refusal>>),
    /// A keyed stop is over; `true`: its answer is on file.
    Stopped(Key, Result<Once<AttemptStopped>, Refusal>, bool),
    /// The answer of a keyed stop is on file now.
    Kept(Key),
    /// Everything that had an owner has been stopped.
    StoppedAll(StoppedAll, RpcReplyPort<StoppedAll>),
    Restored(Result<Left, Refusal>, Port<usize>),
    /// A stop of an earlier daemon is over. With a priority: the attempt still wants a
    /// slot.
    Completed(AttemptId, Option<Priority>),
    AttemptEvent(AttemptEvent),
}

/// An attempt to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartRequest {
    pub task_id: TaskId,
    pub executor: String,
    pub variant: Option<String>,
    /// `None`: all of the project's, at their default branch.
    pub repos: Option<Vec<(RepoId, Option<String>)>>,
    /// Default: the task's title and description.
    pub prompt: Option<String>,
    pub ignore_dependencies: bool,
    /// The attempt inside which it was asked for.
    pub parent: Option<AttemptId>,
}

/// A follow-up to be sent, queued, or cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowUpRequest {
    pub attempt_id: AttemptId,
    pub action: FollowUpAction,
    /// Empty when it cancels.
    pub prompt: String,
    /// Default: the variant of the turn before.
    pub variant: Option<String>,
    /// Refused once the attempt was stopped: then only a client's own call continues it.
    pub unless_stopped: bool,
}

/// A verdict on a permission that an executor asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RespondRequest {
    pub approval_id: ApprovalId,
    pub verdict: Verdict,
}

/// The result of a stop of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoppedAll {
    /// Attempts whose processes are still alive.
    pub alive: Vec<StillAlive>,
    /// Those whose stop could not be written down yet.
    pub unrecorded: Vec<AttemptId>,
}

/// An attempt that could not be stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StillAlive {
    pub attempt_id: AttemptId,
    /// Why, in a sentence.
    pub reason: String,
}

/// The owner of an attempt.
pub struct Owned {
    pub owner: ActorRef<AttemptMessage>,
    /// A running slot has been taken for the request.
    pub has_slot: bool,
}

/// What an earlier daemon left.
pub struct Left {
    /// All that need an owner.
    pub attempts: Vec<Attempt>,
    /// The calls that it had not completed.
    pub intents: Vec<(Key, Intent)>,
    /// Attempts that resume by themselves: after which turn, and when.
    pub resumable: Vec<(AttemptId, ProcessId, Timestamp)>,
}
