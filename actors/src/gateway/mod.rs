//! The gateway: the single entry to the actors.
//!
//! ```text
//!   start, stop ──GatewayMessage──▶ gateway ──▶ task: journal, owner ──▶ answer to the caller
//!                              ▲ │ ▲ Recorded, AttemptEvent
//!                  Owner, a slot │ └──────────┐
//!   other calls (a task each) ◀──┴──────▶ the attempt's owner
//! ```
//!
//! It owns who runs and who waits ([`admission`]), and which actor owns which attempt ([`owners`]). It does
//! nothing slow: whatever reads git or the journal is a task that reports back. A start takes two messages:
//! `Start` takes a slot if one is free, and has the attempt written down; `Recorded` gives it an owner,
//! runs or queues it, and answers. Other [`calls`] ask the gateway for the attempt's owner, whose mailbox
//! puts them in one order.
//!
//! The order within a start matters: the row is written before the attempt has an owner, so that an owner
//! always has a row, and the slot is taken before the row is written, so that the row says whether the
//! attempt runs.

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
use crate::journal::{Attempt, AttemptStarted, Idempotent, Key, Phase, Priority, State};
use crate::refusal::{Code, Refusal};
use crate::world::World;
use admission::Admission;

type StartPort = Port<Idempotent<AttemptStarted>>;

/// The actor. Its arguments are the [`World`]; it ends with the daemon.
pub struct Gateway;

/// What the gateway knows. All of it is rebuilt by `Restore` after the daemon's death.
pub struct GatewayState {
    myself: ActorRef<GatewayMessage>,
    world: Arc<World>,
    /// Who runs and who waits on this host.
    admission: Admission,
    owners: HashMap<AttemptId, ActorRef<AttemptMessage>>,
    /// The attempts whose rows are being read so that they get owners. Each row is read once at a time.
    loading: HashMap<AttemptId, owners::Loading>,
    /// The attempts with stops of an earlier daemon that are carried out again, each with the requests for
    /// a turn that wait until these are over.
    stopping: HashMap<AttemptId, Vec<owners::OwnerRequest>>,
    /// How many starts are being written down: they have no owner yet that could be stopped.
    starting: usize,
    /// Callers of `StopAll` that wait until those starts have been stopped too.
    closing: Vec<RpcReplyPort<StoppedAll>>,
    /// The stops under a key that are not on file yet.
    stops: stop::KeyedStops,
    /// When owners failed, so that one that keeps failing is not rebuilt for ever.
    failures: owners::Failures,
    /// The claims of attempts that no host has.
    claims: claim::Claims,
    /// Whether the board is being asked which attempts may begin under their executors' limits.
    permits: claim::UnderWay,
    /// Everything is being stopped: nothing starts until `GoOn`.
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

    // An attempt's failure never ends the gateway: see `owners`.
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
    /// Decides whether the attempt begins at once, and has it written down in a task. `attempt` has passed
    /// the checks of `preflight`.
    fn start(&mut self, key: Option<Key>, mut attempt: Attempt, port: StartPort) {
        if self.is_closing {
            return drop(port.send(Err(ending())));
        }
        if attempt.is_answer {
            self.admission.answers(attempt.attempt_id);
        }
        let may_wait_anywhere = self.world.host.has_lease && attempt.may_wait_anywhere();
        let asks = self.asks(&attempt);
        // On a shared board an attempt that asks for more than a slot is claimed instead of placed, so that
        // it waits in one order with all of the board.
        let is_placed = !attempt.host.is_empty() && (asks.is_none() || !may_wait_anywhere);
        self.admission.asks(attempt.attempt_id, asks);
        // An attempt that is on no host, or may be on any, waits on none: the first host with room claims
        // it.
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

    /// A start is written down or was refused: gives a new attempt its owner, and answers.
    async fn recorded(
        &mut self,
        attempt: Attempt,
        answer: Result<Idempotent<AttemptStarted>, Refusal>,
        port: StartPort,
    ) {
        let (id, priority, phase) = (attempt.attempt_id, attempt.priority, attempt.phase);
        match &answer {
            Ok(Idempotent { deduplicated: false, .. }) if attempt.host.is_empty() => {
                self.admission.forget(id);
                // A slot may have become free before the row was there to be claimed.
                self.claim();
            }
            Ok(Idempotent { deduplicated: false, .. }) => {
                self.own(attempt, Begin::New).await;
                if phase == Phase::Queued {
                    self.admission.queue(id, priority);
                }
                self.ask_for_permits();
            }
            // The same call came first, or this one was refused: give the slot back.
            Ok(_) | Err(_) => self.admission.forget(id),
        }
        let _ = port.send(answer);
        self.grant();
        self.starting = self.starting.saturating_sub(1);
        if self.starting == 0 {
            // Those starts have owners now, and have to be stopped as well.
            for port in std::mem::take(&mut self.closing) {
                self.stop_all(port);
            }
        }
    }

    /// A turn waits for a slot. Its row is written, and it has an owner, so it may be granted at once.
    fn slot_wanted(&mut self, attempt: AttemptId, priority: Priority) {
        self.admission.queue(attempt, priority);
        self.grant();
        self.ask_for_permits();
    }

    /// A turn no longer needs its slot. The queue of this host comes first, then attempts of no host.
    fn slot_freed(&mut self, attempt: AttemptId) {
        self.admission.leave(attempt);
        self.grant();
        self.claim();
    }

    /// Grants free slots to the first in the queue, until there is none.
    fn grant(&mut self) {
        while !self.is_closing
            && let Some(id) = self.admission.next()
        {
            let owner = self.owners.get(&id);
            let granted = owner.is_some_and(|it| it.send_message(AttemptMessage::Granted).is_ok());
            // An owner that has failed takes a slot again when it has been rebuilt (`take_up`).
            if !granted {
                self.admission.leave(id);
            }
        }
    }
}

fn ending() -> Refusal {
    Refusal::new(Code::ShuttingDown, "the daemon is ending")
}
