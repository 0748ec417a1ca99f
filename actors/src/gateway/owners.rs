//! Which actor owns which attempt. An attempt without one, because nothing of it is
//! alive or waiting, is read from the journal and gets an owner when one is needed.

use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorRef, RpcReplyPort};

use crate::attempt::{AttemptMessage, Begin, Collect, CollectPort};
use crate::ids::AttemptId;
use crate::journal::{Attempt, Phase};
use crate::refusal::{Code, Refusal};

use super::GatewayState;
use super::message::{GatewayMessage, Owned, Port};

/// Tries, and the pause between them, when an owner ends, or fails and is rebuilt, just
/// as it is request.
const TRIES: u32 = 100;
const RETRY: Duration = Duration::from_millis(20);
/// The same while another program holds the database: an owner itself does not wait.
const LOCKED_TRIES: u32 = 20;
const LOCKED_PAUSE: Duration = Duration::from_millis(500);

/// A request for the owner of an attempt.
pub struct OwnerRequest {
    /// It may begin a turn.
    pub wants_slot: bool,
    pub port: Port<Owned>,
}

impl GatewayState {
    pub(super) fn owner(&mut self, id: AttemptId, request: OwnerRequest) {
        if self.is_closing && request.wants_slot {
            let _ = request.port.send(Err(ending()));
            return;
        }
        if request.wants_slot
            && let Some(waiting) = self.carrying.get_mut(&id)
        {
            return waiting.push(request);
        }
        if let Some(owner) = self.owners.get(&id).cloned() {
            let has_slot = request.wants_slot && self.admission.take(id);
            let _ = request.port.send(Ok(Owned { owner, has_slot }));
            return;
        }
        let waiting = self.loading.entry(id).or_default();
        waiting.push(request);
        if waiting.len() == 1 {
            self.load(id, None);
        }
    }

    /// Collects an attempt's worktrees. Its owner's mailbox orders this with follow-ups.
    pub(super) fn collect(&self, id: AttemptId, how: Collect, port: CollectPort) {
        let myself = self.myself.clone();
        tokio::spawn(async move {
            let collected =
                ask(&myself, id, false, |_, port| AttemptMessage::Collect(how, port)).await;
            let _ = port.send(collected);
        });
    }

    /// Reads an attempt, so that it can be owned. With `retry`, until it can be read.
    pub(super) fn load(&self, id: AttemptId, retry: Option<Duration>) {
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

    pub(super) async fn loaded(
        &mut self,
        id: AttemptId,
        attempt: Result<Option<Attempt>, Refusal>,
    ) {
        let waiting = self.loading.remove(&id).unwrap_or_default();
        let refusal = match attempt {
            Ok(Some(attempt)) => {
                self.take_up(attempt).await;
                self.grant();
                Refusal::internal(format!("attempt {id} can't be owned"))
            }
            Ok(None) => not_found(id),
            Err(refusal) => refusal,
        };
        for request in waiting {
            if self.owners.contains_key(&id) {
                self.owner(id, request);
            } else {
                let _ = request.port.send(Err(refusal.clone()));
            }
        }
    }

    /// Gives an attempt its owner, whatever it is in the middle of.
    pub(super) async fn take_up(&mut self, attempt: Attempt) {
        let (id, priority, phase) = (attempt.attempt_id, attempt.priority, attempt.phase);
        self.own(attempt, Begin::Resume).await;
        // An owner that failed may have held a slot, or waited for one.
        self.admission.leave(id);
        if phase.is_active() {
            self.admission.occupy(id);
        } else if phase == Phase::Queued {
            self.admission.queue(id, priority);
        }
    }
}

pub fn not_found(id: AttemptId) -> Refusal {
    Refusal::new(Code::AttemptNotFound, format!("there is no attempt {id}"))
        .detail("attempt_id", id.to_string())
}

fn ending() -> Refusal {
    Refusal::new(Code::ShuttingDown, "the daemon is ending")
}

/// Asks the owner of an attempt. `message` is given whether a running slot has been
/// taken for it.
pub async fn ask<T: Send + 'static>(
    gateway: &ActorRef<GatewayMessage>,
    id: AttemptId,
    wants_slot: bool,
    message: impl Fn(bool, RpcReplyPort<Result<T, Refusal>>) -> AttemptMessage,
) -> Result<T, Refusal> {
    let mut locked = 0;
    let mut gone = 0;
    while gone < TRIES {
        let owned = ractor::call!(gateway, |port| GatewayMessage::Owner(id, wants_slot, port));
        let Owned { owner, has_slot } = owned.map_err(|_| ending())??;
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
