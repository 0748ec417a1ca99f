//! What was said in a session, turn by turn.

use crate::api::prelude::*;

/// The description of `tail_session_messages`, by which a model decides whether to call it.
pub const TAIL_SESSION_MESSAGES: &str = "\
Use when: you want what was asked and the final answers, turn by turn, without tool calls.
Required: attempt_id or session_id (exactly one).
Optional: limit, max_bytes, cursor.
Next: the same with cursor = next_cursor for older ones; tail_attempt_logs for every step.
Avoid: waiting with it (wait_for_attempts wakes you).";

/// `tail_session_messages` takes exactly one of the two.
pub const MESSAGES_RULES: &[FieldRule] = &[FieldRule::OneTarget("attempt_id", "session_id")];

/// Exactly one of `attempt_id` and `session_id` is there.
#[apply(input)]
pub struct TailSessionMessagesInput {
    /// A UUID: its latest session is read; this or session_id.
    pub attempt_id: Option<AttemptId>,
    /// A UUID: latest_session_id of get_attempt_status; this or attempt_id.
    pub session_id: Option<SessionId>,
    pub limit: Limit<20, 200>,
    /// Most bytes, 1048576 at most; one message always fits.
    pub max_bytes: Limit<16_384, 1_048_576>,
    /// Older page: the messages before this index, a next_cursor.
    pub cursor: Option<Index>,
}

#[apply(output)]
pub struct TailSessionMessagesOutput {
    pub session_id: SessionId,
    /// The messages, oldest first.
    pub messages: Vec<SessionMessage>,
    /// Give it as cursor to get older messages; null at the beginning.
    pub next_cursor: Option<u64>,
    pub has_more: bool,
}

#[apply(output)]
pub struct SessionMessage {
    /// 0, 1, 2 and so on over the session; it stays the same.
    pub message_index: u64,
    /// Number of the turn, from 1.
    pub turn: u32,
    /// user (the prompt) or assistant (the agent's final answer).
    pub role: MessageRole,
    /// What was said; an answer has at most 16000 characters.
    pub text: String,
    /// When: the prompt was given, or the turn ended.
    pub at: Timestamp,
}

#[apply(word)]
pub enum MessageRole {
    User,
    Assistant,
}

tools! {
    SessionTools:
    read tail_session_messages(TailSessionMessagesInput) -> TailSessionMessagesOutput;
}
