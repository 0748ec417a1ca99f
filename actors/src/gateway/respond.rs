//! Verdicts on permissions that executors ask for: handed to the attempt's owner, while
//! the executor waits.

use std::sync::Arc;

use ractor::ActorRef;

use crate::attempt::{AttemptMessage, RespondCall};
use crate::executor::Verdict;
use crate::ids::ApprovalId;
use crate::journal::{Approval, ApprovalStatus, Decision, Key, Once, remembered};
use crate::refusal::{Code, Refusal};
use crate::world::World;

use super::message::{GatewayMessage, Port, RespondRequest};
use super::{GatewayState, owners};

impl GatewayState {
    pub(super) fn respond(
        &self,
        key: Option<Key>,
        request: RespondRequest,
        port: Port<Once<Approval>>,
    ) {
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        tokio::spawn(async move { drop(port.send(respond(&myself, &world, key, request).await)) });
    }
}

async fn respond(
    gateway: &ActorRef<GatewayMessage>,
    world: &World,
    key: Option<Key>,
    request: RespondRequest,
) -> Result<Once<Approval>, Refusal> {
    let RespondRequest { approval_id, verdict } = request;
    if let Some(answer) = remembered(&*world.journal, key.as_ref()).await? {
        return Ok(answer);
    }
    let found = world.journal.approval(approval_id).await?;
    let approval = found.ok_or_else(|| not_found(approval_id))?;
    if approval.status != ApprovalStatus::Pending {
        let decision = Decision::Verdict(verdict);
        return world.journal.decide(key.as_ref(), approval_id, &decision).await;
    }
    owners::ask(gateway, approval.attempt_id, false, |_, port| {
        let (key, verdict): (_, Verdict) = (key.clone(), verdict.clone());
        AttemptMessage::Respond(RespondCall { key, approval_id, verdict }, port)
    })
    .await
}

/// There is no code for it: the argument is wrong.
fn not_found(id: ApprovalId) -> Refusal {
    Refusal::new(Code::InvalidArgument, format!("there is no approval {id}"))
        .hint("Call the tool again with approval_id from list_approvals.")
        .detail("path", "approval_id")
}
