//! What was said in a session, turn by turn.

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::args::{Id, Index, Limit, Time};
use crate::api::field_rules::FieldRule;
use crate::api::{Refusable, Session};

pub const TAIL_SESSION_MESSAGES: &str = "\
Use when: you want what was asked and the final answers, turn by turn, without tool calls.
Required: attempt_id or session_id (exactly one).
Optional: limit, max_bytes, cursor.
Next: the same with cursor = next_cursor for older ones; tail_attempt_logs for every step.
Avoid: both ids at once; waiting with it (wait_for_attempts wakes you).";

pub const MESSAGES_RULES: &[FieldRule] = &[FieldRule::OneTarget("attempt_id", "session_id")];

/// Exactly one of `attempt_id` and `session_id` is there.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TailSessionMessagesInput {
    /// Attempt whose latest session to read, a UUID. Not with session_id.
    #[schemars(with = "Option<Id>")]
    pub attempt_id: Option<AttemptId>,
    /// Session to read, a UUID: latest_session_id of get_attempt_status. Not with attempt_id.
    #[schemars(with = "Option<Id>")]
    pub session_id: Option<SessionId>,
    /// Most messages to return; more than 200 counts as 200.
    #[serde(default)]
    pub limit: Limit<20, 200>,
    /// Most bytes of messages to return, 1048576 at most; one message always fits.
    #[serde(default)]
    pub max_bytes: Limit<16_384, 1_048_576>,
    /// Older page: the messages before this index, a next_cursor.
    pub cursor: Option<Index>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TailSessionMessagesOutput {
    /// Id of the session, a UUID.
    #[schemars(with = "String")]
    pub session_id: SessionId,
    /// The messages, oldest first.
    pub messages: Vec<SessionMessage>,
    /// Give it as cursor to get older messages; null at the beginning.
    pub next_cursor: Option<u64>,
    /// Whether there are older ones.
    pub has_more: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionMessage {
    /// 0, 1, 2 and so on over the session; it stays the same.
    pub message_index: u64,
    /// Number of the turn, from 1.
    pub turn: u32,
    /// user (the prompt) or assistant (the agent's final answer).
    pub role: MessageRole,
    /// What was said; an answer has at most 16000 characters.
    pub text: String,
    /// When: the prompt was given, or the turn ended. RFC 3339 UTC.
    #[schemars(with = "Time")]
    pub at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageRole {
    User,
    Assistant,
}

/// What the tool about sessions asks of the daemon.
#[async_trait]
pub trait SessionTools: Send + Sync {
    async fn tail_session_messages(
        &self,
        session: &Session,
        input: TailSessionMessagesInput,
    ) -> Refusable<TailSessionMessagesOutput>;
}
