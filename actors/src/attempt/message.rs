//! What an attempt's actor receives, and what it reports to the gateway.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorRef, RpcReplyPort};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedMutexGuard, oneshot, watch};

use crate::event::Timestamp;
use crate::executor::{Request, Verdict};
use crate::ids::{ApprovalId, AttemptId, FinishId, ProcessId, QueueId};
use crate::journal::{
    Approval, AttemptStopped, Finish, FinishRequest, FollowUpAction, FollowedUp, Key, Once,
    Priority, Review, WaitingOn,
};
use crate::log::AttemptLog;
use crate::process::{Adopted, Shim};
use crate::refusal::Refusal;

use super::lifecycle::LifeEvent;
use super::provision::preview::Preview;

pub type StopPort = RpcReplyPort<Result<AttemptStopped, Refusal>>;
pub type FollowUpPort = RpcReplyPort<Result<Once<FollowedUp>, Refusal>>;

/// To the actor.
pub enum AttemptMessage {
    FollowUp {
        key: Option<Key>,
        request: FollowUpRequest,
        /// A running slot has been taken for it.
        has_slot: bool,
        port: FollowUpPort,
    },
    Stop {
        force: bool,
        port: StopPort,
    },
    /// Commits or merges its work.
    Finish(Option<Key>, Box<FinishRequest>, RpcReplyPort<Result<Once<FinishId>, Refusal>>),
    /// The finish has ended.
    Finished,
    /// Applies the work of another host's attempt to it, unless it does so already.
    Apply(Box<Finish>, RpcReplyPort<Result<(), Refusal>>),
    /// Lends its worktrees to this finish of another attempt.
    Lend(FinishId, RpcReplyPort<Result<WorktreeLoan, Refusal>>),
    LoanReturned,
    /// Starts its dev server, ends it, or takes it up again. Answered with what it is seen by.
    Preview(PreviewAsk, RpcReplyPort<Result<watch::Receiver<Preview>, Refusal>>),
    /// No dev server of it is alive any more.
    PreviewEnded,
    /// Takes its worktrees away, if nothing would be lost with them.
    Collect(Collect, CollectPort),
    /// A task has examined them; the process was the newest when it began.
    Examined(Collect, ProcessId, Examined, CollectPort),
    /// A verdict on what its executor asks for.
    Respond(Option<Key>, ApprovalId, Verdict, RpcReplyPort<Result<Once<Approval>, Refusal>>),
    /// Makes its worktrees as its last turn left them, unless they are there or a turn makes them.
    Restore(RpcReplyPort<Result<(), Refusal>>),
    /// A task that made a snapshot or worktrees, or found that none are due, is over.
    SnapshotTaken,
    /// The attempt holds a running slot.
    Granted,
    /// Retry what the store did not take.
    WriteAgain,
    Turn(ProcessId, TurnEvent),
}

/// What is to become of an attempt's dev server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreviewAsk {
    /// Starts that of a repository, unless one is alive.
    Start(String),
    Stop,
    /// Goes on with this process, which an earlier owner left.
    Resume(ProcessId),
}

/// A follow-up to be sent, queued, or cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowUpRequest {
    pub attempt_id: AttemptId,
    /// The same in each try, so that the queue takes it once.
    pub queue_id: QueueId,
    pub action: FollowUpAction,
    /// Empty when it cancels.
    pub prompt: String,
    /// Default: the variant of the turn before.
    pub variant: Option<String>,
    /// Refused once the attempt was stopped: then only a client's own call continues it.
    pub unless_stopped: bool,
    /// What its prompt was made of, if it is a review. One whose drafts have changed is refused.
    pub review: Option<Review>,
}

/// What happened to a turn's process.
pub enum TurnEvent {
    Life(LifeEvent),
    Started(Box<Shim>, Arc<AttemptLog>),
    /// The state of the process after a restart. `true`: its setup may be alive.
    Found(Box<Adopted>, Arc<AttemptLog>, bool),
    /// The connection to the shim has ended.
    ShimClosed,
    /// The state of the process whose shim has ended.
    Rescued(Box<Adopted>),
    /// Its box holds more than those of these earlier processes: they are to end.
    EndLessConfined(Vec<ProcessId>),
    /// Retry to have the tree killed.
    KillTree(u32),
    /// A stop has waited long enough for [`Self::Found`].
    KillUnfound,
    /// That process was killed; this many of its processes live on.
    KilledUnfound(u32),
    /// `None`: the executor has lost the conversation.
    ExecutorSession(Option<String>),
    /// The executor waits for a permission. Answered when that is written down.
    Asked(Box<Request>, oneshot::Sender<()>),
    /// It no longer waits for the permission with this key.
    Withdrawn(String, oneshot::Sender<()>),
    /// A person has approved, at the daemon of another host, what its setup asks for with this key.
    Trusted(String, oneshot::Sender<()>),
    Expired(ApprovalId),
    /// Retry to send it the decision.
    Decided(Box<Approval>),
    /// The log holds all that was written.
    ReadOut,
    /// What its executor waits for: its work in the background, or its model.
    WaitsFor(Option<WaitingOn>),
    /// One of its writers waits for the disk, and why; `None`: no longer.
    Disk(DiskWriter, Option<String>),
}

