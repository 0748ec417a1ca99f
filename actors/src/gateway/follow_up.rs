//! Follow-ups: checked, then handed to the attempt's owner.

use std::sync::Arc;

use ractor::ActorRef;
use serde::Serialize;
use serde_json::json;

use crate::attempt::{self, AttemptMessage, FollowUpCall};
use crate::event::Timestamp;
use crate::ids::QueueId;
use crate::journal::{FollowUp, FollowUpAction, FollowedUp, Key, Once, Resolved, resolve};
use crate::refusal::{Code, Refusal};
use crate::world::World;

use super::message::{FollowUpRequest, GatewayMessage, Port};
use super::{GatewayState, check, owners};

impl GatewayState {
    pub(super) fn follow_up(
        &self,
        key: Option<Key>,
        request: FollowUpRequest,
        port: Port<Once<FollowedUp>>,
    ) {
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        tokio::spawn(
            async move { drop(port.send(follow_up(&myself, &world, key, request).await)) },
        );
    }
}

pub(super) async fn follow_up(
    gateway: &ActorRef<GatewayMessage>,
    world: &World,
    key: Option<Key>,
    request: FollowUpRequest,
) -> Result<Once<FollowedUp>, Refusal> {
    let checked = check(world, &request);
    let key = match resolve(&*world.journal, key, checked, |()| payload(&request)).await? {
        Resolved::Before(answer) => return Ok(answer),
        Resolved::Now(key, ()) => key,
    };
    let FollowUpRequest { attempt_id: id, action, prompt, variant, unless_stopped } = request;
    let runs = action != FollowUpAction::Cancel;
    let queued_at = Timestamp::now();
    let follow_up = FollowUp { queue_id: QueueId::new(), prompt, variant, queued_at };
    owners::ask(gateway, id, runs, |has_slot, port| {
        let (key, follow_up) = (key.clone(), runs.then(|| follow_up.clone()));
        let call = FollowUpCall { key, action, follow_up, has_slot, unless_stopped };
        AttemptMessage::FollowUp(call, port)
    })
    .await
}

async fn check(world: &World, request: &FollowUpRequest) -> Result<(), Refusal> {
    let Some(attempt) = world.journal.attempt(request.attempt_id).await? else {
        return Err(owners::not_found(request.attempt_id));
    };
    if request.action == FollowUpAction::Cancel {
        return Ok(());
    }
    if let Err(linked) = attempt::real_worktrees(world, &attempt).await {
        return Err(Refusal::new(Code::WorkspaceFailed, linked).hint(
            "Put the attempt's own worktree back in place of the link, then call the tool again.",
        ));
    }
    let variant = request.variant.as_deref();
    check::executor(&*world.executors, &attempt.executor, variant).map_err(not_of_the_call)
}

/// Two follow-ups with this payload are the same call, by whichever id they name the
/// session.
fn payload(request: &FollowUpRequest) -> impl Serialize + use<> {
    json!({
        "attempt_id": request.attempt_id,
        "action": request.action,
        "prompt": request.prompt,
        "variant": request.variant,
    })
}

/// The executor is the session's: no other argument can fix the call.
fn not_of_the_call(mut refusal: Refusal) -> Refusal {
    if refusal.code == Code::VariantNotFound {
        return refusal;
    }
    refusal.details.remove("path");
    refusal.hint(
        "Fix the configuration of the session's executor, as the message says, then call the \
         tool again. Or call start_task_attempt with another executor.",
    )
}
