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
    Approval, AttemptStopped, Finish, FinishRequest, FollowUpAction, FollowedUp, Idempotent, Key,
    Priority, Review, WaitingOn,
};
use crate::log::AttemptLog;
use crate::process::{Adopted, Shim};
use crate::refusal::Refusal;

use super::lifecycle::LifeEvent;
use super::provision::preview::Preview;

/// Where the answer to a stop goes. It is sent when all turns that may be alive have answered.
pub type StopPort = RpcReplyPort<Result<AttemptStopped, Refusal>>;
/// Where the answer to a follow-up goes. `Once` says whether an earlier call with the same key got it.
pub type FollowUpPort = RpcReplyPort<Result<Idempotent<FollowedUp>, Refusal>>;

/// To the actor: calls, which the gateway has checked, and reports of the actor's own tasks.
pub enum AttemptMessage {
    /// Sends or queues a prompt, or cancels those that wait.
    FollowUp {
        key: Option<Key>,
        request: FollowUpRequest,
        /// The gateway has taken a running slot for it. The actor uses the slot, or frees it.
        has_slot: bool,
        port: FollowUpPort,
    },
    /// Stops every turn of which something may be alive. `force`: kills at once, without a grace.
    Stop { force: bool, port: StopPort },
    /// Begins a finish. Answered when the finish is written down; its row has the result later.
    Finish(Option<Key>, Box<FinishRequest>, RpcReplyPort<Result<Idempotent<FinishId>, Refusal>>),
    /// The task of the finish has ended.
    Finished,
    /// Applies the work of another host's attempt to this one, unless that is under way. Answered at
    /// once.
    Apply(Box<Finish>, RpcReplyPort<Result<(), Refusal>>),
    /// Lends its worktrees to this finish of another attempt. Answered when they are free.
    Lend(FinishId, RpcReplyPort<Result<WorktreeLoan, Refusal>>),
    /// A [`WorktreeLoan`] was dropped.
    LoanReturned,
    /// Starts its dev server, ends it, or continues with one that runs. Answered at once, with a
    /// receiver of the dev server's state.
    Preview(PreviewAsk, RpcReplyPort<Result<watch::Receiver<Preview>, Refusal>>),
    /// The task of the dev server has ended: no process of it is alive.
    PreviewEnded,
    /// Moves its worktrees to the trash, if nothing would be lost with them.
    Collect(Collect, CollectPort),
    /// The task of a collection has examined the worktrees. The process was the newest one when the
    /// task began: if another one is newer now, its work was not examined.
    Examined(Collect, ProcessId, Examined, CollectPort),
    /// The answer of a person or an orchestrator to what an executor asks for.
    Respond(Option<Key>, ApprovalId, Verdict, RpcReplyPort<Result<Idempotent<Approval>, Refusal>>),
    /// Makes its worktrees as its last turn left them, unless they are there. Answered when they are
    /// made, or at once if a turn makes them.
    Restore(RpcReplyPort<Result<(), Refusal>>),
    /// A task that made a snapshot, or found that none is due, has ended.
    SnapshotTaken,
    /// A task that made the worktrees for a [`Self::Restore`] has ended.
    Restored,
    /// The queued turn has got its running slot.
    Granted,
    /// The pause after a refused write is over: the actor writes again what the store did not take.
    WriteAgain,
    /// What a task of the turn with this process reports.
    Turn(ProcessId, TurnEvent),
}

/// What a caller wants of an attempt's dev server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreviewAsk {
    /// Starts the dev server of the repository with this name, unless one is alive.
    Start(String),
    /// Ends the dev server with all that it started.
    Stop,
    /// Continues with this process, which an earlier owner left.
    Resume(ProcessId),
}

/// A follow-up to be sent, queued, or cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowUpRequest {
    pub attempt_id: AttemptId,
    /// The same in each try of one call, so that the queue takes the prompt once.
    pub queue_id: QueueId,
    pub action: FollowUpAction,
    /// Empty for a cancel.
    pub prompt: String,
    /// `None`: the variant of the turn before.
    pub variant: Option<String>,
    /// Refuses the follow-up if a stop was the attempt's last event: after a stop, only a client's own
    /// call continues the attempt.
    pub unless_stopped: bool,
    /// The comments that the prompt was made of, if it is a review. If a draft has changed since, the
    /// store refuses the follow-up.
    pub review: Option<Review>,
}

/// What a turn's tasks report to the actor.
pub enum TurnEvent {
    /// For the turn's state machine as it is.
    Life(LifeEvent),
    /// The process runs, and this is the connection to its shim.
    Started(Box<Shim>, Arc<AttemptLog>),
    /// What became of the process over a restart. `true`: a setup script of it may be alive.
    Found(Box<Adopted>, Arc<AttemptLog>, bool),
    /// The connection to the shim has ended: the shim has ended or died.
    ShimClosed,
    /// What became of a process whose shim's connection had ended.
    Rescued(Box<Adopted>),
    /// These earlier processes run in a weaker sandbox than this turn will: they have to end first.
    EndLessConfined(Vec<ProcessId>),
    /// The pause is over: have the tree killed. The number of tries so far.
    KillTree(u32),
    /// A stop has waited long enough for [`Self::Found`]: kill the process without it.
    KillUnfound,
    /// That kill has ended, and so many processes survived it.
    KilledUnfound(u32),
    /// The executor's id of its conversation. `None`: the executor has lost the conversation.
    ExecutorSession(Option<String>),
    /// The executor asks for a permission. The sender is used when the request is written down.
    Asked(Box<Request>, oneshot::Sender<()>),
    /// The executor no longer waits for the answer to the request with this key.
    Withdrawn(String, oneshot::Sender<()>),
    /// A person has approved, at the daemon of another host, what the setup asks for with this key.
    Trusted(String, oneshot::Sender<()>),
    /// No answer to this request came within this time.
    Expired(ApprovalId, Duration),
    /// The pause is over: send the executor this decision again.
    Decided(Box<Approval>),
    /// The output task has ended: the log holds all that the process wrote.
    ReadOut,
    /// What the executor waits for: its own work in the background, or its model. `None`: neither.
    WaitsFor(Option<WaitingOn>),
    /// Why one of its writers waits for the disk. `None`: the writer waits no longer.
    Disk(DiskWriter, Option<String>),
}

