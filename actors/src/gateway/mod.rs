//! The gateway: the one door to the actors.
//!
//! ```text
//!   tools ──GatewayMessage──▶ gateway ──▶ task: check, journal ──▶ answer straight to the caller
//!                        │  ▲ Checked, Recorded, …
//!                        │  └──────── AttemptEvent ─────────┐
//!                        └──▶ task: ask the attempt's owner ┴──▶ answer straight to the caller
//! ```
//!
//! It owns who runs and who waits ([`admission`]), which actor owns which attempt
//! ([`owners`]), and which keyed calls are in flight ([`in_flight`]). It does nothing slow:
//! what reads git or the journal is a task that reports back. A start takes three messages:
//! `Start` (checked in a task), `Checked` (a slot if one is free, then written down in a
//! task), `Recorded` (owned, run or queued, and answered). Other calls go to the attempt's
//! owner, whose mailbox gives them one order.

mod admission;
mod calls;
mod check;
mod in_flight;
mod message;
mod owners;
mod restore;
mod start;
mod stop;

use std::collections::HashMap;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};

pub use calls::{ask, notify_worker};
pub use check::{NewRepo, RepoPath, executor as check_executor, repository as check_repository};
pub use message::{
    FollowUpRequest, GatewayMessage, Owned, Port, RespondRequest, StartRequest, StillAlive,
    StoppedAll,
};

use crate::attempt::{AttemptEvent, AttemptMessage};
use crate::ids::AttemptId;
use crate::journal::{AttemptStopped, Once};
use crate::refusal::{Code, Refusal};
use crate::world::World;
use admission::Admission;
use in_flight::InFlight;

pub struct Gateway;

pub struct GatewayState {
    myself: ActorRef<GatewayMessage>,
    world: Arc<World>,
    admission: Admission,
    owners: HashMap<AttemptId, ActorRef<AttemptMessage>>,
    /// Who waits for an owner that is being made.
    loading: HashMap<AttemptId, Vec<owners::OwnerRequest>>,
    /// Who may begin a turn when a stop of an earlier daemon is over, by attempt.
    stopping: HashMap<AttemptId, Vec<owners::OwnerRequest>>,
    /// How many starts are being written down.
    starting: usize,
    /// Who waits until all has been stopped, those starts too.
    closing: Vec<RpcReplyPort<StoppedAll>>,
    stops: InFlight<Port<Once<AttemptStopped>>, Result<Once<AttemptStopped>, Refusal>>,
    failures: owners::Failures,
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
            stopping: HashMap::new(),
            starting: 0,
            closing: Vec::new(),
            stops: InFlight::default(),
            failures: owners::Failures::default(),
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
            GatewayMessage::Collect(attempt, how, port) => {
                state.answer(port, |gateway, _| async move {
                    let collect = |_, port| AttemptMessage::Collect(how, port);
                    owners::ask_owner(&gateway, attempt, false, collect).await
                });
            }
            GatewayMessage::FollowUp(key, request, port) => {
                state.answer(port, |gateway, world| calls::follow_up(gateway, world, key, request));
            }
            GatewayMessage::Respond(key, request, port) => {
                state.answer(port, |gateway, world| calls::respond(gateway, world, key, request));
            }
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
            GatewayMessage::Completed(attempt, queue_again) => {
                state.completed(attempt, queue_again);
            }
            GatewayMessage::AttemptEvent(AttemptEvent::SlotWanted(attempt, priority)) => {
                state.slot_wanted(attempt, priority);
            }
            GatewayMessage::AttemptEvent(AttemptEvent::SlotFreed(attempt)) => {
                state.slot_freed(attempt);
            }
            GatewayMessage::AttemptEvent(AttemptEvent::Ended(attempt)) => state.ended(attempt),
            GatewayMessage::AttemptEvent(AttemptEvent::Resumes(attempt, process, at)) => {
                state.resume_at(attempt, process, at);
            }
        }
        Ok(())
    }

    // An attempt's failure is never the gateway's: see `owners`.
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

fn ending() -> Refusal {
    Refusal::new(Code::ShuttingDown, "the daemon is ending")
}
