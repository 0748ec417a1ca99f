//! The gateway: the one door to the actors.
//!
//! ```text
//!   start, stop ──GatewayMessage──▶ gateway ──▶ task: journal, owner ──▶ answer to the caller
//!                              ▲ │ ▲ Recorded, AttemptEvent
//!                  Owner, a slot │ └──────────┐
//!   other calls (a task each) ◀──┴──────▶ the attempt's owner
//! ```
//!
//! It owns who runs and who waits ([`admission`]) and which actor owns which attempt
//! ([`owners`]). It does nothing slow: what reads git or the journal is a task that reports
//! back. A start takes two messages: `Start` (a slot if one is free, then written down) and
//! `Recorded` (owned, run or queued, and answered). Other [`calls`] ask the gateway for the
//! attempt's owner, whose mailbox gives them one order.

mod admission;
mod calls;
mod check;
mod message;
mod owners;
mod restore;
mod start;
mod stop;

use std::collections::HashMap;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};

pub use calls::{ask, collect, follow_up, notify_worker, respond, start};
pub use check::{NewRepo, RepoPath, executor as check_executor, repository as check_repository};
pub use message::{
    FollowUpRequest, GatewayMessage, Owned, Port, StartRequest, StillAlive, StoppedAll,
};

use crate::attempt::{AttemptEvent, AttemptMessage};
use crate::ids::AttemptId;
use crate::refusal::{Code, Refusal};
use crate::world::World;
use admission::Admission;

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
    stops: stop::KeyedStops,
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
            stops: stop::KeyedStops::default(),
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
            GatewayMessage::Start(key, attempt, port) => state.start(key, *attempt, port),
            GatewayMessage::Recorded(attempt, answer, port) => {
                state.recorded(*attempt, answer, port).await;
            }
            GatewayMessage::Stop(key, attempt, force, port) => {
                state.stop(key, attempt, force, port);
            }
            GatewayMessage::Owner(attempt, wants_slot, port) => {
                state.owner(attempt, owners::OwnerRequest { wants_slot, port });
            }
            GatewayMessage::Loaded(id, attempt) => state.loaded(id, *attempt).await,
            GatewayMessage::StopAll(port) => state.stop_all(port),
            GatewayMessage::GoOn => state.go_on(),
            GatewayMessage::StoppedAll(stopped, port) => state.stopped_all(stopped, port),
            GatewayMessage::Counts(port) => drop(port.send(state.admission.counts())),
            GatewayMessage::Restore(port) => state.restore(port),
            GatewayMessage::Restored(left, port) => state.restored(left, port).await,
            GatewayMessage::IntentCompleted(attempt, queue_again) => {
                state.intent_completed(attempt, queue_again);
            }
            GatewayMessage::AttemptEvent(event) => match event {
                AttemptEvent::SlotWanted(attempt, priority) => state.slot_wanted(attempt, priority),
                AttemptEvent::SlotFreed(attempt) => state.slot_freed(attempt),
                AttemptEvent::Ended(attempt) => state.ended(attempt),
                AttemptEvent::Resumes(attempt, process, at) => {
                    state.resume_at(attempt, process, at);
                }
            },
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
