//! Attempts whole, as their owners need them: one, or all that need an owner.

use provost_actors::event::{ProcessStatus, Timestamp};
use provost_actors::ids::AttemptId;
use provost_actors::journal::{Attempt, FollowUp, Phase, Process, State};
use provost_actors::refusal::Refusal;
use sqlx::FromRow;

use super::attempts::repos_of;
use super::{Store, Writing, codec, fault};

#[derive(FromRow)]
struct AttemptRow {
    attempt_id: String,
    task_id: String,
    title: String,
    project_id: String,
    project_name: String,
    priority: String,
    is_answer: bool,
    branch: String,
    folder: String,
    executor: String,
    parent_id: Option<String>,
    phase: String,
    state: String,
    epoch: i64,
    queue_held: bool,
    session_id: String,
    executor_session_id: Option<String>,
    last_status: Option<String>,
    #[sqlx(flatten)]
    process: ProcessRow,
}

#[derive(FromRow)]
struct ProcessRow {
    process_id: String,
    run_reason: String,
    turn: u32,
    prompt: String,
    variant: Option<String>,
    status: String,
    exit_code: Option<i32>,
    exit_signal: Option<i32>,
}

#[derive(FromRow)]
struct FollowUpRow {
    queue_id: String,
    prompt: String,
    variant: Option<String>,
    queued_at: i64,
}

impl ProcessRow {
    fn process(self, executor_session_id: Option<String>) -> Result<Process, Refusal> {
        Ok(Process {
            process_id: codec::id(&self.process_id)?,
            run_reason: codec::enumerated(self.run_reason)?,
            turn: self.turn,
            prompt: self.prompt,
            variant: self.variant,
            executor_session_id,
            status: codec::enumerated(self.status)?,
            exit_code: self.exit_code,
            exit_signal: self.exit_signal,
        })
    }
}

impl FollowUpRow {
    fn follow_up(self) -> Result<FollowUp, Refusal> {
        Ok(FollowUp {
            queue_id: codec::id(&self.queue_id)?,
            prompt: self.prompt,
            variant: self.variant,
            queued_at: Timestamp::from_millis(self.queued_at),
        })
    }
}

async fn whole(reading: Writing<'_>, row: AttemptRow) -> Result<Attempt, Refusal> {
    let repos = repos_of(reading, &row.attempt_id).await?;
    let phase: Phase = codec::enumerated(row.phase)?;
    let leftovers = leftovers(reading, &row.attempt_id).await?;
    // The turn that is still to be settled is no leftover.
    let is_current = |id: &str| phase.is_active() && id == row.process.process_id;
    let leftovers = leftovers.into_iter().filter(|process| !is_current(&process.process_id));
    let leftovers = leftovers
        .map(|process| process.process(row.executor_session_id.clone()))
        .collect::<Result<_, _>>()?;
    let last: Option<ProcessStatus> = row.last_status.map(codec::enumerated).transpose()?;
    Ok(Attempt {
        attempt_id: codec::id(&row.attempt_id)?,
        task_id: codec::id(&row.task_id)?,
        task_title: row.title,
        project_id: codec::id(&row.project_id)?,
        project_name: row.project_name,
        priority: codec::enumerated(row.priority)?,
        is_answer: row.is_answer,
        branch: row.branch,
        folder: row.folder,
        repos,
        executor: row.executor,
        parent: codec::optional_id(row.parent_id.as_deref())?,
        waiting: waiting(reading, &row.session_id).await?,
        session_id: codec::id(&row.session_id)?,
        phase,
        state: codec::enumerated(row.state)?,
        epoch: u64::try_from(row.epoch).unwrap_or_default(),
        ended_as: last.map(|status| match status {
            ProcessStatus::Completed => State::Completed,
            _ => State::Failed,
        }),
        process: row.process.process(row.executor_session_id)?,
        leftovers,
        held: row.queue_held,
    })
}

/// Processes that have begun and of which something may be alive, oldest first.
async fn leftovers(reading: Writing<'_>, attempt: &str) -> Result<Vec<ProcessRow>, Refusal> {
    sqlx::query_as(
        "SELECT process_id, run_reason, turn, prompt, variant, status, exit_code, exit_signal
         FROM processes WHERE attempt_id = ?1 AND status <> 'planned' AND closed = 0
         ORDER BY turn, process_id",
    )
    .bind(attempt)
    .fetch_all(reading)
    .await
    .map_err(fault)
}

async fn waiting(reading: Writing<'_>, session: &str) -> Result<Vec<FollowUp>, Refusal> {
    let rows: Vec<FollowUpRow> = sqlx::query_as(
        "SELECT queue_id, prompt, variant, queued_at FROM follow_ups
         WHERE session_id = ?1 ORDER BY position",
    )
    .bind(session)
    .fetch_all(reading)
    .await
    .map_err(fault)?;
    rows.into_iter().map(FollowUpRow::follow_up).collect()
}

/// Attempts as their owners need them, oldest first; `$which` tells which.
macro_rules! select {
    ($which:literal) => {
        concat!(
            "SELECT a.attempt_id, a.task_id, t.title, t.project_id, p.name AS project_name,
                    t.priority, t.kind = 'answer' AS is_answer, a.branch, a.folder, a.executor,
                    a.parent_id, a.phase, a.state, a.epoch,
                    a.queue_held, s.session_id, s.executor_session_id,
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

impl Store {
    pub(super) async fn load_attempt(
        &self,
        attempt: AttemptId,
    ) -> Result<Option<Attempt>, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        let row: Option<AttemptRow> = sqlx::query_as(select!("a.attempt_id = ?1"))
            .bind(attempt.to_string())
            .fetch_optional(&mut *reading)
            .await
            .map_err(fault)?;
        match row {
            Some(row) => whole(&mut reading, row).await.map(Some),
            None => Ok(None),
        }
    }

    pub(super) async fn load_unsettled(&self) -> Result<Vec<Attempt>, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        let rows: Vec<AttemptRow> = sqlx::query_as(select!(
            "a.phase IN ('queued', 'preparing', 'running', 'stopping')
             OR EXISTS (SELECT 1 FROM processes l WHERE l.attempt_id = a.attempt_id
                        AND l.status <> 'planned' AND l.closed = 0)"
        ))
        .fetch_all(&mut *reading)
        .await
        .map_err(fault)?;
        let mut attempts = Vec::with_capacity(rows.len());
        for row in rows {
            attempts.push(whole(&mut reading, row).await?);
        }
        Ok(attempts)
    }
}