/// A part of a turn that writes to the disk, and waits when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskWriter {
    /// The shim, and with it the executor, whose pipes fill.
    Spool,
    Log,
    /// The actor, with the turn's outcome or an executor's request.
    Row,
}

/// The way from a turn's tasks back to the actor.
#[derive(Clone)]
pub struct TurnHandle {
    pub actor: ActorRef<AttemptMessage>,
    pub process: ProcessId,
}

impl TurnHandle {
    /// If the actor is gone the event is dropped.
    pub fn send(&self, event: TurnEvent) {
        let _ = self.actor.send_message(AttemptMessage::Turn(self.process, event));
    }

    /// Sends, and waits until the event is handled or the actor is gone.
    pub async fn ask(&self, event: impl FnOnce(oneshot::Sender<()>) -> TurnEvent) {
        let (done, handled) = oneshot::channel();
        self.send(event(done));
        let _ = handled.await;
    }

    pub fn send_after(&self, after: Duration, event: impl FnOnce() -> TurnEvent + Send + 'static) {
        let process = self.process;
        drop(self.actor.send_after(after, move || AttemptMessage::Turn(process, event())));
    }
}

/// Asks the owner of an attempt for its worktrees, for a finish of another one.
pub type LoanFn = Arc<
    dyn Fn(
            AttemptId,
            FinishId,
        ) -> Pin<Box<dyn Future<Output = Result<WorktreeLoan, Refusal>> + Send>>
        + Send
        + Sync,
>;

/// Worktrees on loan. Dropped, they go back to their owner.
#[derive(Debug)]
pub struct WorktreeLoan {
    _worktrees: OwnedMutexGuard<()>,
    owner: ActorRef<AttemptMessage>,
}

impl WorktreeLoan {
    pub fn new(worktrees: OwnedMutexGuard<()>, owner: ActorRef<AttemptMessage>) -> Self {
        Self { _worktrees: worktrees, owner }
    }
}

impl Drop for WorktreeLoan {
    fn drop(&mut self) {
        let _ = self.owner.send_message(AttemptMessage::LoanReturned);
    }
}

/// From the actor to the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEvent {
    /// A turn that waits for a running slot has been written down.
    SlotWanted(AttemptId, Priority),
    /// The attempt holds no slot and wants none; the next in the queue may run.
    SlotFreed(AttemptId),
    /// It resumes by itself at that time, if this turn is still its last.
    Resumes(AttemptId, ProcessId, Timestamp),
    /// Nothing of the attempt is alive; the actor ends.
    Ended(AttemptId),
}

/// The port of a caller; `None`: there is nothing to collect.
pub type CollectPort = RpcReplyPort<Result<Option<Collection>, Refusal>>;

/// How worktrees are to be collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collect {
    /// Only reports what would happen.
    pub is_dry: bool,
    /// First saves what would be lost, under a reference.
    pub snapshot: bool,
    /// The attempt's own finish asks for it.
    pub by_finish: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectVerdict {
    /// They would be collected.
    Collectable,
    Collected,
    Kept,
}

/// How a collection went, or would go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collection {
    pub verdict: CollectVerdict,
    /// Why they are kept, or what had to be saved first.
    pub reason: Option<String>,
    pub folder: PathBuf,
    /// Files and folders in them that git ignores.
    pub ignored: usize,
    /// Where the work that would have been lost is saved.
    pub snapshots: Vec<Saved>,
    /// Why cleanup scripts failed. They keep nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cleanup_failures: Vec<String>,
}

/// What was saved of a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    pub repo: String,
    pub reference: String,
    pub commit: String,
}

/// What an examination of the worktrees found.
pub enum Examined {
    /// They are gone, and so are the references that they needed.
    Nothing,
    /// They are gone; references that they needed are still there.
    Registered,
    Collection(Collection),
}
