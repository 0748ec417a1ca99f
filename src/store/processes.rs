//! Attempts as they are written: the start of one, and each change to its row
//! and its newest process's, conditional on the epoch.

use provost_actors::event::{ProcessStatus, Timestamp};
use provost_actors::ids::{AttemptId, ProcessId};
use provost_actors::journal::{
    Answer, Attempt, AttemptStarted, Change, Key, Outcome, Phase, State,
};
use provost_actors::refusal::Refusal;

use super::{Store, Writing, approvals, begun, codec, commit, fault, missing, requests, turns};

impl Store {
    /// Which of these processes no row tells of.
    pub async fn unknown_processes(&self, ids: &[String]) -> Result<Vec<String>, sqlx::Error> {
        sqlx::query_scalar(
            "SELECT value FROM json_each(?1)
             WHERE value NOT IN (SELECT process_id FROM processes)",
        )
        .bind(serde_json::Value::from(ids).to_string())
        .fetch_all(&self.reader)
        .await
    }

    pub(super) async fn insert_attempt(
        &self,
        key: Option<&Key>,
        attempt: &Attempt,
        answer: &AttemptStarted,
    ) -> Result<Answer<AttemptStarted>, Refusal> {
        let mut writing = self.writing_patiently().await?;
        if let Some(answer) = requests::kept(&mut writing, key).await? {
            return Ok(answer);
        }
        let now = Timestamp::now().millis();
        // The task may have been deleted since the start was checked.
        let task = attempt.task_id.to_string();
        if !begun::by_start(&mut writing, &task, now).await.map_err(fault)? {
            return Err(missing::task(attempt.task_id));
        }
        insert_rows(&mut writing, attempt, now).await.map_err(fault)?;
        let answer = requests::keep(&mut writing, key, answer.clone()).await?;
        commit(writing, "start").await?;
        self.changes.announce(attempt.attempt_id);
        Ok(answer)
    }

    pub(super) async fn change_attempt(
        &self,
        attempt: AttemptId,
        epoch: u64,
        process: ProcessId,
        change: &Change,
    ) -> Result<(), Refusal> {
        let mut writing = self.writing_briefly().await?;
        let (phase, state) = standing(change);
        let now = Timestamp::now().millis();
        let holds = matches!(change, Change::Held | Change::Unqueued { .. });
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
        .bind(attempt.to_string())
        .bind(i64::try_from(epoch).unwrap_or(i64::MAX))
        .bind(phase.as_ref().map(codec::word))
        .bind(state.as_ref().map(codec::word))
        .bind(now)
        .bind(settles(change))
        .bind(holds)
        .execute(&mut *writing)
        .await
        .map_err(fault)?;
        if changed.rows_affected() == 0 {
            return Err(turns::stale(attempt, epoch));
        }
        change_process(&mut writing, process, change).await.map_err(fault)?;
        if let Change::Unqueued { returned: Some(follow_up), .. } = change {
            turns::put_back(&mut writing, attempt, follow_up).await.map_err(fault)?;
        }
        if let Change::Settled(_, turnover) = change
            && turnover.begun.is_some()
        {
            turns::turn_over(&mut writing, attempt, epoch, turnover).await?;
        }
        if settles(change) {
            begun::settled(&mut writing, &attempt.to_string(), now).await.map_err(fault)?;
        }
        commit(writing, name(change)).await?;
        self.changes.announce(attempt);
        Ok(())
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
fn standing(change: &Change) -> (Option<Phase>, Option<State>) {
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

async fn insert_rows(writing: Writing<'_>, attempt: &Attempt, now: i64) -> Result<(), sqlx::Error> {
    let attempt_id = attempt.attempt_id.to_string();
    // Attempts are listed by their times: a clock that was set back must not make
    // this one older than the last.
    let last: Option<i64> =
        sqlx::query_scalar("SELECT created_at FROM attempts ORDER BY attempt_id DESC LIMIT 1")
            .fetch_optional(&mut *writing)
            .await?;
    let now = last.map_or(now, |last| now.max(last + 1));
    sqlx::query(
        "INSERT INTO attempts (attempt_id, task_id, branch, folder, executor, phase, state, epoch,
                               created_at, updated_at, parent_id, revision)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10,
                 (SELECT coalesce(max(revision), 0) + 1 FROM attempts))",
    )
    .bind(&attempt_id)
    .bind(attempt.task_id.to_string())
    .bind(&attempt.branch)
    .bind(&attempt.folder)
    .bind(&attempt.executor)
    .bind(codec::word(&attempt.phase))
    .bind(codec::word(&attempt.state))
    .bind(i64::try_from(attempt.epoch).unwrap_or(i64::MAX))
    .bind(now)
    .bind(attempt.parent.map(|parent| parent.to_string()))
    .execute(&mut *writing)
    .await?;
    for (position, repo) in (0_i64..).zip(&attempt.repos) {
        sqlx::query(
            "INSERT INTO attempt_repos (attempt_id, position, repo_id, name, path, target_branch,
                                        base_commit)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )
        .bind(&attempt_id)
        .bind(position)
        .bind(repo.repo_id.to_string())
        .bind(&repo.name)
        .bind(&repo.path)
        .bind(&repo.target_branch)
        .bind(&repo.base_commit)
        .execute(&mut *writing)
        .await?;
    }
    sqlx::query(
        "INSERT INTO sessions (session_id, attempt_id, executor, created_at)
         VALUES (?1, ?2, ?3, ?4)",
    )
    .bind(attempt.session_id.to_string())
    .bind(&attempt_id)
    .bind(&attempt.executor)
    .bind(now)
    .execute(&mut *writing)
    .await?;
    let session = attempt.session_id.to_string();
    turns::insert(writing, &session, attempt.attempt_id, &attempt.process, now).await
}

