//! One attempt: the actor that owns its worktrees, its executor processes, its
//! logs and its session: the turn that runs and the follow-ups that wait.
//!
//! ```text
//!                 stop, follow-up    ┌ queue ┐ Step    LifeEvent ┌───────────┐ Effect
//!   gateway ──────────────────▶ actor ───────┴───▶ turn ────────▶│ lifecycle │───▶ run, turn
//!      ▲                        ▲  ▲                             └───────────┘       │
//!      │ AttemptEvent           │  └── TurnEvent ◀───────────────────────────────────┤ tasks: worktrees,
//!      └────────────────────────┘                                                    │ spawn, signals, kill
//!                                                                                    │
//!     shim ──lengths──▶ output (pumps the spool into the log) ◀─────────Drain────────┘
//! ```
//!
//! * The actor decides nothing: [`queue`] (which turn is next) and [`lifecycle`]
//!   (the states of one turn) do, purely. It does nothing slow either: each effect
//!   that takes time is a task that reports back with a message, so a stop is
//!   never behind anything.
//! * One turn at a time. What the executors of earlier turns left running may live on
//!   beside it, each under its own shim, until it ends or a stop comes.
//! * A turn ends and the next one begins in one transaction: at no moment is a prompt
//!   neither waiting nor running, or does the attempt look settled with work to do.
//! * No log byte passes through the mailbox. The shim notifies the output task, which
//!   moves bytes from the spool to the log by itself.
//! * Every change of the row is written before it is announced, under the
//!   attempt's epoch. Everything else is in the process's folder, so the actor of a
//!   dead daemon, or a dead actor, is rebuilt by the same path ([`Begin::Resume`]).
//! * A stop ends processes first and writes afterwards. Changes that the store can't
//!   take wait in memory, in order ([`row`]).
//! * The actor lives while anything of the attempt is alive or waits for a slot. The
//!   gateway makes a new one when it needs one. Its end kills nothing.

mod approvals;
mod collect;
mod collection;
mod disk;
mod environment;
mod follow_up;
mod launch_state;
pub mod lifecycle;
pub mod locks;
mod message;
mod outcome;
mod output;
mod pending_stops;
mod prepare;
pub mod queue;
mod recap;
mod row;
mod run;
mod start;
mod stdin_writer;
mod stop;
mod turn;
pub mod turn_summary;

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef, DerivedActorRef};

pub use collection::{Collect, CollectPort, CollectVerdict, Collection, Saved};
pub use launch_state::read as read_launch_state;
pub use message::{AttemptEvent, AttemptMessage, FollowUpCall, RespondCall};
pub use outcome::GO_ON;
pub use prepare::{MARKER, has_worktrees, real_worktrees, was_collected};

use crate::journal::Attempt;
use crate::world::World;
use run::AttemptState;

/// What the actor finds of its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Nothing has run; it has a slot, or waits for one.
    New,
    /// Taken up again, in whatever state the disk shows.
    Resume,
}

/// What an attempt's actor is made from.
pub struct Arguments {
    pub attempt: Attempt,
    pub begin: Begin,
    pub world: Arc<World>,
    pub events: DerivedActorRef<AttemptEvent>,
}

/// The actor.
pub struct AttemptActor;

impl Actor for AttemptActor {
    type Msg = AttemptMessage;
    type State = AttemptState;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<AttemptMessage>,
        arguments: Arguments,
    ) -> Result<AttemptState, ActorProcessingErr> {
        Ok(AttemptState::begin(myself, arguments))
    }

    async fn handle(
        &self,
        _: ActorRef<AttemptMessage>,
        message: AttemptMessage,
        state: &mut AttemptState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            AttemptMessage::FollowUp(call, port) => state.follow_up(call, port).await,
            AttemptMessage::Stop { force, reply } => state.stop(force, reply).await,
            AttemptMessage::Collect(how, port) => state.collect(how, port),
            AttemptMessage::Examined(how, newest, examined, port) => {
                state.examined(how, newest, examined, port).await;
            }
            AttemptMessage::Respond(call, port) => state.respond(call, port).await,
            AttemptMessage::Granted => state.granted().await,
            AttemptMessage::WriteAgain => state.write_again().await,
            AttemptMessage::Turn(process, event) => state.happened(process, event).await,
        }
        state.close().await;
        Ok(())
    }
}
