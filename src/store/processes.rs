//! Changes of attempts: of the row and its newest process's, in one transaction, conditional
//! on the epoch. An owner that has been replaced (a newer start began the next epoch) changes
//! nothing any more.

use async_trait::async_trait;
use provost_actors::event::{ProcessStatus, Timestamp};
use provost_actors::ids::{AttemptId, ProcessId};
use provost_actors::journal::{Change, Outcome, Phase, Processes, State};
use provost_actors::refusal::Refusal;

use super::codec::Text;
use super::write_retry::Patience;
use super::{Result, Store, Writing, approvals, session_queue, task_status};

impl Store {
    /// Those of these processes that have no row.
    pub async fn unknown_processes(&self, ids: &[String]) -> Result<Vec<String>, sqlx::Error> {
        sqlx::query_scalar(
            "SELECT value FROM json_each(?1)
             WHERE value NOT IN (SELECT process_id FROM processes)",
        )
        .bind(serde_json::Value::from(ids).to_string())
        .fetch_all(&self.reader)
        .await
    }
}

#[async_trait]
impl Processes for Store {
    async fn advance(
        &self,
        attempt: AttemptId,
        epoch: u64,
        process: ProcessId,
        change: &Change,
    ) -> Result<(), Refusal> {
        self.write(Patience::Brief, name(change), async |writing| {
            let now = Timestamp::now().millis();
            change_attempt(writing, attempt, epoch, change, now).await?;
            change_process(writing, process, change).await?;
            if let Change::Unqueued { returned: Some(follow_up), .. } = change {
                session_queue::put_back(writing, attempt, follow_up).await?;
            }
            if let Change::Settled(_, turnover) = change
                && turnover.begun.is_some()
            {
                session_queue::turn_over(writing, attempt, epoch, turnover).await?;
            }
            if settles(change) {
                task_status::settled(writing, attempt, now).await?;
            }
            Ok(())
        })
        .await?;
        self.changes.announce(attempt);
        Ok(())
    }

    fn waits_for_disk(&self, attempt: AttemptId, reason: Option<&str>) {
        self.changes.wait_for_disk(attempt, reason);
    }
}

/// What a change is called where a test may let the daemon die.
fn name(change: &Change) -> &'static str {
    match change {
        Change::Unqueued { .. } => "unqueued",
        Change::Held => "held",
        Change::Preparing => "preparing",
        Change::Running { .. } => "running",
        Change::Stopping => "stopping",
        Change::ExecutorSession(_) => "executor_session",
        Change::Settled(..) => "settled",
        Change::Closed => "closed",
    }
}

/// Nothing runs or waits after it.
fn settles(change: &Change) -> bool {
    match change {
        Change::Unqueued { .. } => true,
        Change::Settled(_, turnover) => turnover.begun.is_none(),
        _ => false,
    }
}

/// The attempt's phase and state after a change.
fn phase_and_state(change: &Change) -> (Option<Phase>, Option<State>) {
    match change {
        Change::Unqueued { phase, state, .. } => (Some(*phase), Some(*state)),
        Change::Preparing => (Some(Phase::Preparing), Some(State::Running)),
        Change::Running { .. } => (Some(Phase::Running), Some(State::Running)),
        Change::Stopping => (Some(Phase::Stopping), None),
        Change::Held | Change::ExecutorSession(_) | Change::Closed => (None, None),
        Change::Settled(Outcome { status: ProcessStatus::Completed, .. }, _) => {
            (Some(Phase::Settled), Some(State::Completed))
        }
        Change::Settled(..) => (Some(Phase::Settled), Some(State::Failed)),
    }
}

async fn change_attempt(
    writing: Writing<'_>,
    attempt: AttemptId,
    epoch: u64,
    change: &Change,
    now: i64,
) -> Result<()> {
    let (phase, state) = phase_and_state(change);
    let changed = sqlx::query(
        "UPDATE attempts SET phase = coalesce(?3, phase), state = coalesce(?4, state),
                updated_at = ?5, queue_held = queue_held OR ?7,
                revision = CASE WHEN ?3 IS NULL AND NOT ?7 THEN revision
                    ELSE (SELECT max(revision) + 1 FROM attempts) END,
                settled_revision = CASE WHEN ?6
                    THEN (SELECT max(revision) + 1 FROM attempts)
                    ELSE settled_revision END
         WHERE attempt_id = ?1 AND epoch = ?2",
    )
    .bind(Text(attempt))
    .bind(i64::try_from(epoch).unwrap_or(i64::MAX))
    .bind(phase.map(Text))
    .bind(state.map(Text))
    .bind(now)
    .bind(settles(change))
    .bind(matches!(change, Change::Held | Change::Unqueued { .. }))
    .execute(writing)
    .await?;
    match changed.rows_affected() {
        0 => Err(session_queue::stale(attempt, epoch)),
        _ => Ok(()),
    }
}

async fn change_process(writing: Writing<'_>, process: ProcessId, change: &Change) -> Result<()> {
    let statement = match change {
        Change::Preparing | Change::Stopping => return Ok(()),
        Change::Settled(outcome, _) => return settle(writing, process, outcome).await,
        Change::Unqueued { .. } | Change::Held => sqlx::query(
            "UPDATE processes SET quota = 'ask'
             WHERE quota = 'auto' AND attempt_id =
                 (SELECT attempt_id FROM processes WHERE process_id = ?1)",
        )
        .bind(Text(process)),
        Change::Running { pid, start_time, boot_id, limits } => sqlx::query(
            "UPDATE processes SET status = 'running', pid = ?2, start_time = ?3, boot_id = ?4,
                    limits = ?5
             WHERE process_id = ?1",
        )
        .bind(Text(process))
        .bind(pid)
        .bind(i64::try_from(*start_time).unwrap_or(i64::MAX))
        .bind(boot_id)
        .bind(serde_json::to_string(limits)?),
        Change::ExecutorSession(id) => sqlx::query(
            "UPDATE sessions SET executor_session_id = ?2
             WHERE session_id = (SELECT session_id FROM processes WHERE process_id = ?1)",
        )
        .bind(Text(process))
        .bind(id),
        Change::Closed => {
            sqlx::query("UPDATE processes SET closed = 1 WHERE process_id = ?1").bind(Text(process))
        }
    };
    statement.execute(writing).await?;
    Ok(())
}

async fn settle(writing: Writing<'_>, process: ProcessId, outcome: &Outcome) -> Result<()> {
    let usage = outcome.usage.map(|usage| serde_json::to_string(&usage)).transpose()?;
    sqlx::query(
        "UPDATE processes SET status = ?2, exit_code = ?3, exit_signal = ?4,
                failure_summary = ?5, final_message = ?6, usage = ?7, ended_at = ?8,
                quota = ?9, resume_at = ?10
         WHERE process_id = ?1",
    )
    .bind(Text(process))
    .bind(Text(outcome.status))
    .bind(outcome.exit_code)
    .bind(outcome.exit_signal)
    .bind(&outcome.failure_summary)
    .bind(&outcome.final_message)
    .bind(usage)
    .bind(outcome.at.millis())
    .bind(outcome.quota.map(|quota| if quota.resumes { "auto" } else { "ask" }))
    .bind(outcome.quota.and_then(|quota| quota.resume_at).map(Timestamp::millis))
    .execute(&mut *writing)
    .await?;
    approvals::withdraw_if_ended(writing, process).await
}
