//! What the gateway receives: the calls that need a slot or all attempts, and its tasks' reports.

use ractor::{ActorRef, RpcReplyPort};

use crate::attempt::{AttemptEvent, AttemptMessage};
use crate::event::Timestamp;
use crate::host::HostState;
use crate::ids::{AttemptId, ProcessId, RepoId, TaskId};
use crate::journal::{
    Attempt, AttemptStarted, AttemptStopped, Finish, Intent, Key, Once, Priority,
};
use crate::refusal::Refusal;

/// The port of a caller.
pub type Port<T> = RpcReplyPort<Result<T, Refusal>>;

/// How a claim has ended.
pub enum Claim {
    Done(Vec<AttemptId>),
    /// It failed, or was answered too late: nothing begins on a lease that may be over. These rows
    /// are looked at after the next renewal.
    Unsure,
    /// What such a claim has brought, as far as it waits.
    Found(Vec<AttemptId>),
}

pub enum GatewayMessage {
    /// A start that has been checked; it needs a slot.
    Start(Option<Key>, Box<Attempt>, Port<Once<AttemptStarted>>),
    Stop(Option<Key>, AttemptId, bool, Port<Once<AttemptStopped>>),
    /// Whether this host drains.
    HostState(HostState, RpcReplyPort<()>),
    /// Work that other hosts have committed for attempts of this one.
    Apply(Vec<Finish>),
    /// There may be attempts that no host has.
    Claim,
    Claimed(Claim),
    /// This host has claimed an attempt for a call.
    TakeUp(AttemptId),
    /// These may begin: the board has let them; none after an error.
    Admitted(Vec<AttemptId>),
    /// Whether a slot is free.
    Free(RpcReplyPort<bool>),
    /// How many attempts run and how many wait.
    Counts(RpcReplyPort<(usize, usize)>),
    /// Takes up what an earlier daemon left. Answered when all have an owner.
    Restore(Port<usize>),
    /// Stops everything that runs or waits. The answer names what can't be killed.
    StopAll(RpcReplyPort<StoppedAll>),
    /// Starts may be made again: not all could be stopped, so the daemon goes on.
    GoOn,

    /// A start has been written down, or was refused.
    Recorded(Box<Attempt>, Result<Once<AttemptStarted>, Refusal>, Port<Once<AttemptStarted>>),
    /// Asks for an attempt's owner. `true`: the request may begin a turn, and takes a slot.
    Owner(AttemptId, bool, Port<Owned>),
    /// An attempt without an owner has been read, so that it can have one.
    Loaded(AttemptId, Box<Result<Option<Attempt>, Refusal>>),
    /// Everything that had an owner has been stopped.
    StoppedAll(StoppedAll, RpcReplyPort<StoppedAll>),
    Restored(Result<Left, Refusal>, Port<usize>),
    /// An old daemon's stop is over. With a priority: the attempt still wants a slot.
    IntentCompleted(AttemptId, Option<Priority>),
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
    /// Begins from the snapshot of a turn of this attempt; by default its last one.
    pub fork: Option<(AttemptId, Option<u32>)>,
    /// The attempt inside which it was asked for.
    pub parent: Option<AttemptId>,
    /// Another host's daemon has chosen this host for it.
    pub is_carried: bool,
}

/// The result of a stop of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoppedAll {
    /// Attempts whose processes are still alive, and why, in a sentence.
    pub alive: Vec<(AttemptId, String)>,
    /// Those whose stop could not be written down yet.
    pub unrecorded: Vec<AttemptId>,
}

/// The owner of an attempt, and whether a running slot has been taken for the request.
pub type Owned = (ActorRef<AttemptMessage>, bool);

/// What an earlier daemon left: the attempts that need an owner, the calls that it had not
/// completed, and the attempts that resume by themselves: after which turn, and when.
pub type Left = (Vec<Attempt>, Vec<(Key, Intent)>, Vec<(AttemptId, ProcessId, Timestamp)>);
