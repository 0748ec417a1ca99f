//! One attempt: the actor that owns its worktrees, its executor process, its
//! logs and the state of its turn.
//!
//! ```text
//!                    stop                 Input ┌───────────┐ Effect
//!   gateway ─────────────────▶  actor  ────────▶│ lifecycle │────────▶ run
//!      ▲                        ▲  ▲            └───────────┘           │
//!      │ Notice                 │  └──── Happened, Started, Found ◀─────┤ tasks: worktrees,
//!      └────────────────────────┘                                      │ spawn, signals, kill
//!                               ▲                                      │
//!     shim ──lengths──▶ output (pumps the spool into the log) ◀─Drain──┘
//! ```
//!
//! * The actor decides nothing: [`lifecycle`] does, purely. It does nothing slow
//!   either: each effect that takes time is a task that reports back with a
//!   message, so a stop is never behind anything.
//! * No log byte passes through the mailbox. The output task is told by the shim
//!   that there is more and takes it from the spool into the log by itself.
//! * Every change of the row is written before it is announced, under the
//!   attempt's epoch. All that is not in the row is in the process's folder, so
//!   the actor of a dead daemon, or a dead actor, is rebuilt by the same path
//!   ([`Begin::Resume`]).
//! * The actor lives while anything of the attempt does: a turn, or leftovers
//!   that its executor left behind. Its end kills nothing.

pub mod digest;
mod effects;
mod environment;
pub mod lifecycle;
mod message;
mod outcome;
mod output;
mod prepare;
mod run;
mod start;

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef, DerivedActorRef};

pub use message::{Message, Notice};
pub use prepare::has_worktrees;

use crate::journal::Attempt;
use crate::world::World;
use run::State;

/// How an actor comes to its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// It has been granted a slot and nothing has run.
    New,
    /// It is taken up again, in whatever state the disk tells.
    Resume,
}

/// What an attempt's actor is made from.
pub struct Arguments {
    pub attempt: Attempt,
    pub begin: Begin,
    pub world: Arc<World>,
    pub notices: DerivedActorRef<Notice>,
}

/// The actor.
pub struct AttemptActor;

impl Actor for AttemptActor {
    type Msg = Message;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        arguments: Arguments,
    ) -> Result<State, ActorProcessingErr> {
        Ok(State::begin(myself, arguments))
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Stop { force, reply } => state.stop(force, reply).await,
            Message::Happened(input) => state.step(input).await,
            Message::Started(shim, log) => state.started(*shim, log).await,
            Message::Found(found, log) => state.found(*found, log).await,
            Message::ShimClosed => state.shim_closed(),
            Message::Rescued(found) => state.rescued(*found).await,
            Message::KillTree { tries } => state.kill_tree(tries),
            Message::ExecutorSession(id) => state.executor_session(id).await,
            Message::ReadOut => state.read_out().await,
            Message::Record => state.record().await,
        }
        Ok(())
    }
}