/// A part of a turn that writes to the disk, and waits when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskWriter {
    /// The shim. The executor waits with it, because its pipes fill up.
    Spool,
    /// The output task, which writes the attempt's log.
    Log,
    /// The actor, which writes a turn's outcome or an executor's request.
    Row,
}

/// How a turn's tasks reach the actor. Clones lead to the same turn.
#[derive(Clone)]
pub struct TurnHandle {
    pub actor: ActorRef<AttemptMessage>,
    pub process: ProcessId,
}

impl TurnHandle {
    /// Sends without waiting. If the actor is gone the event is dropped: the next actor finds out by
    /// itself what became of the process.
    pub fn send(&self, event: TurnEvent) {
        let _ = self.actor.send_message(AttemptMessage::Turn(self.process, event));
    }

    /// Sends, and waits until the event is handled or the actor is gone.
    pub async fn ask(&self, event: impl FnOnce(oneshot::Sender<()>) -> TurnEvent) {
        let (done, handled) = oneshot::channel();
        self.send(event(done));
        let _ = handled.await;
    }

    /// Sends after a pause. Nothing cancels the timer: an event that comes too late finds its turn closed,
    /// or in a state in which the event changes nothing.
    pub fn send_after(&self, after: Duration, event: impl FnOnce() -> TurnEvent + Send + 'static) {
        let process = self.process;
        drop(self.actor.send_after(after, move || AttemptMessage::Turn(process, event())));
    }
}

/// Asks the owner of an attempt for its worktrees, on loan for this finish of another attempt. Ends when
/// the worktrees are free, or with the owner's refusal.
pub type LoanFn = Arc<
    dyn Fn(
            AttemptId,
            FinishId,
        ) -> Pin<Box<dyn Future<Output = Result<WorktreeLoan, Refusal>> + Send>>
        + Send
        + Sync,
>;

/// Worktrees on loan. A drop unlocks them and tells their owner.
#[derive(Debug)]
pub struct WorktreeLoan {
    _worktrees: OwnedMutexGuard<()>,
    owner: ActorRef<AttemptMessage>,
}

impl WorktreeLoan {
    /// The owner makes it, once it has counted the loan: each drop sends one `LoanReturned`.
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
    /// The attempt holds no slot, or gives its slot up; the next one in the queue may run.
    SlotFreed(AttemptId),
    /// The last turn was ended by a limit: the attempt resumes at that time, unless another turn has
    /// begun by then.
    Resumes(AttemptId, ProcessId, Timestamp),
    /// Nothing of the attempt is alive; the actor stops.
    Ended(AttemptId),
}

/// Where the answer to a collection goes. `None`: there is nothing to collect.
pub type CollectPort = RpcReplyPort<Result<Option<Collection>, Refusal>>;

/// How worktrees are to be collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collect {
    /// Examines only: no script runs, nothing moves, no reference is written.
    pub is_dry: bool,
    /// Saves what would be lost under a reference of the person's repository, and then collects. Without
    /// it, unsaved work keeps the worktrees.
    pub snapshot: bool,
    /// The attempt's own finish asks, which holds the lock of the worktrees itself.
    pub by_finish: bool,
}

/// What an examination or a collection of worktrees came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectVerdict {
    /// Nothing would be lost with them: the end of a dry run.
    Collectable,
    /// Their folder has moved to the trash.
    Collected,
    /// They stay; [`Collection::reason`] says why.
    Kept,
}

/// How a collection went, or would go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collection {
    pub verdict: CollectVerdict,
    /// Why the worktrees are kept, or what had to be saved first.
    pub reason: Option<String>,
    /// The attempt's folder below `worktrees/`.
    pub folder: PathBuf,
    /// How many files and folders in them git ignores: these are not saved.
    pub ignored: usize,
    /// Where the work that would have been lost is saved.
    pub snapshots: Vec<Saved>,
    /// Why cleanup scripts failed. A failure keeps no worktree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cleanup_failures: Vec<String>,
}

/// What was saved of one worktree before it was collected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// The path of the person's repository, which has the reference.
    pub repo: String,
    /// `refs/provost/snapshots/` and the attempt's id.
    pub reference: String,
    pub commit: String,
}

/// What an examination of the worktrees found.
pub enum Examined {
    /// Neither the worktrees nor the references that they needed are there: nothing is left to do.
    Nothing,
    /// The worktrees are gone, and references that they needed are still there.
    Registered,
    /// The worktrees, or a folder in their place, are there.
    Collection(Collection),
}
