//! Which actor owns which attempt. One that nobody owns, because nothing of it
//! was alive or waiting, is read from the journal and given an owner when
//! something is asked of it.

use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorRef, RpcReplyPort};

use crate::attempt::{self, Begin};
use crate::ids::AttemptId;
use crate::journal::{Attempt, Phase};
use crate::refusal::{Code, Refusal};

use super::State;
use super::message::{Message, Owned, Port};

/// An owner may end, or fail and be rebuilt, just as it is asked: so often, with
/// this between, it is asked again.
const TRIES: u32 = 100;
const RETRY: Duration = Duration::from_millis(20);
/// How often, and after which pause, it is asked again while another program holds
/// the database: an owner itself does not wait for that.
const LOCKED_TRIES: u32 = 20;
const LOCKED_PAUSE: Duration = Duration::from_millis(500);

/// Someone who asks for the owner of an attempt.
pub struct Asked {
    /// It may begin a turn.
    pub wants_slot: bool,
    pub port: Port<Owned>,
}

impl State {
    pub(super) fn owner(&mut self, id: AttemptId, asked: Asked) {
        if self.is_closing && asked.wants_slot {
            let _ = asked.port.send(Err(ending()));
            return;
        }
        if asked.wants_slot
            && let Some(waiting) = self.carrying.get_mut(&id)
        {
            return waiting.push(asked);
        }
        if let Some(owner) = self.owners.get(&id).cloned() {
            let has_slot = asked.wants_slot && self.admission.take(id);
            let _ = asked.port.send(Ok(Owned { owner, has_slot }));
            return;
        }
        let waiting = self.loading.entry(id).or_default();
        waiting.push(asked);
        if waiting.len() == 1 {
            self.load(id, None);
        }
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
            let _ = myself.send_message(Message::Loaded(id, Box::new(attempt)));
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
        for asked in waiting {
            if self.owners.contains_key(&id) {
                self.owner(id, asked);
            } else {
                let _ = asked.port.send(Err(refusal.clone()));
            }
        }
    }

    /// Gives an attempt its owner, whatever it is in the middle of.
    pub(super) async fn take_up(&mut self, attempt: Attempt) {
        let (id, priority, phase) = (attempt.attempt_id, attempt.priority, attempt.phase);
        self.own(attempt, Begin::Resume).await;
        // What an owner that failed held, or waited for, is settled anew.
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

/// Asks the owner of an attempt. `message` is told whether a running slot has
/// been taken for it.
pub async fn ask<T: Send + 'static>(
    gateway: &ActorRef<Message>,
    id: AttemptId,
    wants_slot: bool,
    message: impl Fn(bool, RpcReplyPort<Result<T, Refusal>>) -> attempt::Message,
) -> Result<T, Refusal> {
    let mut locked = 0;
    let mut gone = 0;
    while gone < TRIES {
        let owned = ractor::call!(gateway, |port| Message::Owner(id, wants_slot, port));
        let Owned { owner, has_slot } = owned.map_err(|_| ending())??;
        match ractor::call!(owner, |port| message(has_slot, port)) {
            Ok(Err(refusal)) if refusal.code == Code::DbLocked && locked < LOCKED_TRIES => {
                locked += 1;
                tokio::time::sleep(LOCKED_PAUSE).await;
            }
            Ok(answer) => return answer,
            // It ended before it heard; with it went the slot.
            Err(_) => {
                gone += 1;
                tokio::time::sleep(RETRY).await;
            }
        }
    }
    Err(Refusal::internal(format!("the owner of attempt {id} does not answer")))
}
