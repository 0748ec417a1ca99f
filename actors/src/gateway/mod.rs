//! The gateway: the one door to the actors.
//!
//! ```text
//!   tools ──GatewayMessage──▶ gateway ──▶ task: check, journal ──▶ answer straight to the caller
//!                        │  ▲ Checked, Recorded, …
//!                        │  └──────── AttemptEvent ─────────┐
//!                        ├──▶ supervisor ──▶ attempt ──┘
//!                        └── (port handed on) ──▶ attempt ──▶ answer straight to the caller
//! ```
//!
//! It owns who runs and who waits ([`admission`]), which actor owns which
//! attempt, and which keyed calls are in flight ([`in_flight`]). It does nothing
//! slow: whatever reads git or the journal is a task that reports back, and a
//! reply port is handed on, never awaited. A start goes through three messages:
//! `Start` (checked in a task), `Checked` (a slot if one is free, then written
//! down in a task), `Recorded` (owned, run or queued, and answered). So the phase
//! in the answer is the one that was written with it. What else concerns one
//! attempt, a follow-up or a stop, is a message to its owner, in whose mailbox
//! all such things have one order; an attempt that has none is given one.

mod admission;
mod check;
mod follow_up;
mod in_flight;
mod intents;
mod message;
mod owners;
mod respond;
mod resume;
mod start;
mod stop;
mod supervisor;

use std::collections::HashMap;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};

pub use check::{NewRepo, RepoPath, executor as check_executor, repository as check_repository};
pub use message::{
    FollowUpRequest, GatewayMessage, Owned, Port, RespondRequest, StartRequest, StillAlive,
    StoppedAll,
};

use crate::attempt::{AttemptEvent, AttemptMessage};
use crate::ids::AttemptId;
use crate::journal::{AttemptStopped, Once};
use crate::refusal::Refusal;
use crate::world::World;
use admission::Admission;
use in_flight::InFlight;

/// The actor.
pub struct Gateway;

/// Its state.
pub struct GatewayState {
    myself: ActorRef<GatewayMessage>,
    world: Arc<World>,
    admission: Admission,
    owners: HashMap<AttemptId, ActorRef<AttemptMessage>>,
    /// Who waits for an owner that is being made.
    loading: HashMap<AttemptId, Vec<owners::OwnerRequest>>,
    /// Who may begin a turn when a stop has been carried through, by attempt.
    carrying: HashMap<AttemptId, Vec<owners::OwnerRequest>>,
    /// How many starts are being written down.
    starting: usize,
    /// Who waits until all has been stopped, those starts too.
    closing: Vec<RpcReplyPort<StoppedAll>>,
    stops: InFlight<Port<Once<AttemptStopped>>, Result<Once<AttemptStopped>, Refusal>>,
    failures: supervisor::Failures,
    /// Everything is being stopped; nothing starts any more.
    is_closing: bool,
}

impl Actor for Gateway {
    type Msg = GatewayMessage;
    type State = GatewayState;
    type Arguments = Arc<World>;

    async fn pre_start(
        &self,
        myself: ActorRef<GatewayMessage>,
        world: Arc<World>,
    ) -> Result<GatewayState, ActorProcessingErr> {
        let settings = &world.settings;
        let admission = Admission::new(settings.max_running_attempts, settings.max_running_answers);
        Ok(GatewayState {
            myself,
            world,
            admission,
            owners: HashMap::new(),
            loading: HashMap::new(),
            carrying: HashMap::new(),
            starting: 0,
            closing: Vec::new(),
            stops: InFlight::default(),
            failures: supervisor::Failures::default(),
            is_closing: false,
        })
    }

    async fn handle(
        &self,
        _: ActorRef<GatewayMessage>,
        message: GatewayMessage,
        state: &mut GatewayState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            GatewayMessage::Start(key, request, port) => state.start(key, request, port),
            GatewayMessage::Checked(key, attempt, port) => state.checked(key, *attempt, port),
            GatewayMessage::Recorded(attempt, answer, port) => {
                state.recorded(*attempt, answer, port).await;
            }
            GatewayMessage::Stop(key, attempt, force, port) => {
                state.stop(key, attempt, force, port);
            }
            GatewayMessage::Collect(attempt, how, port) => state.collect(attempt, how, port),
            GatewayMessage::FollowUp(key, request, port) => state.follow_up(key, request, port),
            GatewayMessage::Respond(key, request, port) => state.respond(key, request, port),
            GatewayMessage::Owner(attempt, wants_slot, port) => {
                state.owner(attempt, owners::OwnerRequest { wants_slot, port });
            }
            GatewayMessage::Loaded(id, attempt) => state.loaded(id, *attempt).await,
            GatewayMessage::Stopped(key, answer, is_kept) => state.stopped(&key, &answer, is_kept),
            GatewayMessage::Kept(key) => state.stops.forget(&key),
            GatewayMessage::StopAll(port) => state.stop_all(port),
            GatewayMessage::GoOn => state.go_on(),
            GatewayMessage::StoppedAll(stopped, port) => state.stopped_all(stopped, port),
            GatewayMessage::Counts(port) => drop(port.send(state.admission.counts())),
            GatewayMessage::Restore(port) => state.restore(port),
            GatewayMessage::Restored(left, port) => state.restored(left, port).await,
            GatewayMessage::Carried(attempt, queue_again) => state.carried(attempt, queue_again),
            GatewayMessage::AttemptEvent(AttemptEvent::SlotWanted(attempt, priority)) => {
                state.slot_wanted(attempt, priority);
            }
            GatewayMessage::AttemptEvent(AttemptEvent::SlotFreed(attempt)) => {
                state.slot_freed(attempt);
            }
            GatewayMessage::AttemptEvent(AttemptEvent::Ended(attempt)) => state.ended(attempt),
            GatewayMessage::Resumes(attempt, process, at)
            | GatewayMessage::AttemptEvent(AttemptEvent::Resumes(attempt, process, at)) => {
                state.resume_at(attempt, process, at);
            }
            GatewayMessage::Failed(attempt) => state.failed(attempt),
        }
        Ok(())
    }

    // An attempt's failure is never the gateway's: see `supervisor`.
    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<GatewayMessage>,
        event: SupervisionEvent,
        state: &mut GatewayState,
    ) -> Result<(), ActorProcessingErr> {
        state.child_event(event);
        Ok(())
    }
}
