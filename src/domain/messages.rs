//! Pages of a session's transcript.

use crate::api::{Refusable, Session};
use async_trait::async_trait;

use super::Domain;
use crate::api::sessions::{
    SessionMessage, SessionTools, TailSessionMessagesInput, TailSessionMessagesOutput,
};

#[async_trait]
impl SessionTools for Domain {
    async fn tail_session_messages(
        &self,
        _: &Session,
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
