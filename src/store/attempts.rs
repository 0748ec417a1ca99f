//! Attempts as they are read: listed, told in full, and brought back after a restart.

use provost_actors::event::{Timestamp, Usage};
use provost_actors::ids::{AttemptId, ProcessId, ProjectId, RepoId, SessionId, TaskId};
use provost_actors::journal::{Attempt, AttemptRepo, Phase, Process, State, TaskStatus};
use provost_actors::refusal::{Code, Refusal};
use sqlx::FromRow;

use super::{Page, Store, Writing, codec, fault, rows_for, tasks};

/// Which attempts of a task to list.
#[derive(Clone, Debug)]
pub struct AttemptFilter {
    pub task: TaskId,
    pub limit: usize,
    /// List those that come after this one: newest first, ties by id ascending.
    pub after: Option<(Timestamp, AttemptId)>,
}

/// An attempt in one line, with what it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptOverview {
    pub attempt_id: AttemptId,
    pub task_id: TaskId,
    pub task_title: String,
    pub project_id: ProjectId,
    pub project_name: String,
    pub workspace_branch: String,
    pub executor: String,
    pub variant: Option<String>,
    pub state: State,
    pub phase: Phase,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub latest_session_id: Option<SessionId>,
    pub latest_session_executor: Option<String>,
}

/// All that the store knows of how an attempt stands.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptStatus {
    pub overview: AttemptOverview,
    /// The newest process that is more than planned, or is about to be.
    pub latest_execution_process_id: Option<ProcessId>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    pub failure_summary: Option<String>,
    pub final_message: Option<String>,
    pub usage: Option<Usage>,
    pub queued_follow_ups: u32,
    /// A stop holds the queue.
    pub queue_held: bool,
    /// Number of its latest change, in one count over all attempts.
    pub revision: i64,
    /// Number of the change by which it last settled; 0 if it never has.
    pub settled_revision: i64,
}

/// Where a worker is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextView {
    pub project_id: ProjectId,
    pub project_name: String,
    pub task_id: TaskId,
    pub task_title: String,
    pub task_status: TaskStatus,
    pub attempt_id: AttemptId,
    pub workspace_branch: String,
    pub repos: Vec<(RepoId, String, String)>,
}

/// Where an attempt's work lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceView {
    pub task_id: TaskId,
    pub branch: String,
    /// The name of its folder under `worktrees/`.
    pub folder: String,
    pub repos: Vec<AttemptRepo>,
}

#[derive(FromRow)]
struct OverviewRow {
    attempt_id: String,
    task_id: String,
    title: String,
    project_id: String,
    project_name: String,
    branch: String,
    executor: String,
    variant: Option<String>,
    state: String,
    phase: String,
    created_at: i64,
    updated_at: i64,
    session_id: Option<String>,
    session_executor: Option<String>,
}

impl OverviewRow {
    fn overview(self) -> Result<AttemptOverview, Refusal> {
        Ok(AttemptOverview {
            attempt_id: codec::id(&self.attempt_id)?,
            task_id: codec::id(&self.task_id)?,
            task_title: self.title,
            project_id: codec::id(&self.project_id)?,
            project_name: self.project_name,
            workspace_branch: self.branch,
            executor: self.executor,
            variant: self.variant,
            state: codec::enumerated(self.state)?,
            phase: codec::enumerated(self.phase)?,
            created_at: Timestamp::from_millis(self.created_at),
            updated_at: Timestamp::from_millis(self.updated_at),
            latest_session_id: codec::optional_id(self.session_id.as_deref())?,
            latest_session_executor: self.session_executor,
        })
    }
}

#[derive(FromRow)]
struct StatusRow {
    #[sqlx(flatten)]
    overview: OverviewRow,
    process_id: Option<String>,
    exit_code: Option<i32>,
    exit_signal: Option<i32>,
    failure_summary: Option<String>,
    final_message: Option<String>,
    usage: Option<String>,
    queued_follow_ups: u32,
    queue_held: bool,
    revision: i64,
    settled_revision: i64,
}

#[derive(FromRow)]
struct RepoRow {
    repo_id: String,
    name: String,
    path: String,
    target_branch: String,
    base_commit: String,
}

#[derive(FromRow)]
struct AttemptRow {
    attempt_id: String,
    task_id: String,
    title: String,
    project_id: String,
    project_name: String,
    priority: String,
    branch: String,
    folder: String,
    executor: String,
    phase: String,
    state: String,
    epoch: i64,
    session_id: String,
    executor_session_id: Option<String>,
    process_id: String,
    run_reason: String,
    turn: u32,
    prompt: String,
    variant: Option<String>,
    status: String,
    exit_code: Option<i32>,
    exit_signal: Option<i32>,
}

