//! Which actor owns which attempt, and the supervision of these actors: a failed one is rebuilt alone.
//!
//! ```text
//!  unowned ─ Owner or TakeUp ───────────────────────────────▶ loading
//!  loading ─ the row has been read ─────────────────────────▶ owned; the requests get the owner
//!          ─ the row has changed since (`is_stale`) ────────▶ loading
//!          ─ there is no such row, or it is another host's ─▶ unowned; the requests are refused
//!  owned   ─ Ended: nothing of it is alive or waits ────────▶ unowned
//!          ─ the actor failed, at most 5 times a minute ────▶ loading
//!          ─ it failed more often ──────────────────────────▶ unowned, until a call needs it
//! ```
//!
//! An attempt that is left without an owner has no slot and no place in the queue, even if a process of it
//! lives on: a slot that no owner frees would be lost.
//!
//! An attempt has no owner as long as nothing of it is alive or waits; it gets one when a call needs one.
//! An owner that fails is rebuilt from disk, as after a restart of the daemon. One that keeps failing is
//! left alone, its processes unharmed. An attempt of another host gets no owner here, so that nothing can
//! run twice.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::{Actor, ActorRef, RpcReplyPort, SupervisionEvent};

use crate::attempt::{Arguments, AttemptActor, AttemptMessage, Begin, LoanFn, forget_former};
use crate::ids::AttemptId;
use crate::journal::{Attempt, Phase};
use crate::refusal::{Code, Refusal};

use super::message::{GatewayMessage, Owned, Port};
use super::{GatewayState, ending};

/// How often [`ask_owner`] tries, and the pause between, while an owner ends, or fails and is rebuilt: 2
/// seconds.
const TRIES: u32 = 100;
const RETRY: Duration = Duration::from_millis(20);
/// Tries and pause while another program holds the database: an owner itself does not wait, as it would
/// block its mailbox.
const LOCKED_TRIES: u32 = 20;
const LOCKED_PAUSE: Duration = Duration::from_millis(500);
/// After more failures than this within the window, an attempt is not given another owner by itself.
const MAX_FAILURES: usize = 5;
const WINDOW: Duration = Duration::from_mins(1);
/// The pause before an unreadable row is read again. It is so long that these failures never reach
/// [`MAX_FAILURES`].
const REREAD: Duration = Duration::from_secs(15);

/// A request for the owner of an attempt. `true`: it may begin a turn, and so wants a slot.
pub type OwnerRequest = (bool, Port<Owned>);

/// A row that is being read so that its attempt gets an owner.
#[derive(Default)]
pub struct Loading {
    /// The requests that wait for the owner.
    waiting: Vec<OwnerRequest>,
    /// The row has changed since the read began, and has to be read again.
    pub is_stale: bool,
}

/// When the actors of which attempts failed.
#[derive(Debug, Default)]
pub struct Failures(HashMap<AttemptId, Vec<Instant>>);

impl Failures {
    /// Counts a failure. `true`: build another owner.
    fn count(&mut self, attempt: AttemptId, now: Instant) -> bool {
        let times = self.0.entry(attempt).or_default();
        times.retain(|&time| now.duration_since(time) < WINDOW);
        times.push(now);
        times.len() <= MAX_FAILURES
    }
}

impl GatewayState {
    /// Answers with the owner, with a slot if one is wanted and free. Without an owner, the row is read
    /// first.
    pub(super) fn owner(&mut self, id: AttemptId, (wants_slot, port): OwnerRequest) {
        if self.is_closing && wants_slot {
            return drop(port.send(Err(ending())));
        }
        if wants_slot && let Some(waiting) = self.stopping.get_mut(&id) {
            return waiting.push((wants_slot, port));
        }
        if let Some(owner) = self.owners.get(&id).cloned() {
            let has_slot = wants_slot && self.admission.take(id);
            return drop(port.send(Ok((owner, has_slot))));
        }
        match self.loading.entry(id) {
            Entry::Occupied(loading) => loading.into_mut().waiting.push((wants_slot, port)),
            // A row that is read twice may have had an owner in between.
            Entry::Vacant(none) => {
                none.insert(Loading { waiting: vec![(wants_slot, port)], is_stale: false });
                self.load(id, None);
            }
        }
    }

