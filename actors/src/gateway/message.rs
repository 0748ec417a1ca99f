//! Everything that can be asked of the gateway: the one list.

use ractor::RpcReplyPort;

use crate::attempt::{self, Collect, CollectPort, Notice};
use crate::event::Timestamp;
use crate::executor::Verdict;
use crate::ids::{ApprovalId, AttemptId, ProcessId, RepoId, TaskId};
use crate::journal::{
    Approval, Attempt, AttemptStarted, AttemptStopped, FollowUpAction, FollowedUp, Intent, Key,
    Once, Priority,
};
use crate::refusal::Refusal;

/// The port of a caller: an answer, or a reason to say no.
pub type Port<T> = RpcReplyPort<Result<T, Refusal>>;

pub enum Message {
    // ---- asked from outside
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
    /// Stops everything that runs or waits. Answered when nothing does, or when what
    /// is still alive can't be ended.
    StopAll(RpcReplyPort<StoppedAll>),
    /// Starts may be made again: not all could be stopped, so the daemon goes on.
    GoOn,

    // ---- told by tasks and actors of its own
    /// A start has been checked; it needs a slot.
    Checked(Option<Key>, Box<Attempt>, Port<Once<AttemptStarted>>),
    /// A start has been written down, or was refused.
    Recorded(Box<Attempt>, Result<Once<AttemptStarted>, Refusal>, Port<Once<AttemptStarted>>),
    /// Who owns an attempt. `true`: for what may begin a turn, with a running
    /// slot if one is free.
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
    /// A stop of an earlier daemon is over. With a priority: the attempt wants a
    /// slot after all.
    Carried(AttemptId, Option<Priority>),
    Notice(Notice),
    /// An attempt is to go on at that time, if this is still its last process.
    Resumes(AttemptId, ProcessId, Timestamp),
    /// An attempt's actor has failed.
    Failed(AttemptId),
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
    /// It is refused once the attempt was stopped: only somebody's own word is to
    /// make that one go on.
    pub unless_stopped: bool,
}

/// A verdict on a permission that an executor asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RespondRequest {
    pub approval_id: ApprovalId,
    pub verdict: Verdict,
}

/// What a stop of everything came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoppedAll {
    /// Of which processes are still alive.
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
    pub owner: ractor::ActorRef<attempt::Message>,
    /// A running slot has been taken for what it is asked.
    pub has_slot: bool,
}

/// What an earlier daemon left.
pub struct Left {
    /// All that need an owner.
    pub attempts: Vec<Attempt>,
    /// What it had not answered yet.
    pub intents: Vec<(Key, Intent)>,
}

impl From<Notice> for Message {
    fn from(notice: Notice) -> Self {
        Self::Notice(notice)
    }
}

impl TryFrom<Message> for Notice {
    type Error = ();

    fn try_from(message: Message) -> Result<Self, ()> {
        match message {
            Message::Notice(notice) => Ok(notice),
            _ => Err(()),
        }
    }
}
