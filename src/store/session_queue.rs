//! How a session's queue is written: the rows of the waiting follow-ups, and the process of the turn that
//! begins, which also begins the attempt's next epoch. All of these are parts of transactions: a follow-up is
//! either in the queue or has its turn, never both and never neither.

use provost_actors::ids::{AttemptId, SessionId};
use provost_actors::journal::{FollowUp, Next, Process, Turnover};
use serde_json::json;

use super::{Code, Db, Refusal, Result, Sql, StoreError, comments, now, task_status};

/// Writes one step of the queue. Fails as a whole if the attempt is in another epoch, because a newer actor
/// owns it then.
pub(super) async fn turn_over(
    db: Db<'_>,
    attempt: AttemptId,
    epoch: u64,
    turnover: &Turnover,
) -> Result<()> {
    let begun = turnover.begun.as_ref().and_then(|next| next.process.queue_id);
    for id in &turnover.taken {
        db.run("DELETE FROM follow_ups WHERE queue_id = $1", (id,)).await?;
        if begun != Some(*id) {
            comments::give_back(db, *id).await?;
        }
    }
    if let Some(review) = &turnover.review {
        comments::send(db, attempt, review).await?;
    }
    if let Some(added) = &turnover.added {
        enqueue(db, attempt, added, None).await?;
    }
    if let Some(Next { process, .. }) = &turnover.begun {
        begin_turn(db, attempt, process).await?;
    }
    let (phase, state) = turnover.begun.as_ref().map(Next::state).unzip();
    let is_changed = phase.is_some() || turnover.added.is_some() || !turnover.taken.is_empty();
    let sql = "UPDATE attempts SET queue_held = $3, phase = coalesce($4, phase),
                epoch = epoch + CASE WHEN $4 IS NULL THEN 0 ELSE 1 END, state = coalesce($5, state), updated_at = $6,
                revision = CASE WHEN $7 OR queue_held <> $3
                    THEN (SELECT max(revision) + 1 FROM attempts) ELSE revision END
         WHERE attempt_id = $1 AND epoch = $2";
    let values = (attempt, epoch, turnover.held, phase, state, now(), is_changed);
    require_epoch(db.run(sql, values).await?, attempt, epoch)
}

/// Fails unless the update changed a row: the attempt is in another epoch then.
pub(super) fn require_epoch(changed: u64, attempt: AttemptId, epoch: u64) -> Result<()> {
    let message = || format!("attempt {attempt} is no longer in epoch {epoch}");
    let stale = || StoreError::from(Refusal::new(Code::Internal, message()));
    (changed > 0).then_some(()).ok_or_else(stale)
}

/// Plans the process of a turn, and sets the task in progress.
async fn begin_turn(db: Db<'_>, attempt: AttemptId, process: &Process) -> Result<()> {
    // The new process replaces one that was planned and never ran.
    let sql = "DELETE FROM processes WHERE attempt_id = $1 AND status = 'planned'";
    db.run(sql, (attempt,)).await?;
    let sql =
        "SELECT session_id FROM sessions WHERE attempt_id = $1 ORDER BY session_id DESC LIMIT 1";
    let session = db.one(sql, (attempt,)).await?;
    let now = now();
    task_status::by_follow_up(db, attempt, now).await?;
    insert_process(db, session, attempt, process, now).await
}

/// Puts a follow-up back at the head of the queue, before all others.
pub(super) async fn put_back(db: Db<'_>, attempt: AttemptId, follow_up: &FollowUp) -> Result<()> {
    let first: i64 = db.one("SELECT coalesce(min(position), 1) FROM follow_ups", ()).await?;
    enqueue(db, attempt, follow_up, Some(first - 1)).await
}

/// Puts a follow-up into the queue: at `position`, or at the end.
async fn enqueue(
    db: Db<'_>,
    attempt: AttemptId,
    follow_up: &FollowUp,
    position: Option<i64>,
) -> Result<()> {
    let sql = "INSERT INTO follow_ups (position, queue_id, session_id, prompt, variant, queued_at)
         SELECT coalesce($6, (SELECT coalesce(max(position), 0) + 1 FROM follow_ups)),
                $2, session_id, $3, $4, $5 FROM sessions WHERE attempt_id = $1
         ORDER BY session_id DESC LIMIT 1";
    let FollowUp { queue_id, prompt, variant, queued_at } = follow_up;
    db.run(sql, (attempt, queue_id, prompt, variant, queued_at.millis(), position)).await?;
    Ok(())
}

/// Writes the row of a process that has not run yet.
pub(super) async fn insert_process(
    db: Db<'_>,
    session: SessionId,
    attempt: AttemptId,
    process: &Process,
    now: i64,
) -> Result<()> {
    let row = json!({
        "process_id": process.process_id, "session_id": session, "attempt_id": attempt,
        "run_reason": process.run_reason, "turn": process.turn, "prompt": process.prompt,
        "variant": process.variant, "status": process.status, "queue_id": process.queue_id,
        "created_at": now,
    });
    db.insert("INTO processes", row).await?;
    Ok(())
}
