//! Sessions: which one is meant, and what was said in it. The record of a
//! session are its turns: each has a prompt and, once it has ended, mostly a
//! last message of the agent.

use futures_util::TryStreamExt;
use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, ProcessId, SessionId};
use provost_actors::journal::Past;
use provost_actors::refusal::Refusal;
use sqlx::FromRow;

use super::{Store, codec, fault, missing};

/// The two ways to name a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The latest session of an attempt.
    Attempt(AttemptId),
    Session(SessionId),
}

/// One message of a session's transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionMessage {
    /// 0, 1, 2… over the session. An index never changes its message: a turn
    /// begins only when the one before has ended.
    pub index: u64,
    pub turn: u32,
    /// Said by the agent, not to it.
    pub is_answer: bool,
    pub text: String,
    pub at: Timestamp,
}

#[derive(FromRow)]
struct MessageRow {
    message_index: i64,
    turn: u32,
    is_answer: bool,
    text: String,
    at: i64,
}

#[derive(FromRow)]
struct PastRow {
    turn: u32,
    prompt: String,
    final_message: Option<String>,
    status: String,
}

impl PastRow {
    fn past(self) -> Result<Past, Refusal> {
        let Self { turn, prompt, final_message, status } = self;
        Ok(Past { turn, prompt, final_message, status: codec::enumerated(status)? })
    }
}

impl Store {
    /// The session that a target means, with its attempt. An attempt may have
    /// none yet: `missing::no_session_yet`.
    pub async fn target(&self, target: Target) -> Result<(AttemptId, SessionId), Refusal> {
        match target {
            Target::Session(session) => {
                let attempt: Option<String> =
                    sqlx::query_scalar("SELECT attempt_id FROM sessions WHERE session_id = ?1")
                        .bind(session.to_string())
                        .fetch_optional(&self.reader)
                        .await
                        .map_err(fault)?;
                let attempt = attempt.ok_or_else(|| missing::session(session))?;
                Ok((codec::id(&attempt)?, session))
            }
            Target::Attempt(attempt) => {
                let latest: Option<Option<String>> = sqlx::query_scalar(
                    "SELECT (SELECT session_id FROM sessions s WHERE s.attempt_id = a.attempt_id
                             ORDER BY session_id DESC LIMIT 1)
                     FROM attempts a WHERE a.attempt_id = ?1",
                )
                .bind(attempt.to_string())
                .fetch_optional(&self.reader)
                .await
                .map_err(fault)?;
                let latest = latest.ok_or_else(|| missing::attempt(attempt))?;
                let session = codec::optional_id(latest.as_deref())?;
                Ok((attempt, session.ok_or_else(|| missing::no_session_yet(attempt))?))
            }
        }
    }

    pub(super) async fn load_past(
        &self,
        attempt: AttemptId,
        before: ProcessId,
    ) -> Result<Vec<Past>, Refusal> {
        let rows: Vec<PastRow> = sqlx::query_as(
            "WITH past AS (
                 SELECT process_id, turn, substr(prompt, 1, 8000) AS prompt,
                        substr(final_message, 1, 8000) AS final_message, status,
                        row_number() OVER (ORDER BY turn, process_id) AS first,
                        row_number() OVER (ORDER BY turn DESC, process_id DESC) AS last
                 FROM processes
                 WHERE attempt_id = ?1 AND run_reason = 'coding_agent' AND status <> 'planned'
                   AND ended_at IS NOT NULL AND process_id < ?2)
             SELECT turn, prompt, final_message, status FROM past
             WHERE first = 1 OR last <= 100 ORDER BY first",
        )
        .bind(attempt.to_string())
        .bind(before.to_string())
        .fetch_all(&self.reader)
        .await
        .map_err(fault)?;
        rows.into_iter().map(PastRow::past).collect()
    }

    /// The last messages of a session with an index below `before`, newest
    /// first: at most `limit`, and no more once their texts exceed `max_bytes`.
    pub async fn messages(
        &self,
        session: SessionId,
        before: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<SessionMessage>, Refusal> {
        let mut rows = sqlx::query_as::<_, MessageRow>(
            "WITH turns AS (
                 SELECT process_id, turn, final_message IS NOT NULL AND ended_at IS NOT NULL AS ended
                 FROM processes
                 -- By its attempt, for which there is an index.
                 WHERE attempt_id = (SELECT attempt_id FROM sessions WHERE session_id = ?1)
                   AND session_id = ?1 AND run_reason = 'coding_agent' AND status <> 'planned'),
             numbered AS (
                 SELECT process_id, is_answer,
                        row_number() OVER (ORDER BY turn, process_id, is_answer) - 1 AS message_index
                 FROM (SELECT process_id, turn, 0 AS is_answer FROM turns
                       UNION ALL
                       SELECT process_id, turn, 1 FROM turns WHERE ended))
             SELECT n.message_index, n.is_answer, p.turn,
                    CASE WHEN n.is_answer THEN p.final_message ELSE p.prompt END AS text,
                    CASE WHEN n.is_answer THEN p.ended_at ELSE p.created_at END AS at
             FROM numbered n JOIN processes p ON p.process_id = n.process_id
             WHERE n.message_index < ?2
             ORDER BY n.message_index DESC LIMIT ?3",
        )
        .bind(session.to_string())
        .bind(i64::try_from(before).unwrap_or(i64::MAX))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch(&self.reader);
        let (mut messages, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.try_next().await.map_err(fault)? {
            bytes += row.text.len();
            messages.push(SessionMessage {
                index: u64::try_from(row.message_index).unwrap_or_default(),
                turn: row.turn,
                is_answer: row.is_answer,
                text: row.text,
                at: Timestamp::from_millis(row.at),
            });
            if bytes > max_bytes {
                break;
            }
        }
        Ok(messages)
    }
}
