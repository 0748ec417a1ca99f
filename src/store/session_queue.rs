//! A session's queue as it is written: the rows of the follow-ups that wait, and the process
//! of the turn that begins, with which the attempt's next epoch begins. Parts of
//! transactions: a follow-up is never out of the queue without its turn, nor in both.

use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, SessionId};
use provost_actors::journal::{FollowUp, Next, Process, Turnover};
use provost_actors::refusal::{Code, Refusal};

use super::codec::Text;
use super::{Result, StoreError, Writing, task_status};

/// Writes what a step of the queue changes. A row of another epoch belongs to a newer owner,
/// and fails the whole step.
pub(super) async fn turn_over(
    writing: Writing<'_>,
    attempt: AttemptId,
    epoch: u64,
    turnover: &Turnover,
) -> Result<()> {
    for id in &turnover.taken {
        sqlx::query("DELETE FROM follow_ups WHERE queue_id = ?1")
            .bind(Text(id))
            .execute(&mut *writing)
            .await?;
    }
    if let Some(added) = &turnover.added {
        enqueue(writing, attempt, added, None).await?;
    }
    if let Some(Next { process, .. }) = &turnover.begun {
        begin_turn(writing, attempt, process).await?;
    }
    let begun = turnover.begun.as_ref().map(Next::state);
    let changed = sqlx::query(
        "UPDATE attempts SET queue_held = ?3, epoch = epoch + ?4, phase = coalesce(?5, phase),
                state = coalesce(?6, state), updated_at = ?7,
                revision = CASE WHEN ?8 OR queue_held <> ?3
                    THEN (SELECT max(revision) + 1 FROM attempts) ELSE revision END
         WHERE attempt_id = ?1 AND epoch = ?2",
    )
    .bind(Text(attempt))
    .bind(i64::try_from(epoch).unwrap_or(i64::MAX))
    .bind(turnover.held)
    .bind(i64::from(begun.is_some()))
    .bind(begun.map(|(phase, _)| Text(phase)))
    .bind(begun.map(|(_, state)| Text(state)))
    .bind(Timestamp::now().millis())
    .bind(begun.is_some() || turnover.added.is_some() || !turnover.taken.is_empty())
    .execute(writing)
    .await?;
    match changed.rows_affected() {
        0 => Err(stale(attempt, epoch)),
        _ => Ok(()),
    }
}

pub(super) fn stale(attempt: AttemptId, epoch: u64) -> StoreError {
    let message = format!("attempt {attempt} is no longer in epoch {epoch}");
    Refusal::new(Code::Internal, message).into()
}

async fn begin_turn(writing: Writing<'_>, attempt: AttemptId, process: &Process) -> Result<()> {
    // A process that was planned and never ran gives way to the new one.
    sqlx::query("DELETE FROM processes WHERE attempt_id = ?1 AND status = 'planned'")
        .bind(Text(attempt))
        .execute(&mut *writing)
        .await?;
    let session: Text<SessionId> = sqlx::query_scalar(
        "SELECT session_id FROM sessions WHERE attempt_id = ?1 ORDER BY session_id DESC LIMIT 1",
    )
    .bind(Text(attempt))
    .fetch_one(&mut *writing)
    .await?;
    let now = Timestamp::now().millis();
    task_status::by_follow_up(&mut *writing, attempt, now).await?;
    insert_process(writing, session.0, attempt, process, now).await
}

/// Puts a follow-up before all others.
pub(super) async fn put_back(
    writing: Writing<'_>,
    attempt: AttemptId,
    follow_up: &FollowUp,
) -> Result<()> {
    let first: i64 = sqlx::query_scalar("SELECT coalesce(min(position), 1) FROM follow_ups")
        .fetch_one(&mut *writing)
        .await?;
    enqueue(writing, attempt, follow_up, Some(first - 1)).await
}

/// Puts a follow-up into the queue; behind all others unless it has a position.
async fn enqueue(
    writing: Writing<'_>,
    attempt: AttemptId,
    follow_up: &FollowUp,
    position: Option<i64>,
) -> Result<()> {
    sqlx::query(
        "INSERT INTO follow_ups (position, queue_id, session_id, prompt, variant, queued_at)
         SELECT ?6, ?2, session_id, ?3, ?4, ?5 FROM sessions WHERE attempt_id = ?1
         ORDER BY session_id DESC LIMIT 1",
    )
    .bind(Text(attempt))
    .bind(Text(follow_up.queue_id))
    .bind(&follow_up.prompt)
    .bind(&follow_up.variant)
    .bind(follow_up.queued_at.millis())
    .bind(position)
    .execute(writing)
    .await?;
    Ok(())
}

/// Writes a process that is to run.
pub(super) async fn insert_process(
    writing: Writing<'_>,
    session: SessionId,
    attempt: AttemptId,
    process: &Process,
    now: i64,
) -> Result<()> {
    sqlx::query(
        "INSERT INTO processes (process_id, session_id, attempt_id, run_reason, turn, prompt,
                                variant, status, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )
    .bind(Text(process.process_id))
    .bind(Text(session))
    .bind(Text(attempt))
    .bind(Text(process.run_reason))
    .bind(process.turn)
    .bind(&process.prompt)
    .bind(&process.variant)
    .bind(Text(process.status))
    .bind(now)
    .execute(writing)
    .await?;
    Ok(())
}