impl AttemptRow {
    fn attempt(self, repos: Vec<AttemptRepo>) -> Result<Attempt, Refusal> {
        Ok(Attempt {
            attempt_id: codec::id(&self.attempt_id)?,
            task_id: codec::id(&self.task_id)?,
            task_title: self.title,
            project_id: codec::id(&self.project_id)?,
            project_name: self.project_name,
            priority: codec::enumerated(self.priority)?,
            branch: self.branch,
            folder: self.folder,
            repos,
            executor: self.executor,
            session_id: codec::id(&self.session_id)?,
            phase: codec::enumerated(self.phase)?,
            state: codec::enumerated(self.state)?,
            epoch: u64::try_from(self.epoch).unwrap_or_default(),
            process: Process {
                process_id: codec::id(&self.process_id)?,
                run_reason: codec::enumerated(self.run_reason)?,
                turn: self.turn,
                prompt: self.prompt,
                variant: self.variant,
                executor_session_id: self.executor_session_id,
                status: codec::enumerated(self.status)?,
                exit_code: self.exit_code,
                exit_signal: self.exit_signal,
            },
        })
    }
}

pub(super) fn attempt_not_found(attempt: AttemptId) -> Refusal {
    Refusal::new(Code::AttemptNotFound, format!("there is no attempt {attempt}"))
        .detail("attempt_id", attempt.to_string())
}

async fn repos_of(reading: Writing<'_>, attempt: &str) -> Result<Vec<AttemptRepo>, Refusal> {
    let rows: Vec<RepoRow> = sqlx::query_as(
        "SELECT repo_id, name, path, target_branch, base_commit FROM attempt_repos
         WHERE attempt_id = ?1 ORDER BY position",
    )
    .bind(attempt)
    .fetch_all(reading)
    .await
    .map_err(fault)?;
    rows.into_iter()
        .map(|row| {
            Ok(AttemptRepo {
                repo_id: codec::id(&row.repo_id)?,
                name: row.name,
                path: row.path,
                target_branch: row.target_branch,
                base_commit: row.base_commit,
            })
        })
        .collect()
}

/// Attempts whole: one by id, or all that need an owner, oldest first.
async fn load(reading: Writing<'_>, attempt: Option<AttemptId>) -> Result<Vec<Attempt>, Refusal> {
    let rows: Vec<AttemptRow> = sqlx::query_as(
        "SELECT a.attempt_id, a.task_id, t.title, t.project_id, p.name AS project_name, t.priority,
                a.branch, a.folder, a.executor, a.phase, a.state, a.epoch,
                s.session_id, s.executor_session_id,
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
         WHERE CASE WHEN ?1 IS NULL
               THEN a.phase IN ('queued', 'preparing', 'running', 'stopping')
                    OR (x.status <> 'planned' AND x.closed = 0)
               ELSE a.attempt_id = ?1 END
         ORDER BY a.created_at, a.attempt_id",
    )
    .bind(attempt.map(|id| id.to_string()))
    .fetch_all(&mut *reading)
    .await
    .map_err(fault)?;
    let mut attempts = Vec::with_capacity(rows.len());
    for row in rows {
        let repos = repos_of(reading, &row.attempt_id).await?;
        attempts.push(row.attempt(repos)?);
    }
    Ok(attempts)
}

impl Store {
    /// A task's attempts, newest first. Those of a deleted task stay readable.
    pub async fn attempts(&self, filter: &AttemptFilter) -> Result<Page<AttemptOverview>, Refusal> {
        let known: Option<i64> = sqlx::query_scalar("SELECT 1 FROM tasks WHERE task_id = ?1")
            .bind(filter.task.to_string())
            .fetch_optional(&self.reader)
            .await
            .map_err(fault)?;
        if known.is_none() {
            return Err(tasks::task_not_found(filter.task));
        }
        let (created_at, id) = filter
            .after
            .map_or((None, String::new()), |(at, id)| (Some(at.millis()), id.to_string()));
        let rows: Vec<OverviewRow> = sqlx::query_as(
            "SELECT * FROM attempt_overview WHERE task_id = ?1
               AND (?2 IS NULL OR created_at < ?2 OR (created_at = ?2 AND attempt_id > ?3))
             ORDER BY created_at DESC, attempt_id ASC LIMIT ?4",
        )
        .bind(filter.task.to_string())
        .bind(created_at)
        .bind(id)
        .bind(rows_for(filter.limit))
        .fetch_all(&self.reader)
        .await
        .map_err(fault)?;
        let items = rows.into_iter().map(OverviewRow::overview).collect::<Result<_, _>>()?;
        Ok(Page::cut(items, filter.limit))
    }

