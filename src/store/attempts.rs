//! Attempts whole, as their owners need them: written at their start, and read back, one or
//! all that need an owner.

use async_trait::async_trait;
use provost_actors::event::{ProcessStatus, Timestamp};
use provost_actors::ids::{AttemptId, ProcessId, SessionId};
use provost_actors::journal::{
    Attempt, AttemptRepo, AttemptStarted, Attempts, FollowUp, Key, Once, Process, State,
};
use provost_actors::refusal::Refusal;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::codec::{Columns, Text};
use super::write_retry::Patience;
use super::{Result, Store, Writing, missing, session_queue, task_status};

/// Attempts as their owners need them, oldest first; `$which` is the condition.
macro_rules! select {
    ($which:literal) => {
        concat!(
            "SELECT a.*, t.title, t.project_id, p.name AS project_name,
                    t.priority, t.kind = 'answer' AS is_answer,
                    s.session_id, s.executor_session_id,
                    (SELECT status FROM processes
                     WHERE attempt_id = a.attempt_id AND run_reason = 'coding_agent'
                       AND ended_at IS NOT NULL
                     ORDER BY turn DESC, process_id DESC LIMIT 1) AS last_status,
                    x.process_id, x.run_reason, x.turn, x.prompt, x.variant, x.status,
                    x.exit_code, x.exit_signal
             FROM attempts a
             JOIN tasks t ON t.task_id = a.task_id
             JOIN projects p ON p.project_id = t.project_id
             JOIN processes x ON x.process_id = (
                 SELECT process_id FROM processes
                 WHERE attempt_id = a.attempt_id AND run_reason <> 'dev_server'
                 ORDER BY turn DESC, process_id DESC LIMIT 1)
             JOIN sessions s ON s.session_id = x.session_id
             WHERE ",
            $which,
            " ORDER BY a.created_at, a.attempt_id"
        )
    };
}

/// An attempt from a row, without what other tables list of it.
fn attempt(row: &SqliteRow) -> sqlx::Result<Attempt> {
    let last: Option<ProcessStatus> = row.maybe_text("last_status")?;
    let epoch: i64 = row.try_get("epoch")?;
    Ok(Attempt {
        attempt_id: row.text("attempt_id")?,
        task_id: row.text("task_id")?,
        task_title: row.try_get("title")?,
        project_id: row.text("project_id")?,
        project_name: row.try_get("project_name")?,
        priority: row.text("priority")?,
        is_answer: row.try_get("is_answer")?,
        branch: row.try_get("branch")?,
        folder: row.try_get("folder")?,
        repos: Vec::new(),
        executor: row.try_get("executor")?,
        parent: row.maybe_text("parent_id")?,
        session_id: row.text("session_id")?,
        phase: row.text("phase")?,
        state: row.text("state")?,
        epoch: epoch.unsigned_abs(),
        ended_as: last.map(|status| match status {
            ProcessStatus::Completed => State::Completed,
            _ => State::Failed,
        }),
        process: process(row)?,
        leftovers: Vec::new(),
        waiting: Vec::new(),
        held: row.try_get("queue_held")?,
    })
}

fn process(row: &SqliteRow) -> sqlx::Result<Process> {
    Ok(Process {
        process_id: row.text("process_id")?,
        run_reason: row.text("run_reason")?,
        turn: row.try_get("turn")?,
        prompt: row.try_get("prompt")?,
        variant: row.try_get("variant")?,
        executor_session_id: row.try_get("executor_session_id")?,
        status: row.text("status")?,
        exit_code: row.try_get("exit_code")?,
        exit_signal: row.try_get("exit_signal")?,
    })
}

/// Adds what other tables list of an attempt.
async fn complete(reading: Writing<'_>, attempt: Attempt) -> Result<Attempt> {
    let mut leftovers = leftovers(reading, &attempt).await?;
    // The turn that is still to be settled is no leftover.
    let current = attempt.phase.is_active().then_some(attempt.process.process_id);
    leftovers.retain(|process| Some(process.process_id) != current);
    Ok(Attempt {
        repos: repos_of(reading, attempt.attempt_id).await?,
        waiting: waiting(reading, attempt.session_id).await?,
        leftovers,
        ..attempt
    })
}

/// Processes that have begun and of which something may be alive, oldest first.
async fn leftovers(reading: Writing<'_>, attempt: &Attempt) -> Result<Vec<Process>> {
    Ok(sqlx::query(
        "SELECT *, ?2 AS executor_session_id FROM processes
         WHERE attempt_id = ?1 AND status <> 'planned' AND closed = 0 ORDER BY turn, process_id",
    )
    .bind(Text(attempt.attempt_id))
    .bind(&attempt.process.executor_session_id)
    .try_map(|row| process(&row))
    .fetch_all(reading)
    .await?)
}

async fn waiting(reading: Writing<'_>, session: SessionId) -> Result<Vec<FollowUp>> {
    let follow_up = |row: SqliteRow| {
        Ok(FollowUp {
            queue_id: row.text("queue_id")?,
            prompt: row.try_get("prompt")?,
            variant: row.try_get("variant")?,
            queued_at: row.at("queued_at")?,
        })
    };
    Ok(sqlx::query("SELECT * FROM follow_ups WHERE session_id = ?1 ORDER BY position")
        .bind(Text(session))
        .try_map(follow_up)
        .fetch_all(reading)
        .await?)
}

