//! Pages of a session's transcript.

use crate::api::{Refusable, Session};
use async_trait::async_trait;
use provost_actors::refusal::{Code, Refusal};

use super::Domain;
use crate::api::sessions::{
    MessageRole, SessionMessage, SessionTools, TailSessionMessagesInput, TailSessionMessagesOutput,
};
use crate::store::Target;

#[async_trait]
impl SessionTools for Domain {
    async fn tail_session_messages(
        &self,
        _: &Session,
        input: TailSessionMessagesInput,
    ) -> Refusable<TailSessionMessagesOutput> {
        let target = match (input.attempt_id, input.session_id) {
            (Some(attempt), None) => Target::Attempt(attempt),
            (None, Some(session)) => Target::Session(session),
            _ => return Err(Refusal::new(Code::AmbiguousTarget, "one target is needed")),
        };
        let (_, session_id) = self.store.target(target).await?;
        let before = input.cursor.map_or(u64::MAX, |cursor| cursor.get().unsigned_abs());
        let (limit, max_bytes) = (input.limit.get(), input.max_bytes.get());
        let newest_first = self.store.messages(session_id, before, limit, max_bytes).await?;
        let newest_first = newest_first.into_iter().map(|message| SessionMessage {
            message_index: message.index,
            turn: message.turn,
            role: if message.is_answer { MessageRole::Assistant } else { MessageRole::User },
            text: message.text,
            at: message.at,
        });
        let messages = last_within(max_bytes, newest_first);
        let next_cursor = messages.first().map(|oldest| oldest.message_index).filter(|at| *at > 0);
        let has_more = next_cursor.is_some();
        Ok(TailSessionMessagesOutput { session_id, messages, next_cursor, has_more })
    }
}

/// As many as fit, at least one, turned to oldest first. Their size is that of
/// their JSON.
fn last_within(
    max_bytes: usize,
    newest_first: impl Iterator<Item = SessionMessage>,
) -> Vec<SessionMessage> {
    let mut bytes = 0;
    let mut messages: Vec<SessionMessage> = newest_first
        .enumerate()
        .take_while(|(number, message)| {
            // What can't be written is refused when the result is.
            bytes += serde_json::to_vec(message).map_or(0, |json| json.len());
            *number == 0 || bytes <= max_bytes
        })
        .map(|(_, message)| message)
        .collect();
    messages.reverse();
    messages
}
