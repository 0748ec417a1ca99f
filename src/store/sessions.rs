//! Sessions: which one a call means, what was said in it, and follow-ups. The record of a session is its
//! turns: each has a prompt and, once it has ended, usually a last message of the agent.

use async_trait::async_trait;
use provost_actors::ids::{AttemptId, ProcessId, SessionId};
use provost_actors::journal::{
    Attempt, FollowedUp, Fork, Idempotent, Key, Past, Sessions, Turnover,
};

use super::session_queue::turn_over;
use super::{Refusal, Result, RetryBudget, Sql, Store, not_found};
use crate::api::sessions::SessionMessage;

#[async_trait]
impl Sessions for Store {
    async fn record_follow_up(
        &self,
        key: Option<&Key>,
        attempt: &Attempt,
        turnover: &Turnover,
        answer: &FollowedUp,
    ) -> Result<Idempotent<FollowedUp>, Refusal> {
        let recorded = self
            .keyed(RetryBudget::OneTry, key, "follow_up", async |db| {
                let sql = "SELECT EXISTS (SELECT 1 FROM tasks
                                          WHERE task_id = $1 AND deleted_at IS NULL)";
                let is_on_board: bool = db.one(sql, (attempt.task_id,)).await?;
                if !is_on_board && (turnover.added.is_some() || turnover.begun.is_some()) {
                    return Err(not_found::task_of(attempt.attempt_id).into());
                }
                turn_over(db, attempt.attempt_id, attempt.epoch, turnover).await?;
                Ok(answer.clone())
            })
            .await?;
        self.changes.announce(attempt.attempt_id);
        Ok(recorded)
    }

    async fn past(&self, attempt: AttemptId, before: ProcessId) -> Result<Vec<Past>, Refusal> {
        self.past_of(attempt, Some(before), None).await
    }

    async fn past_until(&self, fork: Fork) -> Result<Vec<Past>, Refusal> {
        self.past_of(fork.attempt_id, None, Some(fork.turn)).await
    }

    async fn session_at(&self, fork: Fork, executor: &str) -> Result<Option<String>, Refusal> {
        let sql = "SELECT s.executor_session_id FROM attempts a
             JOIN sessions s ON s.session_id = (
                 SELECT session_id FROM sessions WHERE attempt_id = a.attempt_id
                 ORDER BY session_id DESC LIMIT 1)
             WHERE a.attempt_id = $1 AND s.executor = $3 AND s.executor_session_id IS NOT NULL
               AND a.host = $4
               AND a.phase IN ('settled', 'idle')
               AND $2 = (SELECT max(turn) FROM processes
                         WHERE attempt_id = a.attempt_id AND run_reason = 'coding_agent'
                           AND status <> 'planned')";
        // The files of the agent's session are on the host of the attempt.
        let values = (fork.attempt_id, fork.turn, executor.to_owned(), &self.host);
        self.read(async |db| db.find(sql, &values).await).await
    }
}

impl Store {
    /// The prompt of an attempt's first turn, and the variant of the executor, if one was named.
    pub async fn first_prompt(
        &self,
        attempt: AttemptId,
    ) -> Result<(String, Option<String>), Refusal> {
        let sql = "SELECT prompt, variant FROM processes
             WHERE attempt_id = $1 AND run_reason = 'coding_agent'
             ORDER BY turn, process_id LIMIT 1";
        self.read(async |db| db.one(sql, (attempt,)).await).await
    }