/// The repositories of an attempt, in the order of its start.
pub(super) async fn repos_of(reading: Writing<'_>, attempt: AttemptId) -> Result<Vec<AttemptRepo>> {
    let repo = |row: SqliteRow| {
        Ok(AttemptRepo {
            repo_id: row.text("repo_id")?,
            name: row.try_get("name")?,
            path: row.try_get("path")?,
            target_branch: row.try_get("target_branch")?,
            base_commit: row.try_get("base_commit")?,
        })
    };
    Ok(sqlx::query("SELECT * FROM attempt_repos WHERE attempt_id = ?1 ORDER BY position")
        .bind(Text(attempt))
        .try_map(repo)
        .fetch_all(reading)
        .await?)
}

#[async_trait]
impl Attempts for Store {
    /// One transaction: an attempt is on the board with all of its rows, or there is none
    /// and nothing runs.
    async fn record_start(
        &self,
        key: Option<&Key>,
        attempt: &Attempt,
        answer: &AttemptStarted,
    ) -> Result<Once<AttemptStarted>, Refusal> {
        let recorded = self
            .keyed(Patience::Owner, key, "start", async |writing| {
                let now = Timestamp::now().millis();
                // The task may have been deleted since the start was checked.
                if !task_status::by_start(writing, attempt.task_id, now).await? {
                    return Err(missing::task(attempt.task_id).into());
                }
                insert(writing, attempt, now).await?;
                Ok(answer.clone())
            })
            .await?;
        self.changes.announce(attempt.attempt_id);
        Ok(recorded)
    }

    async fn attempt(&self, id: AttemptId) -> Result<Option<Attempt>, Refusal> {
        self.read(async |reading| {
            let found = sqlx::query(select!("a.attempt_id = ?1"))
                .bind(Text(id))
                .try_map(|row| attempt(&row))
                .fetch_optional(&mut *reading)
                .await?;
            match found {
                Some(found) => complete(reading, found).await.map(Some),
                None => Ok(None),
            }
        })
        .await
    }

    async fn unsettled(&self) -> Result<Vec<Attempt>, Refusal> {
        self.read(async |reading| {
            let found = sqlx::query(select!(
                "a.phase IN ('queued', 'preparing', 'running', 'stopping')
                 OR EXISTS (SELECT 1 FROM processes l WHERE l.attempt_id = a.attempt_id
                            AND l.status <> 'planned' AND l.closed = 0)"
            ))
            .try_map(|row| attempt(&row))
            .fetch_all(&mut *reading)
            .await?;
            let mut attempts = Vec::with_capacity(found.len());
            for attempt in found {
                attempts.push(complete(reading, attempt).await?);
            }
            Ok(attempts)
        })
        .await
    }

    async fn resumable(&self) -> Result<Vec<(AttemptId, ProcessId, Timestamp)>, Refusal> {
        self.read(async |reading| {
            Ok(sqlx::query(
                "SELECT x.attempt_id, x.process_id, x.resume_at
                 FROM processes x JOIN attempts a ON a.attempt_id = x.attempt_id
                 WHERE x.quota = 'auto' AND x.resume_at IS NOT NULL AND a.phase = 'settled'
                   AND x.turn = (SELECT max(turn) FROM processes WHERE attempt_id = x.attempt_id)",
            )
            .try_map(|row: SqliteRow| {
                Ok((row.text("attempt_id")?, row.text("process_id")?, row.at("resume_at")?))
            })
            .fetch_all(reading)
            .await?)
        })
        .await
    }
}

async fn insert(writing: Writing<'_>, attempt: &Attempt, now: i64) -> Result<()> {
    // Attempts are listed by their times: a clock that was set back must not make this one
    // older than the last.
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
    .bind(Text(attempt.attempt_id))
    .bind(Text(attempt.task_id))
    .bind(&attempt.branch)
    .bind(&attempt.folder)
    .bind(&attempt.executor)
    .bind(Text(attempt.phase))
    .bind(Text(attempt.state))
    .bind(i64::try_from(attempt.epoch).unwrap_or(i64::MAX))
    .bind(now)
    .bind(attempt.parent.map(Text))
    .execute(&mut *writing)
    .await?;
    for (position, repo) in (0_i64..).zip(&attempt.repos) {
        sqlx::query(
            "INSERT INTO attempt_repos (attempt_id, position, repo_id, name, path, target_branch,
                                        base_commit)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )
        .bind(Text(attempt.attempt_id))
        .bind(position)
        .bind(Text(repo.repo_id))
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
    .bind(Text(attempt.session_id))
    .bind(Text(attempt.attempt_id))
    .bind(&attempt.executor)
    .bind(now)
    .execute(&mut *writing)
    .await?;
    let Attempt { session_id, attempt_id, process, .. } = attempt;
    session_queue::insert_process(writing, *session_id, *attempt_id, process, now).await
}
