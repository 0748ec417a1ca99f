//! The turns of a session as they are written: the rows of the prompts that
//! wait, and the process of the one that begins, with which the attempt's next
//! epoch does. Parts of transactions.

use provost_actors::event::Timestamp;
use provost_actors::ids::AttemptId;
use provost_actors::journal::{FollowUp, Next, Process, Turnover};
use provost_actors::refusal::{Code, Refusal};

use super::{Writing, begun, codec, fault};

/// Writes what a step of the queue changes.
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
                revision = CASE WHEN ?8 OR queue_held <> ?3
                    THEN (SELECT max(revision) + 1 FROM attempts) ELSE revision END
         WHERE attempt_id = ?1 AND epoch = ?2",
    )
    .bind(attempt.to_string())
    .bind(i64::try_from(epoch).unwrap_or(i64::MAX))
    .bind(turnover.held)
    .bind(i64::from(standing.is_some()))
    .bind(standing.map(|(phase, _)| codec::word(&phase)))
    .bind(standing.map(|(_, state)| codec::word(&state)))
    .bind(Timestamp::now().millis())
    .bind(turnover.begun.is_some() || turnover.added.is_some() || !turnover.taken.is_empty())
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
        wait(&mut *writing, attempt, added, None).await?;
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
        let now = Timestamp::now().millis();
        begun::by_follow_up(&mut *writing, &attempt.to_string(), now).await?;
        insert(writing, &session, attempt, process, now).await?;
    }
    Ok(())
}

/// Lets a follow-up wait before all others.
pub(super) async fn put_back(
    writing: Writing<'_>,
    attempt: AttemptId,
    follow_up: &FollowUp,
) -> Result<(), sqlx::Error> {
    let first: i64 = sqlx::query_scalar("SELECT coalesce(min(position), 1) FROM follow_ups")
        .fetch_one(&mut *writing)
        .await?;
    wait(writing, attempt, follow_up, Some(first - 1)).await
}

/// Lets a follow-up wait; behind all others unless it has a position.
async fn wait(
    writing: Writing<'_>,
    attempt: AttemptId,
    follow_up: &FollowUp,
    position: Option<i64>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO follow_ups (position, queue_id, session_id, prompt, variant, queued_at)
         SELECT ?6, ?2, session_id, ?3, ?4, ?5 FROM sessions WHERE attempt_id = ?1
         ORDER BY session_id DESC LIMIT 1",
    )
    .bind(attempt.to_string())
    .bind(follow_up.queue_id.to_string())
    .bind(&follow_up.prompt)
    .bind(&follow_up.variant)
    .bind(follow_up.queued_at.millis())
    .bind(position)
    .execute(writing)
    .await?;
    Ok(())
}

/// Writes a process that is to run.
pub(super) async fn insert(
    writing: Writing<'_>,
    session: &str,
    attempt: AttemptId,
    process: &Process,
    now: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO processes (process_id, session_id, attempt_id, run_reason, turn, prompt,
                                variant, status, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )
    .bind(process.process_id.to_string())
    .bind(session)
    .bind(attempt.to_string())
    .bind(codec::word(&process.run_reason))
    .bind(process.turn)
    .bind(&process.prompt)
    .bind(&process.variant)
    .bind(codec::word(&process.status))
    .bind(now)
    .execute(writing)
    .await?;
    Ok(())
}
