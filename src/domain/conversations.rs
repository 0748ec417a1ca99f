//! Sessions of agents: follow-ups, and pages of the transcript.

use async_trait::async_trait;
use provost_actors::gateway::{self, FollowUpRequest};
use provost_actors::ids::QueueId;
use provost_actors::journal::FollowedUp;

use super::{Domain, answered};
use crate::api::attempts::Worktree;
use crate::api::follow_up::{
    FollowUpInput, FollowUpOutput, FollowUpQueue, FollowUpTools, QueueStatus, QueuedMessage,
};
use crate::api::sessions::{
    SessionMessage, SessionTools, TailSessionMessagesInput, TailSessionMessagesOutput,
};
use crate::api::{Caller, Key, Once, Refusable};

#[async_trait]
impl FollowUpTools for Domain {
    async fn follow_up(
        &self,
        _: &Caller,
        key: Option<Key>,
        input: FollowUpInput,
    ) -> Refusable<Once<FollowUpOutput>> {
        let (attempt_id, _) = self.store.session(input.attempt_id, input.session_id).await?;
        let request = FollowUpRequest {
            attempt_id,
            queue_id: QueueId::new(),
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

#[async_trait]
impl SessionTools for Domain {
    async fn tail_session_messages(
        &self,
        _: &Caller,
        input: TailSessionMessagesInput,
    ) -> Refusable<TailSessionMessagesOutput> {
        let (_, session_id) = self.store.session(input.attempt_id, input.session_id).await?;
        let before = input.cursor.map_or(u64::MAX, |cursor| cursor.get().unsigned_abs());
        let (limit, max_bytes) = (input.limit.get(), input.max_bytes.get());
        let newest_first = self.store.messages(session_id, before, limit, max_bytes).await?;
        let messages = last_within(max_bytes, newest_first);
        let next_cursor = messages.first().map(|oldest| oldest.message_index).filter(|at| *at > 0);
        let has_more = next_cursor.is_some();
        Ok(TailSessionMessagesOutput { session_id, messages, next_cursor, has_more })
    }
}

/// As many as fit, at least one, turned to oldest first. Their size is that of their JSON.
fn last_within(max_bytes: usize, mut messages: Vec<SessionMessage>) -> Vec<SessionMessage> {
    let mut bytes = 0;
    let fits = |message: &&SessionMessage| {
        // What can't be written is refused when the result is.
        bytes += serde_json::to_vec(message).map_or(0, |json| json.len());
        bytes <= max_bytes
    };
    let count = messages.iter().take_while(fits).count();
    messages.truncate(count.max(1));
    messages.reverse();
    messages
}
