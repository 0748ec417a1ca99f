//! Calls that concern one attempt: checked here, in a task of each call, then passed to the gateway or the
//! attempt's owner. All of them are carried out to their end even when the caller goes away.

use std::path::Path;
use std::sync::Arc;

use ractor::ActorRef;
use serde_json::json;

use crate::attempt::{self, AttemptMessage, Collect, Collection, FollowUpRequest};
use crate::executor::Verdict;
use crate::ids::{ApprovalId, AttemptId, QueueId};
use crate::journal::{
    Approval, ApprovalStatus, Attempt, AttemptRepo, AttemptStarted, Decision, FollowUpAction,
    FollowedUp, Idempotent, Key, Resolved, remembered, resolve,
};
use crate::refusal::{Code, Refusal};
use crate::world::World;

use super::message::{GatewayMessage, Port, StartRequest};
use super::owners::{ask_owner, not_found};
use super::{ending, preflight, sandbox_rules};

/// Carries a call out to its end even if its caller goes away: a slot may have been taken for it, which only
/// the rest of the call gives back or uses.
pub(super) async fn detached<T: Send + 'static>(
    call: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::spawn(call).await.unwrap_or_else(|_| Err(ending()))
}

/// Sends the gateway a message with a port, and waits for the answer.
///
/// # Errors
/// The answer's own refusal; `shutting_down` if the gateway has ended.
pub async fn ask<T: Send + 'static>(
    gateway: &ActorRef<GatewayMessage>,
    message: impl FnOnce(Port<T>) -> GatewayMessage,
) -> Result<T, Refusal> {
    ractor::call!(gateway, message).unwrap_or_else(|_| Err(ending()))
}

/// Sends an attempt a follow-up of the daemon's own: an answer, or the result of checks. `false`: the
/// attempt takes none, because it was stopped or can't run.
///
/// # Errors
/// The store can't be used or the daemon ends; the same call may work later.
pub async fn notify_worker(
    gateway: &ActorRef<GatewayMessage>,
    world: &Arc<World>,
    key: Key,
    attempt_id: AttemptId,
    prompt: String,
) -> Result<bool, Refusal> {
    let request = FollowUpRequest {
        attempt_id,
        queue_id: QueueId::new(),
        action: FollowUpAction::Queue,
        prompt,
        variant: None,
        unless_stopped: true,
        review: None,
    };
    match follow_up(gateway, world, Some(key), request).await {
        Ok(_) => Ok(true),
        Err(refusal) if refusal.code.is_of_store() || refusal.code == Code::ShuttingDown => {
            Err(refusal)
        }
        Err(refusal) => {
            tracing::info!(attempt = %attempt_id, %refusal, "an attempt takes no follow-up");
            Ok(false)
        }
    }
}

/// Starts an attempt, or queues it. A repeated call with its key, or with defaults that resolve to the same,
/// gets the first answer.
pub async fn start(
    gateway: &ActorRef<GatewayMessage>,
    world: &Arc<World>,
    key: Option<Key>,
    request: StartRequest,
) -> Result<Idempotent<AttemptStarted>, Refusal> {
    let (gateway, world) = (gateway.clone(), Arc::clone(world));
    detached(async move {
        let payload = |attempt: &Attempt| preflight::payload(&world, attempt, &request);
        let checking = preflight::start(&gateway, &world, &request);
        match resolve(&*world.journal, key, checking, payload).await? {
            Resolved::Before(answer) => Ok(answer),
            Resolved::Now(key, attempt) => {
                keep_bases(&world, &attempt).await?;
                ask(&gateway, |port| GatewayMessage::Start(key, Box::new(attempt), port)).await
            }
        }
    })
    .await
}

/// On a shared board: stores the commits that a start begins from where other hosts find them, so that
/// another host can continue the attempt.
async fn keep_bases(world: &World, attempt: &Attempt) -> Result<(), Refusal> {
    if !world.host.has_lease {
        return Ok(());
    }
    for AttemptRepo { repo_id, path, base_commit, .. } in &attempt.repos {
        let path = Path::new(path);
        let is_mirror = world.settings.worktrees.places.is_mirror(path);
        if !is_mirror {
            world.journal.record_repo_here(*repo_id).await?;
        }
        // A mirror fetched the commit from where other hosts find it, unless a fork made the commit here.
        if !is_mirror || attempt.fork.is_some() {
            let kept = attempt::keep_base(world, *repo_id, path, base_commit).await;
            kept.map_err(|error| Refusal::new(Code::WorkspaceFailed, error.to_string()))?;
        }
    }
    Ok(())
}