    /// The attempts of all projects, newest first; without `all`, those that are
    /// queued or active and the newest 20.
    pub async fn overview(&self, all: bool) -> Result<Vec<AttemptOverview>, Refusal> {
        let rows: Vec<OverviewRow> = sqlx::query_as(
            "SELECT * FROM attempt_overview
             WHERE ?1 OR phase IN ('queued', 'preparing', 'running', 'stopping')
                OR attempt_id IN (SELECT attempt_id FROM attempts
                                  ORDER BY created_at DESC, attempt_id ASC LIMIT 20)
             ORDER BY created_at DESC, attempt_id ASC",
        )
        .bind(all)
        .fetch_all(&self.reader)
        .await
        .map_err(fault)?;
        rows.into_iter().map(OverviewRow::overview).collect()
    }

    /// How an attempt stands.
    pub async fn status(&self, attempt: AttemptId) -> Result<AttemptStatus, Refusal> {
        let row: StatusRow = sqlx::query_as("SELECT * FROM attempt_overview WHERE attempt_id = ?1")
            .bind(attempt.to_string())
            .fetch_optional(&self.reader)
            .await
            .map_err(fault)?
            .ok_or_else(|| attempt_not_found(attempt))?;
        let overview = row.overview.overview()?;
        Ok(AttemptStatus {
            latest_execution_process_id: codec::optional_id(row.process_id.as_deref())?,
            exit_code: row.exit_code,
            exit_signal: row.exit_signal,
            failure_summary: row.failure_summary.filter(|_| overview.state == State::Failed),
            final_message: row.final_message,
            queued_follow_ups: row.queued_follow_ups,
            queue_held: row.queue_held,
            revision: row.revision,
            settled_revision: row.settled_revision,
            usage: row.usage.and_then(|usage| serde_json::from_str(&usage).ok()),
            overview,
        })
    }

    /// The attempt whose worktrees lie in this folder.
    pub async fn attempt_in(&self, folder: &str) -> Result<Option<AttemptId>, Refusal> {
        let id: Option<String> =
            sqlx::query_scalar("SELECT attempt_id FROM attempts WHERE folder = ?1")
                .bind(folder)
                .fetch_optional(&self.reader)
                .await
                .map_err(fault)?;
        codec::optional_id(id.as_deref())
    }

    /// Where a worker of this attempt is.
    pub async fn context(&self, attempt: AttemptId) -> Result<ContextView, Refusal> {
        let overview = self.status(attempt).await?.overview;
        let status: String = sqlx::query_scalar("SELECT status FROM tasks WHERE task_id = ?1")
            .bind(overview.task_id.to_string())
            .fetch_one(&self.reader)
            .await
            .map_err(fault)?;
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        let repos = repos_of(&mut reading, &attempt.to_string()).await?;
        Ok(ContextView {
            project_id: overview.project_id,
            project_name: overview.project_name,
            task_id: overview.task_id,
            task_title: overview.task_title,
            task_status: codec::enumerated(status)?,
            attempt_id: attempt,
            workspace_branch: overview.workspace_branch,
            repos: repos.into_iter().map(|r| (r.repo_id, r.name, r.target_branch)).collect(),
        })
    }

    /// Where the work of this attempt lies.
    pub async fn workspace(&self, attempt: AttemptId) -> Result<WorkspaceView, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        let row: Option<(String, String, String)> =
            sqlx::query_as("SELECT task_id, branch, folder FROM attempts WHERE attempt_id = ?1")
                .bind(attempt.to_string())
                .fetch_optional(&mut *reading)
                .await
                .map_err(fault)?;
        let (task_id, branch, folder) = row.ok_or_else(|| attempt_not_found(attempt))?;
        let repos = repos_of(&mut reading, &attempt.to_string()).await?;
        Ok(WorkspaceView { task_id: codec::id(&task_id)?, branch, folder, repos })
    }

    pub(super) async fn load_attempt(
        &self,
        attempt: AttemptId,
    ) -> Result<Option<Attempt>, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        Ok(load(&mut reading, Some(attempt)).await?.pop())
    }

    pub(super) async fn load_unsettled(&self) -> Result<Vec<Attempt>, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        load(&mut reading, None).await
    }
}
