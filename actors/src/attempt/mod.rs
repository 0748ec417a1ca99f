//! One attempt: the actor that owns its worktrees, its executor processes, its
//! logs and its session: the turn that runs and the follow-ups that wait.
//!
//! ```text
//!                 stop, follow-up    ┌ queue ┐ Step    Input ┌───────────┐ Effect
//!   gateway ──────────────────▶ actor ───────┴───▶ turn ────▶│ lifecycle │───────▶ run, turn
//!      ▲                        ▲  ▲                         └───────────┘           │
//!      │ Notice                 │  └──── Happening ◀─────────────────────────────────┤ tasks: worktrees,
//!      └────────────────────────┘                                                    │ spawn, signals, kill
//!                               ▲                                                    │
//!     shim ──lengths──▶ output (pumps the spool into the log) ◀─────────Drain────────┘
//! ```
//!
//! * The actor decides nothing: [`queue`] (which turn is next) and [`lifecycle`]
//!   (what becomes of one) do, purely. It does nothing slow either: each effect
//!   that takes time is a task that reports back with a message, so a stop is
//!   never behind anything.
//! * One turn at a time; but what the executors of earlier turns left behind may
//!   live on beside it, each under its own shim, until it ends or a stop comes.
//! * A turn ends and the next one begins in one transaction: there is no moment
//!   in which a prompt is neither waiting nor running, and none in which the
//!   attempt looks settled with something to do.
//! * No log byte passes through the mailbox. The output task is told by the shim
//!   that there is more and takes it from the spool into the log by itself.
//! * Every change of the row is written before it is announced, under the
//!   attempt's epoch. All that is not in the row is in the process's folder, so
//!   the actor of a dead daemon, or a dead actor, is rebuilt by the same path
//!   ([`Begin::Resume`]).
//! * A stop ends processes first and writes afterwards. What the store can't take
//!   waits in memory, in its order ([`row`]).
//! * The actor lives while anything of the attempt does, or waits for a slot.
//!   Whoever asks for an attempt without one has it made. Its end kills nothing.

mod anew;
mod approvals;
mod collect;
mod dialogue;
pub mod digest;
mod disk;
mod environment;
mod follow;
pub mod lifecycle;
pub mod locks;
mod message;
mod outcome;
mod output;
mod prepare;
pub mod queue;
mod recap;
mod row;
mod run;
mod start;
mod stop;
mod stops;
mod turn;
mod voice;

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef, DerivedActorRef};

pub use crate::base::is_base;
pub use approvals::RespondCall;
pub use collect::{Collect, CollectPort, Collection, Saved, Verdict};
pub use dialogue::read as dialogue_of;
pub use message::{FollowUpCall, Message, Notice};
pub use outcome::GO_ON;
pub use prepare::{MARKER, has_worktrees, real_worktrees, was_collected};

use crate::journal::Attempt;
use crate::world::World;
use run::State;

/// How an actor comes to its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Nothing has run; it has a slot, or waits for one.
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
            Message::FollowUp(call, port) => state.follow_up(call, port).await,
            Message::Stop { force, reply } => state.stop(force, reply).await,
            Message::Collect(how, port) => state.collect(how, port),
            Message::Examined(how, newest, examined, port) => {
                state.examined(how, newest, examined, port).await;
            }
            Message::Respond(call, port) => state.respond(call, port).await,
            Message::Granted => state.granted().await,
            Message::WriteAgain => state.write_again().await,
            Message::Turn(process, happening) => state.happened(process, happening).await,
        }
        state.close().await;
        Ok(())
    }
}
