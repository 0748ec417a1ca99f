//! What an attempt's actor is told, and what it tells.

use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorRef, RpcReplyPort};
use tokio::sync::oneshot;

use crate::event::Timestamp;
use crate::executor::Request;
use crate::ids::{ApprovalId, AttemptId, ProcessId};
use crate::journal::{
    Approval, AttemptStopped, FollowUp, FollowUpAction, FollowedUp, Key, Once, Priority,
};
use crate::log::AttemptLog;
use crate::process::{Adopted, Shim};
use crate::refusal::Refusal;

use super::approvals::RespondCall;
use super::collect::{Collect, CollectPort, Examined};
use super::lifecycle::Input;

/// The port of one who asked for a stop.
pub type StopPort = RpcReplyPort<Result<AttemptStopped, Refusal>>;

/// The port of one who decides on a permission.
pub type ApprovalPort = RpcReplyPort<Result<Once<Approval>, Refusal>>;

/// To the actor.
pub enum Message {
    FollowUp(FollowUpCall, RpcReplyPort<Result<Once<FollowedUp>, Refusal>>),
    Stop {
        force: bool,
        reply: StopPort,
    },
    /// Takes its worktrees away, if nothing would be lost with them.
    Collect(Collect, CollectPort),
    /// They have been looked at, since this process was the newest.
    Examined(Collect, ProcessId, Examined, CollectPort),
    /// A verdict on what its executor asks for.
    Respond(RespondCall, ApprovalPort),
    /// A running slot is its own.
    Granted,
    /// Try again to write what the store did not take.
    WriteAgain,
    /// From the tasks of one of its turns.
    Turn(ProcessId, Happening),
}

/// A follow-up, checked.
pub struct FollowUpCall {
    pub key: Option<Key>,
    pub action: FollowUpAction,
    /// `None` when it cancels.
    pub follow_up: Option<FollowUp>,
    /// A running slot has been taken for it.
    pub has_slot: bool,
    /// Refused once the attempt was stopped.
    pub unless_stopped: bool,
}

/// What happened to a turn's process.
pub enum Happening {
    /// Something that the life of the turn depends on.
    Life(Input),
    /// The process has been started.
    Started(Box<Shim>, Arc<AttemptLog>),
    /// What became of the process over a restart.
    Found(Box<Adopted>, Arc<AttemptLog>),
    /// The connection to the shim has ended.
    ShimClosed,
    /// What became of the process whose shim has gone.
    Rescued(Box<Adopted>),
    /// Try again to have the tree killed.
    KillTree { tries: u32 },
    /// A stop has waited long enough to hear what became of the process.
    KillUnfound,
    /// That was killed; so many processes live.
    KilledUnfound(u32),
    /// The executor has told its own id of the conversation, or that it knows none.
    ExecutorSession(Option<String>),
    /// The executor waits for a permission. Answered when that is written down.
    Asked(Box<Request>, oneshot::Sender<()>),
    /// It waits for this one no longer.
    Withdrawn(String, oneshot::Sender<()>),
    /// Nobody has answered in time.
    Expired(ApprovalId),
    /// Try again to tell it of what was decided.
    Decided(Box<Approval>),
    /// The log holds all that the process and its leftovers wrote.
    ReadOut,
    /// One of its writers waits for the disk, and why; `None`: no longer.
    Disk(Writer, Option<String>),
}

/// What of a turn writes to the disk, and waits where that can't be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Writer {
    /// The shim, and with it the executor, whose pipes fill.
    Spool,
    /// The output task.
    Log,
    /// The actor, with the turn's outcome or what its executor asks for.
    Row,
}

/// The way from a turn's tasks back to the actor.
#[derive(Clone)]
pub struct Handle {
    pub actor: ActorRef<Message>,
    pub process: ProcessId,
}

impl Handle {
    /// An actor that has ended needs no telling.
    pub fn tell(&self, happening: Happening) {
        let _ = self.actor.send_message(Message::Turn(self.process, happening));
    }

    /// Tells, and waits until it has been taken care of or nobody will.
    pub async fn ask(&self, happening: impl FnOnce(oneshot::Sender<()>) -> Happening) {
        let (done, waits) = oneshot::channel();
        self.tell(happening(done));
        let _ = waits.await;
    }

    pub fn tell_after(
        &self,
        after: Duration,
        happening: impl FnOnce() -> Happening + Send + 'static,
    ) {
        let process = self.process;
        drop(self.actor.send_after(after, move || Message::Turn(process, happening())));
    }
}

/// From the actor to whoever admits attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A turn has been written down that waits for a running slot.
    SlotWanted(AttemptId, Priority),
    /// It holds no slot and wants none; the next in the queue may run.
    SlotFreed(AttemptId),
    /// It is to go on by itself then, if that turn is still its last.
    Resumes(AttemptId, ProcessId, Timestamp),
    /// Nothing of the attempt is alive; the actor ends.
    Ended(AttemptId),
}
