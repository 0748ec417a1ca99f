//! What an attempt's actor is told, and what it tells.

use std::sync::Arc;

use ractor::RpcReplyPort;

use crate::ids::AttemptId;
use crate::journal::AttemptStopped;
use crate::log::AttemptLog;
use crate::process::{Adopted, Shim};
use crate::refusal::Refusal;

use super::lifecycle::Input;

/// To the actor. All but `Stop` come from tasks of its own.
pub enum Message {
    Stop {
        force: bool,
        reply: RpcReplyPort<Result<AttemptStopped, Refusal>>,
    },
    /// Something happened that the life of the turn depends on.
    Happened(Input),
    /// The process has been started.
    Started(Box<Shim>, Arc<AttemptLog>),
    /// What became of the process over a restart.
    Found(Box<Adopted>, Arc<AttemptLog>),
    /// The connection to the shim has ended.
    ShimClosed,
    /// What became of the process whose shim has gone.
    Rescued(Box<Adopted>),
    /// Try again to have the tree killed.
    KillTree {
        tries: u32,
    },
    /// The executor has told its own id of the conversation.
    ExecutorSession(String),
    /// The log holds all that the process and its leftovers wrote.
    ReadOut,
    /// Try again to write the outcome down.
    Record,
}

/// From the actor to whoever admits attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The turn is over; the next in the queue may run.
    SlotFreed(AttemptId),
    /// Nothing of the attempt is alive; the actor ends.
    Ended(AttemptId),
}