    /// The first turn and the last 100 turns that have ended, with shortened texts, in their order: before a
    /// process, or up to a turn.
    async fn past_of(
        &self,
        attempt: AttemptId,
        before: Option<ProcessId>,
        until: Option<u32>,
    ) -> Result<Vec<Past>, Refusal> {
        let sql = "WITH past AS (
                 SELECT process_id, turn, substr(prompt, 1, 8000) AS prompt,
                        substr(final_message, 1, 8000) AS final_message, status, lost_host,
                        row_number() OVER (ORDER BY turn, process_id) AS first,
                        row_number() OVER (ORDER BY turn DESC, process_id DESC) AS last
                 FROM processes
                 WHERE attempt_id = $1 AND run_reason = 'coding_agent' AND status <> 'planned'
                   AND ended_at IS NOT NULL
                   AND (process_id < $2 OR $2 IS NULL) AND (turn <= $3 OR $3 IS NULL))
             SELECT turn, prompt, final_message, status, lost_host FROM past
             WHERE first = 1 OR last <= 100 ORDER BY first";
        self.read(async |db| db.all(sql, (attempt, before, until)).await).await
    }

    /// The named session with its attempt, or the newest session of an attempt. Refused if the id is unknown,
    /// or if the attempt has no session yet.
    pub async fn session(
        &self,
        attempt: Option<AttemptId>,
        session: Option<SessionId>,
    ) -> Result<(AttemptId, SessionId), Refusal> {
        self.read(async |db| match (attempt, session) {
            (Some(attempt), _) => {
                let sql = "SELECT (SELECT session_id FROM sessions s
                             WHERE s.attempt_id = a.attempt_id ORDER BY session_id DESC LIMIT 1)
                     FROM attempts a WHERE a.attempt_id = $1";
                let latest: Option<Option<SessionId>> = db.find(sql, (attempt,)).await?;
                let latest = latest.ok_or_else(|| not_found::attempt(attempt))?;
                Ok((attempt, latest.ok_or_else(|| not_found::no_session_yet(attempt))?))
            }
            (None, Some(session)) => {
                let sql = "SELECT attempt_id FROM sessions WHERE session_id = $1";
                let attempt = db.find(sql, (session,)).await?;
                Ok((attempt.ok_or_else(|| not_found::session(session))?, session))
            }
            // The tools' field rules ask for one of the two.
            (None, None) => Err(Refusal::internal("no session is named").into()),
        })
        .await
    }

    /// The newest messages of a session with an index below `before`, newest first: at most `limit`, and none
    /// after the message whose text exceeds `max_bytes` in total. The index of a message never changes,
    /// because a turn begins only after the one before has ended.
    pub async fn messages(
        &self,
        session: SessionId,
        before: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<SessionMessage>, Refusal> {
        let sql = "WITH turns AS (
                 SELECT process_id, turn,
                        final_message IS NOT NULL AND ended_at IS NOT NULL AS ended
                 FROM processes
                 -- By its attempt, for which there is an index.
                 WHERE attempt_id = (SELECT attempt_id FROM sessions WHERE session_id = $1)
                   AND session_id = $1 AND run_reason = 'coding_agent'
                   AND status <> 'planned'),
             numbered AS (
                 SELECT process_id, is_answer,
                        row_number() OVER (ORDER BY turn, process_id, is_answer) - 1 AS message
                 FROM (SELECT process_id, turn, 0 AS is_answer FROM turns
                       UNION ALL
                       SELECT process_id, turn, 1 FROM turns WHERE ended) t),
             said AS (
                 SELECT n.message, n.is_answer, p.turn,
                        CASE WHEN n.is_answer = 1 THEN p.final_message ELSE p.prompt END AS text,
                        CASE WHEN n.is_answer = 1 THEN p.ended_at ELSE p.created_at END AS at
                 FROM numbered n JOIN processes p ON p.process_id = n.process_id
                 WHERE n.message < $2 ORDER BY n.message DESC LIMIT $3)
             SELECT message AS message_index, turn, text, at,
                    CASE WHEN is_answer = 1 THEN 'assistant' ELSE 'user' END AS role FROM (
                 SELECT *, sum(octet_length(text)) OVER (ORDER BY message DESC
                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS newer FROM said) s
             WHERE coalesce(newer, 0) <= $4 ORDER BY message DESC";
        self.read(async |db| db.all(sql, (session, before, limit, max_bytes)).await).await
    }
}