async fn change_process(
    writing: Writing<'_>,
    process: ProcessId,
    change: &Change,
) -> Result<(), sqlx::Error> {
    let process = process.to_string();
    match change {
        Change::Unqueued { .. } | Change::Held => {
            sqlx::query(
                "UPDATE processes SET quota = 'ask'
                 WHERE quota = 'auto' AND attempt_id =
                     (SELECT attempt_id FROM processes WHERE process_id = ?1)",
            )
            .bind(process)
            .execute(writing)
            .await?;
        }
        Change::Preparing | Change::Stopping => {}
        Change::Running { pid, start_time, boot_id, limits } => {
            sqlx::query(
                "UPDATE processes SET status = 'running', pid = ?2, start_time = ?3, boot_id = ?4,
                        limits = ?5
                 WHERE process_id = ?1",
            )
            .bind(process)
            .bind(pid)
            .bind(i64::try_from(*start_time).unwrap_or(i64::MAX))
            .bind(boot_id)
            .bind(serde_json::to_string(limits).ok())
            .execute(writing)
            .await?;
        }
        Change::ExecutorSession(id) => {
            sqlx::query(
                "UPDATE sessions SET executor_session_id = ?2
                 WHERE session_id = (SELECT session_id FROM processes WHERE process_id = ?1)",
            )
            .bind(process)
            .bind(id)
            .execute(writing)
            .await?;
        }
        Change::Closed => {
            sqlx::query("UPDATE processes SET closed = 1 WHERE process_id = ?1")
                .bind(process)
                .execute(writing)
                .await?;
        }
        Change::Settled(outcome, _) => {
            sqlx::query(
                "UPDATE processes SET status = ?2, exit_code = ?3, exit_signal = ?4,
                        failure_summary = ?5, final_message = ?6, usage = ?7, ended_at = ?8,
                        quota = ?9, resume_at = ?10
                 WHERE process_id = ?1",
            )
            .bind(&process)
            .bind(codec::word(&outcome.status))
            .bind(outcome.exit_code)
            .bind(outcome.exit_signal)
            .bind(&outcome.failure_summary)
            .bind(&outcome.final_message)
            .bind(outcome.usage.and_then(|usage| serde_json::to_string(&usage).ok()))
            .bind(outcome.at.millis())
            .bind(outcome.quota.map(|quota| if quota.resumes { "auto" } else { "ask" }))
            .bind(outcome.quota.and_then(|quota| quota.resume_at).map(Timestamp::millis))
            .execute(&mut *writing)
            .await?;
            approvals::withdraw_all(writing, &process).await?;
        }
    }
    Ok(())
}
