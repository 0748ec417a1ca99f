//! Follow-ups as they are written: the rows of those that wait, and the process
//! of the one that begins, with which the attempt's next epoch does.

use provost_actors::event::Timestamp;
use provost_actors::ids::AttemptId;
use provost_actors::journal::{Answer, Attempt, FollowedUp, Key, Next, Turnover};
use provost_actors::refusal::{Code, Refusal};

use super::{Store, Writing, codec, commit, fault, processes, requests, tasks};

impl Store {
    pub(super) async fn insert_follow_up(
        &self,
        key: Option<&Key>,
        attempt: &Attempt,
        turnover: &Turnover,
        answer: &FollowedUp,
    ) -> Result<Answer<FollowedUp>, Refusal> {
        let mut writing = self.writer.begin_with("BEGIN IMMEDIATE").await.map_err(fault)?;
        if let Some(answer) = requests::kept(&mut writing, key).await? {
            return Ok(answer);
        }
        let adds = turnover.added.is_some() || turnover.begun.is_some();
        if adds && !is_on_board(&mut writing, attempt).await? {
            return Err(tasks::task_not_found(attempt.task_id));
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

/// Writes what a step of the queue changes. Part of a transaction.
pub(super) async fn turn_over(
    writing: Writing<'_>,
    attempt: AttemptId,
    epoch: u64,
    turnover: &Turnover,
) -> Result<(), Refusal> {
    write_rows(&mut *writing, attempt, turnover).await.map_err(fault)?;
    let standing = turnover.begun.as_ref().map(Next::standing);
    let changed = sqlx::query(
        "UPDATE attempts SET queue_held = ?3, epoch = epoch + ?4, phase = coalesce(?5, phase),
                state = coalesce(?6, state), updated_at = ?7,
                revision = (SELECT max(revision) + 1 FROM attempts)
         WHERE attempt_id = ?1 AND epoch = ?2",
    )
    .bind(attempt.to_string())
    .bind(i64::try_from(epoch).unwrap_or(i64::MAX))
    .bind(turnover.held)
    .bind(i64::from(standing.is_some()))
    .bind(standing.map(|(phase, _)| codec::word(&phase)))
    .bind(standing.map(|(_, state)| codec::word(&state)))
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await
    .map_err(fault)?;
    match changed.rows_affected() {
        0 => Err(stale(attempt, epoch)),
        _ => Ok(()),
    }
}

pub(super) fn stale(attempt: AttemptId, epoch: u64) -> Refusal {
    Refusal::new(Code::Internal, format!("attempt {attempt} is no longer in epoch {epoch}"))
}

async fn write_rows(
    writing: Writing<'_>,
    attempt: AttemptId,
    turnover: &Turnover,
) -> Result<(), sqlx::Error> {
    for id in &turnover.taken {
        sqlx::query("DELETE FROM follow_ups WHERE queue_id = ?1")
            .bind(id.to_string())
            .execute(&mut *writing)
            .await?;
    }
    if let Some(added) = &turnover.added {
        sqlx::query(
            "INSERT INTO follow_ups (queue_id, session_id, prompt, variant, queued_at)
             SELECT ?2, session_id, ?3, ?4, ?5 FROM sessions WHERE attempt_id = ?1
             ORDER BY session_id DESC LIMIT 1",
        )
        .bind(attempt.to_string())
        .bind(added.queue_id.to_string())
        .bind(&added.prompt)
        .bind(&added.variant)
        .bind(added.queued_at.millis())
        .execute(&mut *writing)
        .await?;
    }
    if let Some(Next { process, .. }) = &turnover.begun {
        // One that was planned and never ran gives way to it.
        sqlx::query("DELETE FROM processes WHERE attempt_id = ?1 AND status = 'planned'")
            .bind(attempt.to_string())
            .execute(&mut *writing)
            .await?;
        let session: String = sqlx::query_scalar(
            "SELECT session_id FROM sessions WHERE attempt_id = ?1
             ORDER BY session_id DESC LIMIT 1",
        )
        .bind(attempt.to_string())
        .fetch_one(&mut *writing)
        .await?;
        processes::insert(writing, &session, attempt, process, Timestamp::now().millis()).await?;
    }
    Ok(())
}
