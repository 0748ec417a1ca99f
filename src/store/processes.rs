//! Changes of attempts: the attempt's row and that of its newest process, in one transaction that requires
//! the epoch. An actor that was replaced has an old epoch, so it changes nothing any more.

use async_trait::async_trait;
use provost_actors::event::{ProcessStatus, Timestamp};
use provost_actors::ids::{AttemptId, ProcessId};
use provost_actors::journal::{Change, Outcome, Phase, Processes, State, WaitingOn};

use super::{
    Db, Refusal, Result, RetryBudget, Sql, Store, approvals, comments, now, placement,
    session_queue, task_status,
};

impl Store {
    /// Those of these ids that no attempt has.
    pub async fn unknown_attempts(&self, ids: &[String]) -> Result<Vec<String>, Refusal> {
        let sql = "SELECT value FROM json_each($1)
             WHERE value NOT IN (SELECT attempt_id FROM attempts)";
        self.read(async |db| db.all(sql, (ids,)).await).await
    }

    /// Those of these ids that no process has.
    pub async fn unknown_processes(&self, ids: &[String]) -> Result<Vec<String>, Refusal> {
        let sql = "SELECT value FROM json_each($1)
             WHERE value NOT IN (SELECT process_id FROM processes)";
        self.read(async |db| db.all(sql, (ids,)).await).await
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
        self.write(RetryBudget::OneTry, name(change), async |db| {
            let now = now();
            change_attempt(db, attempt, epoch, change, now).await?;
            change_process(db, process, change).await?;
            if let Change::Unqueued { returned: Some(follow_up), .. } = change {
                session_queue::put_back(db, attempt, follow_up).await?;
            }
            if let Change::Settled(_, turnover) = change
                && turnover.begun.is_some()
            {
                session_queue::turn_over(db, attempt, epoch, turnover).await?;
            }
            if settles(change) {
                task_status::settled(db, attempt, now).await?;
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

    fn waits_for(&self, attempt: AttemptId, what: Option<WaitingOn>) {
        self.changes.wait_for(attempt, what);
    }

    fn waits_for_setup(&self, attempt: AttemptId, of: Option<AttemptId>) {
        self.changes.wait_for_setup(attempt, of);
    }
}

/// The name of the crash points around a change.
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

/// Whether nothing begins after this change without another call.
fn settles(change: &Change) -> bool {
    match change {
        Change::Unqueued { .. } => true,
        Change::Settled(_, turnover) => turnover.begun.is_none(),
        _ => false,
    }
}

/// The phase and state after a change; `None`: unchanged.
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
    db: Db<'_>,
    attempt: AttemptId,
    epoch: u64,
    change: &Change,
    now: i64,
) -> Result<()> {
    let (phase, state) = phase_and_state(change);
    let holds_queue = matches!(change, Change::Held | Change::Unqueued { .. });
    let sql = "UPDATE attempts SET phase = coalesce($3, phase), state = coalesce($4, state),
                updated_at = $5, queue_held = CASE WHEN $7 THEN 1 ELSE queue_held END,
                revision = CASE WHEN $3 IS NULL AND NOT $7 THEN revision
                    ELSE (SELECT max(revision) + 1 FROM attempts) END,
                settled_revision = CASE WHEN $6
                    THEN (SELECT max(revision) + 1 FROM attempts)
                    ELSE settled_revision END
         WHERE attempt_id = $1 AND epoch = $2 RETURNING admitted_epoch";
    let values = (attempt, epoch, phase, state, now, settles(change), holds_queue);
    let admitted: Option<u64> = db.find(sql, values).await?;
    session_queue::require_epoch(u64::from(admitted.is_some()), attempt, epoch)?;
    if settles(change) && admitted > Some(0) {
        // Another one of its executor may begin, on any host.
        placement::hint(db).await?;
    }
    Ok(())
}

/// Writes the part of a change that belongs to the process or the session. `Unqueued` and `Held` also stop
/// the automatic resumption after a limit.
async fn change_process(db: Db<'_>, process: ProcessId, change: &Change) -> Result<()> {
    match change {
        Change::Preparing | Change::Stopping => {}
        Change::Settled(outcome, _) => settle(db, process, outcome).await?,
        Change::Unqueued { .. } | Change::Held => {
            let sql = "UPDATE processes SET quota = 'ask' WHERE quota = 'auto' AND attempt_id =
                     (SELECT attempt_id FROM processes WHERE process_id = $1)";
            db.run(sql, (process,)).await?;
        }
        Change::Running { pid, start_time, boot_id, limits, sandbox } => {
            let sql = "UPDATE processes SET status = 'running', pid = $2, start_time = $3,
                        boot_id = $4, limits = $5, sandbox = $6 WHERE process_id = $1";
            db.run(sql, (process, pid, start_time, boot_id, limits, sandbox)).await?;
        }
        Change::ExecutorSession(id) => {
            let sql = "UPDATE sessions SET executor_session_id = $2 WHERE session_id =
                     (SELECT session_id FROM processes WHERE process_id = $1)";
            db.run(sql, (process, id)).await?;
        }
        Change::Closed => {
            let sql = "UPDATE processes SET closed = 1 WHERE process_id = $1";
            db.run(sql, (process,)).await?;
        }
    }
    Ok(())
}

/// Writes how a turn has ended. This also makes its snapshot due, withdraws its approvals, and makes its
/// comments drafts again if it never ran.
async fn settle(db: Db<'_>, process: ProcessId, outcome: &Outcome) -> Result<()> {
    let Outcome { status, exit_code, exit_signal, failure_summary, final_message, .. } = outcome;
    let dialect = db.dialect();
    let failure_summary = failure_summary.as_deref().map(|it| dialect.storable(it));
    let final_message = final_message.as_deref().map(|it| dialect.storable(it));
    let quota = outcome.quota.map(|quota| if quota.resumes { "auto" } else { "ask" });
    let resume_at = outcome.quota.and_then(|quota| quota.resume_at).map(Timestamp::millis);
    let sql = "UPDATE processes SET status = $2, exit_code = $3, exit_signal = $4,
                failure_summary = $5, final_message = $6 WHERE process_id = $1";
    db.run(sql, (process, status, exit_code, exit_signal, failure_summary, final_message)).await?;
    let sql = "UPDATE processes SET usage = $2, ended_at = $3, quota = $4, resume_at = $5,
                snapshot_due = 1, error_type = $6
         WHERE process_id = $1";
    let error_type = outcome.error_type;
    let values = (process, outcome.usage, outcome.at.millis(), quota, resume_at, error_type);
    db.run(sql, values).await?;
    approvals::withdraw_if_ended(db, process).await?;
    comments::give_back_unbegun(db, process).await
}
