//! Follow-ups: checked, then handed to the attempt's owner.

use std::sync::Arc;

use ractor::ActorRef;

use crate::attempt::{self, FollowUpCall};
use crate::event::Timestamp;
use crate::ids::QueueId;
use crate::journal::{Answer, FollowUp, FollowUpAction, FollowedUp, Key, remembered};
use crate::refusal::Refusal;
use crate::world::World;

use super::message::{FollowUpRequest, Message, Port};
use super::{State, check, owners};

impl State {
    pub(super) fn follow_up(
        &self,
        key: Option<Key>,
        request: FollowUpRequest,
        port: Port<Answer<FollowedUp>>,
    ) {
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        tokio::spawn(
            async move { drop(port.send(follow_up(&myself, &world, key, request).await)) },
        );
    }
}

async fn follow_up(
    gateway: &ActorRef<Message>,
    world: &World,
    key: Option<Key>,
    request: FollowUpRequest,
) -> Result<Answer<FollowedUp>, Refusal> {
    if let Some(answer) = remembered(&*world.journal, key.as_ref()).await? {
        return Ok(answer);
    }
    let FollowUpRequest { attempt_id: id, action, prompt, variant } = request;
    let Some(attempt) = world.journal.attempt(id).await? else {
        return Err(owners::not_found(id));
    };
    let runs = action != FollowUpAction::Cancel;
    if runs {
        check::executor(&*world.executors, &attempt.executor, variant.as_deref())?;
    }
    let queued_at = Timestamp::now();
    let follow_up = FollowUp { queue_id: QueueId::new(), prompt, variant, queued_at };
    owners::ask(gateway, id, runs, |has_slot, port| {
        let (key, follow_up) = (key.clone(), runs.then(|| follow_up.clone()));
        attempt::Message::FollowUp(FollowUpCall { key, action, follow_up, has_slot }, port)
    })
    .await
}
