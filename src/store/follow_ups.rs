//! Follow-ups as they are written: what one changes, and its answer.

use provost_actors::journal::{Answer, Attempt, FollowedUp, Key, Turnover};
use provost_actors::refusal::Refusal;

use super::turns::turn_over;
use super::{Store, Writing, commit, fault, missing, requests};

impl Store {
    pub(super) async fn insert_follow_up(
        &self,
        key: Option<&Key>,
        attempt: &Attempt,
        turnover: &Turnover,
        answer: &FollowedUp,
    ) -> Result<Answer<FollowedUp>, Refusal> {
        let mut writing = self.writing_briefly().await?;
        if let Some(answer) = requests::kept(&mut writing, key).await? {
            return Ok(answer);
        }
        let adds = turnover.added.is_some() || turnover.begun.is_some();
        if adds && !is_on_board(&mut writing, attempt).await? {
            return Err(missing::task_of(attempt.attempt_id));
        }
        turn_over(&mut writing, attempt.attempt_id, attempt.epoch, turnover).await?;
        let answer = requests::keep(&mut writing, key, answer.clone()).await?;
        commit(writing, "follow_up").await?;
        self.changes.announce(attempt.attempt_id);
        Ok(answer)
    }
}

async fn is_on_board(writing: Writing<'_>, attempt: &Attempt) -> Result<bool, Refusal> {
    let found: Option<i64> =
        sqlx::query_scalar("SELECT 1 FROM tasks WHERE task_id = ?1 AND deleted_at IS NULL")
            .bind(attempt.task_id.to_string())
            .fetch_optional(writing)
            .await
            .map_err(fault)?;
    Ok(found.is_some())
}
