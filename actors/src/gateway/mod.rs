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
mod apply;
mod calls;
mod claim;
mod finish;
mod fork;
mod host;
mod message;
mod moved;
mod owners;
mod permits;
mod preflight;
mod preview;
mod push;
mod repository;
mod restore;
mod sandbox_rules;
mod signature;
mod stop;
mod sweep;

use std::collections::HashMap;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};

pub use apply::keep_applying;
pub use calls::{ask, collect, follow_up, notify_worker, respond, start};
pub use claim::keep_claiming;
pub use finish::{FinishCall, finish};
pub use host::{change_host, follow_lease, keep_lease};
pub use message::{GatewayMessage, Port, StartRequest, StoppedAll};
pub use moved::bring_here;
pub use preflight::{able as is_able, executor as check_executor};
pub use preview::preview;
pub use repository::{NewRepo, repository as check_repository};
pub use sandbox_rules::{as_its_asker as held_as_its_asker, left_to_person};

pub use crate::attempt::FollowUpRequest;
use crate::attempt::{AttemptEvent, AttemptMessage, Begin};
use crate::ids::AttemptId;
use crate::journal::{Attempt, AttemptStarted, Key, Once, Phase, Priority, State};
use crate::refusal::{Code, Refusal};
use crate::world::World;
use admission::Admission;

type StartPort = Port<Once<AttemptStarted>>;

pub struct Gateway;

pub struct GatewayState {
    myself: ActorRef<GatewayMessage>,
    world: Arc<World>,
    admission: Admission,
    owners: HashMap<AttemptId, ActorRef<AttemptMessage>>,
    /// The attempts whose rows are being read, so that they get owners.
    loading: HashMap<AttemptId, owners::Loading>,
    /// Who may begin a turn when a stop of an earlier daemon is over, by attempt.
    stopping: HashMap<AttemptId, Vec<owners::OwnerRequest>>,
    /// How many starts are being written down.
    starting: usize,
    /// Who waits until all has been stopped, those starts too.
    closing: Vec<RpcReplyPort<StoppedAll>>,
    stops: stop::KeyedStops,
    failures: owners::Failures,
    claims: claim::Claims,
    /// The look for attempts that the limits of their executors let begin.
    permits: claim::UnderWay,
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
        let (work, answers) = (settings.max_running_attempts, settings.max_running_answers);
        let host = &world.host;
        let mut admission = Admission::new(work, answers, host.memory, host.has_lease);
        admission.hold(world.host.drains());
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
            claims: claim::Claims::default(),
            permits: claim::UnderWay::default(),
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
                state.owner(attempt, (wants_slot, port));
            }
            GatewayMessage::Loaded(id, attempt) => state.loaded(id, *attempt).await,
            GatewayMessage::StopAll(port) => state.stop_all(port),
            GatewayMessage::GoOn => {
                state.is_closing = false;
                state.grant();
            }
            GatewayMessage::StoppedAll(_, port) if state.starting > 0 => state.closing.push(port),
            GatewayMessage::StoppedAll(stopped, port) => drop(port.send(stopped)),
            GatewayMessage::HostState(host_state, port) => {
                state.host_state(host_state);
                let _ = port.send(());
            }
            GatewayMessage::Apply(finishes) => state.apply(finishes),
            GatewayMessage::Claim => state.claim(),
            GatewayMessage::Claimed(claimed) => state.claimed(claimed),
            GatewayMessage::Admitted(attempts) => state.admitted(&attempts),
            GatewayMessage::TakeUp(attempt) => state.load_unowned(attempt),
            GatewayMessage::Free(port) => drop(port.send(state.admission.free() > 0)),
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

impl GatewayState {
    fn start(&mut self, key: Option<Key>, mut attempt: Attempt, port: StartPort) {
        if self.is_closing {
            return drop(port.send(Err(ending())));
        }
        if attempt.is_answer {
            self.admission.answers(attempt.attempt_id);
        }
        let may_wait_anywhere = self.world.host.has_lease && attempt.may_wait_anywhere();
        let asks = self.asks(&attempt);
        // What asks for more than a slot is claimed, so that it has its place among all of the board.
        let is_placed = !attempt.host.is_empty() && (asks.is_none() || !may_wait_anywhere);
        self.admission.asks(attempt.attempt_id, asks);
        // What is on no host yet, or may be on another one, waits on none of them.
        if is_placed && self.admission.take(attempt.attempt_id) {
            (attempt.phase, attempt.state) = (Phase::Preparing, State::Running);
        } else if may_wait_anywhere {
            attempt.host.clear();
        }
        let answer = AttemptStarted {
            attempt_id: attempt.attempt_id,
            task_id: attempt.task_id,
            workspace_branch: attempt.branch.clone(),
            session_id: attempt.session_id,
            execution_process_id: attempt.phase.is_active().then_some(attempt.process.process_id),
            state: attempt.state,
            phase: attempt.phase,
        };
        self.starting += 1;
        let (myself, journal) = (self.myself.clone(), Arc::clone(&self.world.journal));
        tokio::spawn(async move {
            let recorded = journal.record_start(key.as_ref(), &attempt, &answer).await;
            let _ =
                myself.send_message(GatewayMessage::Recorded(Box::new(attempt), recorded, port));
        });
    }

    async fn recorded(
        &mut self,
        attempt: Attempt,
        answer: Result<Once<AttemptStarted>, Refusal>,
        port: StartPort,
    ) {
        let (id, priority, phase) = (attempt.attempt_id, attempt.priority, attempt.phase);
        match &answer {
            Ok(Once { deduplicated: false, .. }) if attempt.host.is_empty() => {
                self.admission.forget(id);
                // A slot may have become free before its row was there.
                self.claim();
            }
            Ok(Once { deduplicated: false, .. }) => {
                self.own(attempt, Begin::New).await;
                if phase == Phase::Queued {
                    self.admission.queue(id, priority);
                }
                self.ask_for_permits();
            }
            // The same call came first, or this one was refused: the slot is free again.
            Ok(_) | Err(_) => self.admission.forget(id),
        }
        let _ = port.send(answer);
        self.grant();
        self.starting = self.starting.saturating_sub(1);
        if self.starting == 0 {
            // Those starts have owners now, which have to be stopped as well.
            for port in std::mem::take(&mut self.closing) {
                self.stop_all(port);
            }
        }
    }

    /// A turn waits for its slot. It is written down and has an owner.
    fn slot_wanted(&mut self, attempt: AttemptId, priority: Priority) {
        self.admission.queue(attempt, priority);
        self.grant();
        self.ask_for_permits();
    }

    fn slot_freed(&mut self, attempt: AttemptId) {
        self.admission.leave(attempt);
        self.grant();
        self.claim();
    }

    /// Lets the first in the queue run while slots are free.
    fn grant(&mut self) {
        while !self.is_closing
            && let Some(id) = self.admission.next()
        {
            let owner = self.owners.get(&id);
            let granted = owner.is_some_and(|it| it.send_message(AttemptMessage::Granted).is_ok());
            // An owner that has failed asks again when it has been rebuilt.
            if !granted {
                self.admission.leave(id);
            }
        }
    }
}

fn ending() -> Refusal {
    Refusal::new(Code::ShuttingDown, "the daemon is ending")
}
