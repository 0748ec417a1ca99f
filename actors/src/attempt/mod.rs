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
//! The life of the actor; the gateway (`gateway/owners.rs`) starts it and supervises it:
//!
//! ```text
//!  start (Begin::New, Begin::Resume)
//!    │  `state.rs`, begin(): an open finish, worktrees that are lent, the dev server, a due snapshot,
//!    │  what earlier turns left running, the newest turn
//!    ▼
//!  one message at a time; after each one close()
//!    │  nothing is alive, nothing waits, no task runs, all changes are written
//!    ▼
//!  AttemptEvent::Ended, and the actor stops. The next call for the attempt starts another actor.
//! ```
//!
//! * [`queue`] (which turn is next) and [`lifecycle`] (the states of one turn) decide, purely.
//!   What takes time is a task that reports back, so a stop never waits for it.
//! * One turn at a time; it ends and the next one begins in one transaction. What earlier
//!   turns left running lives on under its own shims.
//! * A change of the row is written before it is announced, under the attempt's epoch; only a
//!   stop ends processes first. What the store can't take waits in memory ([`row`]).
//! * A dead actor is rebuilt from the row and the processes' folders ([`Begin::Resume`]).

mod approvals;
mod bundles;
mod collect;
mod dev_server;
mod end_less_confined;
pub mod finish;
mod follow_up;
mod former;
mod freeze_notice;
mod lend;
pub mod lifecycle;
pub mod locks;
mod message;
mod moved;
mod network_approvals;
mod outcome;
mod output;
mod own_state;
mod pending_stops;
mod prepare;
pub mod provision;
mod pushes;
pub mod queue;
mod recap;
mod remove_worktrees;
mod restore;
pub mod resume;
mod row;
mod sandbox_plan;
mod say;
mod snapshot;
mod start;
mod state;
mod stdin_writer;
mod stop;
mod turn;
pub mod turn_summary;
mod variables;

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tracing::Instrument as _;

pub use bundles::{BundleError, ensure_base, have_commit, have_turn, of_base as keep_base};
pub use former::collect_former;
pub use message::{
    AttemptEvent, AttemptMessage, Collect, CollectPort, CollectVerdict, Collection,
    FollowUpRequest, LoanFn, PreviewAsk, Saved,
};
pub use moved::{fetch_all, forget_former};
pub use network_approvals::asked_for as host_asked_for;
pub use outcome::RESUME_PROMPT;
pub use prepare::{has_worktrees, is_gone, read_launch_state, real_worktrees, was_collected};
pub use pushes::{keep_pushed, wake as wake_pushes};
pub use remove_worktrees::MARKER;
pub use sandbox_plan::{
    Machine, SandboxPlan, around_check, obstacle as box_obstacle, strictest as box_of_all_turns,
};
pub use variables::own as own_variables;

use crate::journal::{Attempt, Decision};
use crate::world::World;
use state::AttemptActorState;

/// How much of an attempt exists when the gateway starts its actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Nothing has run. The first turn holds a running slot, or waits for one.
    New,
    /// The attempt has had an actor before: the new one continues from the row and the folders,
    /// whatever they show.
    Resume,
}

/// What the gateway gives to a new actor.
pub struct Arguments {
    pub attempt: Attempt,
    pub begin: Begin,
    pub world: Arc<World>,
    /// Asks for the worktrees of another attempt, on loan.
    pub lend: LoanFn,
    /// Receives what the actor reports.
    pub events: Box<dyn Fn(AttemptEvent) + Send + Sync>,
}

/// The actor itself, which has no data: `AttemptActorState` has all of it, and the behaviour too.
pub struct AttemptActor;

impl Actor for AttemptActor {
    type Msg = AttemptMessage;
    type State = AttemptActorState;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<AttemptMessage>,
        arguments: Arguments,
    ) -> Result<AttemptActorState, ActorProcessingErr> {
        Ok(AttemptActorState::begin(myself, arguments))
    }

    async fn handle(
        &self,
        _: ActorRef<AttemptMessage>,
        message: AttemptMessage,
        state: &mut AttemptActorState,
    ) -> Result<(), ActorProcessingErr> {
        let span = tracing::info_span!("attempt", id = %state.attempt.attempt_id);
        // Boxed, so that an actor that waits for its next message stays small: its loop would otherwise
        // reserve memory for the largest of these branches.
        let handled = Box::pin(async move {
            match message {
                AttemptMessage::FollowUp { key, request, has_slot, port } => {
                    state.follow_up(key, request, has_slot, port).await;
                }
                AttemptMessage::Stop { force, port } => state.stop(force, port).await,
                AttemptMessage::Finish(key, request, port) => {
                    state.finish(key.as_ref(), *request, port).await;
                }
                AttemptMessage::Apply(finish, port) => state.apply(*finish, port),
                AttemptMessage::Finished => state.finishing = None,
                AttemptMessage::Lend(finish, port) => state.lend(finish, port),
                AttemptMessage::LoanReturned => state.lent_back(),
                AttemptMessage::Preview(ask, port) => state.preview(ask, port),
                AttemptMessage::PreviewEnded => state.previewing = None,
                AttemptMessage::Collect(how, port) => state.collect(how, port),
                AttemptMessage::Examined(how, newest, examined, port) => {
                    state.examined(how, newest, examined, port).await;
                }
                AttemptMessage::Respond(key, approval, verdict, port) => {
                    let decision = Decision::Verdict(verdict);
                    let _ = port.send(state.decide(key.as_ref(), approval, &decision).await);
                }
                AttemptMessage::Restore(port) => state.restore(port),
                AttemptMessage::SnapshotTaken => state.snapshots -= 1,
                AttemptMessage::Restored => state.restoring -= 1,
                AttemptMessage::Granted => state.granted().await,
                AttemptMessage::WriteAgain => state.write_again().await,
                AttemptMessage::Turn(process, event) => state.happened(process, event).await,
            }
            state.close().await;
        });
        handled.instrument(span).await;
        Ok(())
    }
}