/// Sends a follow-up, queues one, or cancels those that wait.
pub async fn follow_up(
    gateway: &ActorRef<GatewayMessage>,
    world: &Arc<World>,
    key: Option<Key>,
    request: FollowUpRequest,
) -> Result<Idempotent<FollowedUp>, Refusal> {
    let (gateway, world) = (gateway.clone(), Arc::clone(world));
    detached(async move {
        // Two follow-ups with this payload are the same call, however they name the session.
        let payload = |(): &()| {
            json!({
                "attempt_id": request.attempt_id,
                "action": request.action,
                "prompt": request.prompt,
                "variant": request.variant,
            })
        };
        let key = match resolve(&*world.journal, key, check(&world, &request), payload).await? {
            Resolved::Before(answer) => return Ok(answer),
            Resolved::Now(key, ()) => key,
        };
        let runs = request.action != FollowUpAction::Cancel;
        ask_owner(&gateway, request.attempt_id, runs, |has_slot, port| {
            let (key, request) = (key.clone(), request.clone());
            AttemptMessage::FollowUp { key, request, has_slot, port }
        })
        .await
    })
    .await
}

/// Checks that the attempt is this host's and that its executor can run another turn; a cancellation needs
/// only the first.
async fn check(world: &World, request: &FollowUpRequest) -> Result<(), Refusal> {
    let Some(attempt) = world.journal.attempt(request.attempt_id).await? else {
        return Err(not_found(request.attempt_id));
    };
    world.host.require(&attempt)?;
    if request.action == FollowUpAction::Cancel {
        return Ok(());
    }
    if let Err(linked) = attempt::real_worktrees(world, &attempt).await {
        return Err(Refusal::new(Code::WorkspaceFailed, linked).hint(
            "Put the attempt's own worktree back in place of the link, then call the tool again.",
        ));
    }
    let variant = request.variant.as_deref();
    let next = variant.or(attempt.process.variant.as_deref());
    sandbox_rules::require_as_strict_as_parent(world, attempt.parent, &attempt.executor, next)
        .await?;
    sandbox_rules::require_available(world, &attempt.executor, next).await?;
    preflight::executor(&*world.executors, &attempt.executor, variant).map_err(|mut refusal| {
        if refusal.code == Code::VariantNotFound {
            return refusal;
        }
        // The executor is the session's: no other argument can fix the call.
        refusal.details.remove("path");
        refusal.hint(
            "Fix the configuration of the session's executor, as the message says, then call the \
             tool again. Or call start_task_attempt with another executor.",
        )
    })
}

/// Gives the verdict on a permission that an executor waits for. A decided one is only compared: the same
/// verdict is answered again, another one is refused.
pub async fn respond(
    gateway: &ActorRef<GatewayMessage>,
    world: &Arc<World>,
    key: Option<Key>,
    approval_id: ApprovalId,
    verdict: Verdict,
) -> Result<Idempotent<Approval>, Refusal> {
    let (gateway, world) = (gateway.clone(), Arc::clone(world));
    detached(async move {
        if let Some(answer) = remembered(&*world.journal, key.as_ref()).await? {
            return Ok(answer);
        }
        let Some(approval) = world.journal.approval(approval_id).await? else {
            let message = format!("there is no approval {approval_id}");
            return Err(Refusal::new(Code::InvalidArgument, message)
                .hint("Call the tool again with approval_id from list_inbox.")
                .detail("path", "approval_id"));
        };
        if approval.status != ApprovalStatus::Pending {
            let decision = Decision::Verdict(verdict);
            return world.journal.decide(key.as_ref(), approval_id, &decision).await;
        }
        ask_owner(&gateway, approval.attempt_id, false, |_, port| {
            AttemptMessage::Respond(key.clone(), approval_id, verdict.clone(), port)
        })
        .await
    })
    .await
}

/// Removes an attempt's worktrees, if nothing would be lost with them. `None`: it has none.
pub async fn collect(
    gateway: &ActorRef<GatewayMessage>,
    attempt: AttemptId,
    how: Collect,
) -> Result<Option<Collection>, Refusal> {
    let gateway = gateway.clone();
    let collect = move |_, port| AttemptMessage::Collect(how, port);
    detached(async move { ask_owner(&gateway, attempt, false, collect).await }).await
}
