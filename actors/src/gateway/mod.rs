//! The gateway: the one door to the actors.
//!
//! ```text
//!   tools ──Message──▶ gateway ──▶ task: check, journal ──▶ answer straight to the caller
//!                        │  ▲ Checked, Recorded, …
//!                        │  └──────── Notice ─────────┐
//!                        ├──▶ supervisor ──▶ attempt ──┘
//!                        └── (port handed on) ──▶ attempt ──▶ answer straight to the caller
//! ```
//!
//! It owns who runs and who waits ([`admission`]), which actor owns which
//! attempt, and which keyed calls are under way ([`flights`]). It does nothing
//! slow: whatever reads git or the journal is a task that reports back, and a
//! reply port is handed on, never awaited. A start goes through three messages:
//! `Start` (checked in a task), `Checked` (a slot if one is free, then written
//! down in a task), `Recorded` (owned, run or queued, and answered). So the phase
//! in the answer is the one that was written with it. What else concerns one
//! attempt, a follow-up or a stop, is a message to its owner, in whose mailbox
//! all such things have one order; an attempt that has none is given one.

mod admission;
mod check;
mod collect;
mod flights;
mod follow_up;
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
    FollowUpRequest, Message, Owned, Port, RespondRequest, StartRequest, StillAlive, StoppedAll,
};

use crate::attempt::{self, Notice};
use crate::ids::AttemptId;
use crate::journal::{AttemptStopped, Once};
use crate::refusal::Refusal;
use crate::world::World;
use admission::Admission;
use flights::Flights;

/// The actor.
pub struct Gateway;

/// Its state.
pub struct State {
    myself: ActorRef<Message>,
    world: Arc<World>,
    admission: Admission,
    owners: HashMap<AttemptId, ActorRef<attempt::Message>>,
    /// Who waits for an owner that is being made.
    loading: HashMap<AttemptId, Vec<owners::Asked>>,
    /// Who may begin a turn when a stop has been carried through, by attempt.
    carrying: HashMap<AttemptId, Vec<owners::Asked>>,
    /// How many starts are being written down.
    starting: usize,
    /// Who waits until all has been stopped, those starts too.
    closing: Vec<RpcReplyPort<StoppedAll>>,
    stops: Flights<Port<Once<AttemptStopped>>, Result<Once<AttemptStopped>, Refusal>>,
    failures: supervisor::Failures,
    /// Everything is being stopped; nothing starts any more.
    is_closing: bool,
}

impl Actor for Gateway {
    type Msg = Message;
    type State = State;
    type Arguments = Arc<World>;

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        world: Arc<World>,
    ) -> Result<State, ActorProcessingErr> {
        let settings = &world.settings;
        let admission = Admission::new(settings.max_running_attempts, settings.max_running_answers);
        Ok(State {
            myself,
            world,
            admission,
            owners: HashMap::new(),
            loading: HashMap::new(),
            carrying: HashMap::new(),
            starting: 0,
            closing: Vec::new(),
            stops: Flights::default(),
            failures: supervisor::Failures::default(),
            is_closing: false,
        })
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Start(key, request, port) => state.start(key, request, port),
            Message::Checked(key, attempt, port) => state.checked(key, *attempt, port),
            Message::Recorded(attempt, answer, port) => {
                state.recorded(*attempt, answer, port).await;
            }
            Message::Stop(key, attempt, force, port) => state.stop(key, attempt, force, port),
            Message::Collect(attempt, how, port) => state.collect(attempt, how, port),
            Message::FollowUp(key, request, port) => state.follow_up(key, request, port),
            Message::Respond(key, request, port) => state.respond(key, request, port),
            Message::Owner(attempt, wants_slot, port) => {
                state.owner(attempt, owners::Asked { wants_slot, port });
            }
            Message::Loaded(id, attempt) => state.loaded(id, *attempt).await,
            Message::Stopped(key, answer, is_kept) => state.stopped(&key, &answer, is_kept),
            Message::Kept(key) => state.stops.forget(&key),
            Message::StopAll(port) => state.stop_all(port),
            Message::GoOn => state.go_on(),
            Message::StoppedAll(stopped, port) => state.stopped_all(stopped, port),
            Message::Counts(port) => drop(port.send(state.admission.counts())),
            Message::Restore(port) => state.restore(port),
            Message::Restored(left, port) => state.restored(left, port).await,
            Message::Carried(attempt, queue_again) => state.carried(attempt, queue_again),
            Message::Notice(Notice::SlotWanted(attempt, priority)) => {
                state.slot_wanted(attempt, priority);
            }
            Message::Notice(Notice::SlotFreed(attempt)) => state.slot_freed(attempt),
            Message::Notice(Notice::Ended(attempt)) => state.ended(attempt),
            Message::Resumes(attempt, process, at)
            | Message::Notice(Notice::Resumes(attempt, process, at)) => {
                state.resume_at(attempt, process, at);
            }
            Message::Failed(attempt) => state.failed(attempt),
        }
        Ok(())
    }

    // An attempt's failure is never the gateway's: see `supervisor`.
    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Message>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        state.child_event(event);
        Ok(())
    }
}
