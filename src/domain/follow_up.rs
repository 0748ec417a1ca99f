//! Follow-ups: the session found, then asked of the gateway.

use async_trait::async_trait;
use provost_actors::gateway::{self, FollowUpRequest};
use provost_actors::journal::FollowedUp;

use super::{Domain, answered};
use crate::api::attempts::Worktree;
use crate::api::follow_up::{
    FollowUpInput, FollowUpOutput, FollowUpQueue, FollowUpTools, QueueStatus, QueuedMessage,
};
use crate::api::{Key, Once, Refusable, Session};

#[async_trait]
impl FollowUpTools for Domain {
    async fn follow_up(
        &self,
        _: &Session,
        key: Option<Key>,
        input: FollowUpInput,
    ) -> Refusable<Once<FollowUpOutput>> {
        let (attempt_id, _) = self.store.session(input.attempt_id, input.session_id).await?;
        let request = FollowUpRequest {
            attempt_id,
            action: input.action,
            prompt: input.prompt.map(Into::into).unwrap_or_default(),
            variant: input.variant.map(Into::into),
            unless_stopped: false,
        };
        let answer = gateway::follow_up(&self.gateway, &self.world, key, request).await?;
        let worktree = self.worktree(attempt_id).await;
        Ok(answered(answer, |done| output(done, worktree)))
    }
}

fn output(done: FollowedUp, worktree: Worktree) -> FollowUpOutput {
    FollowUpOutput {
        action: done.action,
        attempt_id: done.attempt_id,
        worktree,
        session_id: done.session_id,
        execution_process_id: done.execution_process_id,
        queue: FollowUpQueue {
            status: match (done.execution_process_id, done.length) {
                (Some(_), _) => QueueStatus::Started,
                (None, 0) => QueueStatus::Empty,
                (None, _) => QueueStatus::Queued,
            },
            length: u32::try_from(done.length).unwrap_or(u32::MAX),
            held: done.held,
            messages: done
                .waiting
                .into_iter()
                .map(|it| QueuedMessage {
                    queue_id: it.queue_id,
                    prompt: it.prompt,
                    queued_at: it.queued_at,
                })
                .collect(),
        },
    }
}