    /// Reads an attempt's row in a task. With `retry`, until it can be read, with this pause.
    fn load(&self, id: AttemptId, retry: Option<Duration>) {
        let (myself, journal) = (self.myself.clone(), Arc::clone(&self.world.journal));
        tokio::spawn(async move {
            let mut attempt = journal.attempt(id).await;
            while let (Err(refusal), Some(retry)) = (&attempt, retry) {
                tracing::error!(attempt = %id, %refusal, "its row can't be read");
                tokio::time::sleep(retry).await;
                attempt = journal.attempt(id).await;
            }
            let _ = myself.send_message(GatewayMessage::Loaded(id, Box::new(attempt)));
        });
    }

    /// The row has been read: gives the attempt its owner, and answers those who wait.
    pub(super) async fn loaded(
        &mut self,
        id: AttemptId,
        attempt: Result<Option<Attempt>, Refusal>,
    ) {
        let Loading { waiting, is_stale } = self.loading.remove(&id).unwrap_or_default();
        if is_stale {
            self.loading.insert(id, Loading { waiting, is_stale: false });
            return self.load(id, Some(REREAD));
        }
        let own = |attempt: Option<Attempt>| match attempt {
            Some(attempt) => self.world.host.require(&attempt).map(|()| Some(attempt)),
            None => Ok(None),
        };
        let refusal = match attempt.and_then(own) {
            Ok(Some(attempt)) => {
                self.take_up(attempt).await;
                self.grant();
                self.ask_for_permits();
                Refusal::internal(format!("attempt {id} can't be owned"))
            }
            Ok(None) => not_found(id),
            Err(refusal) => refusal,
        };
        if !self.owners.contains_key(&id) && !refusal.code.retryable() {
            self.unowned(id);
        }
        for request in waiting {
            if self.owners.contains_key(&id) {
                self.owner(id, request);
            } else {
                let _ = request.1.send(Err(refusal.clone()));
            }
        }
        // What is being read counts as if it took a slot.
        if self.loading.is_empty() {
            self.claim();
        }
    }

    /// Gives an attempt its owner, whatever the attempt is in the middle of, and restores its slot or its
    /// place in the queue from its phase.
    pub(super) async fn take_up(&mut self, attempt: Attempt) {
        let (id, priority, phase) = (attempt.attempt_id, attempt.priority, attempt.phase);
        self.own(attempt, Begin::Resume).await;
        if !self.owners.contains_key(&id) {
            return;
        }
        // An owner that failed may have held a slot, or waited for one.
        self.admission.leave(id);
        if phase.is_active() {
            self.admission.occupy(id);
        } else if phase == Phase::Queued {
            self.admission.queue(id, priority);
        }
    }

    /// Starts an attempt's actor, linked to the gateway. `lend` is how it gets the worktrees of another
    /// attempt, whose branch gets its work.
    pub(super) async fn own(&mut self, attempt: Attempt, begin: Begin) {
        let id = attempt.attempt_id;
        // Only of an attempt that was at another host is there anything to look for.
        if let Err(error) = forget_former(&self.world, &attempt).await {
            tracing::error!(attempt = %id, %error, "its former worktrees can't be forgotten");
            return self.admission.forget(id);
        }
        if attempt.is_answer {
            self.admission.answers(id);
        }
        let asks = self.asks(&attempt);
        self.admission.asks(id, asks);
        let myself = self.myself.clone();
        let events = Box::new(move |event| {
            let _ = myself.send_message(GatewayMessage::AttemptEvent(event));
        });
        let gateway = self.myself.clone();
        let lend: LoanFn = Arc::new(move |other, finish| {
            let gateway = gateway.clone();
            Box::pin(async move {
                let lend = |_, port| AttemptMessage::Lend(finish, port);
                ask_owner(&gateway, other, false, lend).await
            })
        });
        let world = Arc::clone(&self.world);
        let arguments = Arguments { attempt, begin, world, lend, events };
        let supervisor = self.myself.get_cell();
        match Actor::spawn_linked(None, AttemptActor, arguments, supervisor).await {
            Ok((owner, _)) => drop(self.owners.insert(id, owner)),
            Err(error) => {
                tracing::error!(attempt = %id, %error, "an attempt's actor can't be started");
                self.admission.forget(id);
            }
        }
    }

