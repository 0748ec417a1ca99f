//! The tools for sessions of agents: follow-ups, and pages of the transcript.

use async_trait::async_trait;
use provost_actors::gateway::{self, FollowUpRequest};
use provost_actors::ids::{AttemptId, QueueId, SessionId};
use provost_actors::journal::{FollowUpAction, FollowedUp};

use super::{Domain, answered};
use crate::api::attempts::Worktree;
use crate::api::commands::PreviewParams;
use crate::api::follow_up::{
    FollowUpInput, FollowUpMode, FollowUpOutput, FollowUpQueue, FollowUpTools, QueueStatus,
    QueuedMessage,
};
use crate::api::sessions::{
    SessionMessage, SessionTools, TailSessionMessagesInput, TailSessionMessagesOutput,
};
use crate::api::{Caller, Idempotent, Key, Refusable, Refusal};

#[async_trait]
impl FollowUpTools for Domain {
    async fn follow_up(
        &self,
        _: &Caller,
        key: Option<Key>,
        input: FollowUpInput,
    ) -> Refusable<Idempotent<FollowUpOutput>> {
        let (attempt_id, session_id) =
            self.store.session(input.attempt_id, input.session_id).await?;
        let Some(action) = input.action.of_turn() else {
            let repo = input.repo.map(Into::into);
            let output = self.preview_beside(attempt_id, session_id, input.action, repo).await?;
            return Ok(Idempotent { value: output, deduplicated: false });
        };
        let request = FollowUpRequest {
            attempt_id,
            queue_id: QueueId::new(),
            action,
            prompt: input.prompt.map(Into::into).unwrap_or_default(),
            variant: input.variant.map(Into::into),
            unless_stopped: false,
            review: None,
        };
        let answer = gateway::follow_up(&self.gateway, &self.world, key, request).await?;
        let worktree = self.worktree(attempt_id).await;
        Ok(answered(answer, |done| output(done, worktree)))
    }
}

impl Domain {
    /// The two actions of `follow_up` that start or end the dev server. They answer with the queue as it
    /// is, and need no key: the same call again changes nothing.
    async fn preview_beside(
        &self,
        attempt_id: AttemptId,
        session_id: SessionId,
        action: FollowUpMode,
        repo: Option<String>,
    ) -> Result<FollowUpOutput, Refusal> {
        let stop = action == FollowUpMode::EndPreview;
        let found = self.preview(PreviewParams { attempt_id, repo, stop }).await?;
        let attempt = self.world.journal.attempt(attempt_id).await?;
        let (waiting, held) = attempt.map(|it| (it.waiting, it.held)).unwrap_or_default();
        let done = FollowedUp {
            // Not shown: the caller's own action replaces it below.
            action: FollowUpAction::Cancel,
            attempt_id,
            session_id,
            execution_process_id: None,
            length: waiting.len(),
            held,
            waiting,
            review: None,
        };
        let output = output(done, self.worktree(attempt_id).await);
        Ok(FollowUpOutput { action, preview: found.preview, ..output })
    }
}

/// The answer: a process means that the turn has started; else the prompt waits in the queue, or the
/// queue is empty.
fn output(done: FollowedUp, worktree: Worktree) -> FollowUpOutput {
    FollowUpOutput {
        action: done.action.into(),
        preview: None,
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

/// The newest messages that fit into `max_bytes` of JSON, at least one, oldest first.
fn last_within(max_bytes: usize, mut messages: Vec<SessionMessage>) -> Vec<SessionMessage> {
    let mut bytes = 0;
    let fits = |message: &&SessionMessage| {
        // A message that can't be serialized counts as 0 here; the whole result fails later.
        bytes += serde_json::to_vec(message).map_or(0, |json| json.len());
        bytes <= max_bytes
    };
    let count = messages.iter().take_while(fits).count();
    messages.truncate(count.max(1));
    messages.reverse();
    messages
}