    /// An actor failed: has it rebuilt from its row and folder, unless it keeps failing.
    pub(super) fn child_event(&mut self, event: SupervisionEvent) {
        let SupervisionEvent::ActorFailed(child, error) = event else { return };
        let failed = self.owners.iter().find(|(_, owner)| owner.get_id() == child.get_id());
        let Some((&id, _)) = failed else { return };
        tracing::error!(attempt = %id, %error, "an attempt's actor failed");
        self.owners.remove(&id);
        if !self.failures.count(id, Instant::now()) {
            tracing::error!(attempt = %id, "an attempt's actor keeps failing; it is left as it is");
            return self.unowned(id);
        }
        self.load_unowned(id);
    }

    /// Gives an attempt its owner, if it has none, from its row as it is now: a read that began before is
    /// repeated.
    pub(super) fn load_unowned(&mut self, id: AttemptId) {
        if self.owners.contains_key(&id) {
            return;
        }
        match self.loading.entry(id) {
            Entry::Occupied(loading) => loading.into_mut().is_stale = true,
            Entry::Vacant(none) => {
                none.insert(Loading::default());
                self.load(id, Some(REREAD));
            }
        }
    }

    /// An owner has nothing left to do, and has ended.
    pub(super) fn ended(&mut self, id: AttemptId) {
        self.owners.remove(&id);
        self.failures.0.remove(&id);
        // Also gives back a slot that was taken for a call which the owner never read: `ask_owner` tries
        // again.
        self.unowned(id);
    }

    /// An attempt has no owner that would give up its slot.
    fn unowned(&mut self, id: AttemptId) {
        self.admission.forget(id);
        self.grant();
        self.claim();
    }
}

/// The refusal for an attempt that does not exist.
pub fn not_found(id: AttemptId) -> Refusal {
    Refusal::new(Code::AttemptNotFound, format!("there is no attempt {id}"))
        .detail("attempt_id", id.to_string())
}

/// Asks the owner of an attempt. `message` gets whether a slot was taken for it; it may be called several
/// times, as the call is repeated while the owner ends or the database is locked.
///
/// # Errors
/// The owner's answer; `shutting_down`; `internal` if no owner answers in time.
pub async fn ask_owner<T: Send + 'static>(
    gateway: &ActorRef<GatewayMessage>,
    id: AttemptId,
    wants_slot: bool,
    message: impl Fn(bool, RpcReplyPort<Result<T, Refusal>>) -> AttemptMessage,
) -> Result<T, Refusal> {
    let (mut locked, mut gone) = (0, 0);
    while gone < TRIES {
        let owned = ractor::call!(gateway, |port| GatewayMessage::Owner(id, wants_slot, port));
        let (owner, has_slot) = owned.map_err(|_| ending())??;
        match ractor::call!(owner, |port| message(has_slot, port)) {
            Ok(Err(refusal)) if refusal.code == Code::DbLocked && locked < LOCKED_TRIES => {
                locked += 1;
                tokio::time::sleep(LOCKED_PAUSE).await;
            }
            Ok(answer) => return answer,
            // It ended before it read the message, and gave up the slot.
            Err(_) => {
                gone += 1;
                tokio::time::sleep(RETRY).await;
            }
        }
    }
    Err(Refusal::internal(format!("the owner of attempt {id} does not answer")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_that_fails_now_and_then_is_always_rebuilt_and_one_that_keeps_failing_is_not() {
        let id = AttemptId::new();
        let start = Instant::now();
        let mut failures = Failures::default();
        let rarely = |n| start + WINDOW * n;
        assert!((0..20).all(|n| failures.count(id, rarely(n))));
        let mut failures = Failures::default();
        let often: Vec<bool> =
            (0..7).map(|n| failures.count(id, start + Duration::from_secs(n))).collect();
        assert_eq!(often, [true, true, true, true, true, false, false]);
    }
}
