//! Attempts as they are told: listed, or one in full.

use std::collections::HashMap;

use provost_actors::event::{Timestamp, Usage};
use provost_actors::ids::{AttemptId, ProcessId, ProjectId, RepoId, SessionId, TaskId};
use provost_actors::journal::{AttemptRepo, Phase, State, TaskStatus};
use provost_actors::limits::Applied;
use provost_actors::refusal::Refusal;
use sqlx::FromRow;

use super::changes::{Changes, Watch};
use super::{Page, Store, Writing, codec, fault, missing, rows_for};

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
    /// Why it waits for the disk, if it does.
    pub waits_for_disk: Option<String>,
    /// How many permissions its executor waits for.
    pub pending_approvals: u32,
    /// A limit ended its last turn, and nothing has begun since.
    pub limited: Option<Limited>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub latest_session_id: Option<SessionId>,
    pub latest_session_executor: Option<String>,
}

/// A limit that ended a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    /// When it is over, if the executor told.
    pub resume_at: Option<Timestamp>,
    /// The attempt goes on by itself then.
    pub resumes: bool,
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
    /// What all its turns that have ended used.
    pub usage: Option<Usage>,
    /// How the limits of that process are held.
    pub limits: Vec<Applied>,
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
    pending_approvals: u32,
    quota: Option<String>,
    resume_at: Option<i64>,
    created_at: i64,
    updated_at: i64,
    session_id: Option<String>,
    session_executor: Option<String>,
}

impl OverviewRow {
    fn overview(self, changes: &Changes) -> Result<AttemptOverview, Refusal> {
        let attempt_id = codec::id(&self.attempt_id)?;
        Ok(AttemptOverview {
            attempt_id,
            waits_for_disk: changes.waits_for_disk(attempt_id),
            pending_approvals: self.pending_approvals,
            limited: self.quota.map(|quota| Limited {
                resume_at: self.resume_at.map(Timestamp::from_millis),
                resumes: quota == "auto",
            }),
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

/// The rows of [`StatusRow`] for a condition. The usage of a process is that of its turn
/// alone, so theirs can be added up.
macro_rules! statuses {
    ($condition:literal) => {
        concat!(
            "SELECT *, (
                 SELECT json_object('input_tokens', sum(p.usage ->> 'input_tokens'),
                                    'output_tokens', sum(p.usage ->> 'output_tokens'),
                                    'cost_usd', sum(p.usage ->> 'cost_usd'))
                 FROM processes p
                 WHERE p.attempt_id = o.attempt_id AND p.usage IS NOT NULL) AS spent
             FROM attempt_overview o ",
            $condition
        )
    };
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
    spent: Option<String>,
    limits: Option<String>,
    queued_follow_ups: u32,
    queue_held: bool,
    revision: i64,
    settled_revision: i64,
}

impl StatusRow {
    fn status(self, changes: &Changes) -> Result<AttemptStatus, Refusal> {
        let overview = self.overview.overview(changes)?;
        Ok(AttemptStatus {
            latest_execution_process_id: codec::optional_id(self.process_id.as_deref())?,
            exit_code: self.exit_code,
            exit_signal: self.exit_signal,
            // It is the newest process's, which has not run where the attempt is idle.
            failure_summary: self.failure_summary.filter(|_| has_ended(overview.state)),
            final_message: self.final_message,
            queued_follow_ups: self.queued_follow_ups,
            queue_held: self.queue_held,
            revision: self.revision,
            settled_revision: self.settled_revision,
            usage: self.spent.and_then(|spent| serde_json::from_str(&spent).ok()),
            limits: self.limits.and_then(|it| serde_json::from_str(&it).ok()).unwrap_or_default(),
            overview,
        })
    }
}

fn has_ended(state: State) -> bool {
    matches!(state, State::Failed | State::Completed)
}

#[derive(FromRow)]
struct RepoRow {
    repo_id: String,
    name: String,
    path: String,
    target_branch: String,
    base_commit: String,
}

pub(super) async fn repos_of(
    reading: Writing<'_>,
    attempt: &str,
) -> Result<Vec<AttemptRepo>, Refusal> {
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

impl Store {
    /// A task's attempts, newest first. Those of a deleted task stay readable.
    pub async fn attempts(&self, filter: &AttemptFilter) -> Result<Page<AttemptOverview>, Refusal> {
        let known: Option<i64> = sqlx::query_scalar("SELECT 1 FROM tasks WHERE task_id = ?1")
            .bind(filter.task.to_string())
            .fetch_optional(&self.reader)
            .await
            .map_err(fault)?;
        if known.is_none() {
            return Err(missing::task(filter.task));
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
        let items =
            rows.into_iter().map(|row| row.overview(&self.changes)).collect::<Result<_, _>>()?;
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
        rows.into_iter().map(|row| row.overview(&self.changes)).collect()
    }

    /// How many attempts there are, of all projects.
    pub async fn count_attempts(&self) -> Result<i64, Refusal> {
        sqlx::query_scalar("SELECT count(*) FROM attempts")
            .fetch_one(&self.reader)
            .await
            .map_err(fault)
    }

    /// The newest attempts of all projects, with their tasks' titles.
    pub async fn newest_attempts(&self, most: usize) -> Result<Vec<(AttemptId, String)>, Refusal> {
        let rows: Vec<(String, String)> = sqlx::query_as(
            "SELECT a.attempt_id, t.title FROM attempts a JOIN tasks t ON t.task_id = a.task_id
             ORDER BY a.created_at DESC, a.attempt_id ASC LIMIT ?1",
        )
        .bind(i64::try_from(most).unwrap_or(i64::MAX))
        .fetch_all(&self.reader)
        .await
        .map_err(fault)?;
        rows.into_iter().map(|(id, title)| Ok((codec::id(&id)?, title))).collect()
    }

    /// How an attempt stands.
    pub async fn status(&self, attempt: AttemptId) -> Result<AttemptStatus, Refusal> {
        let row: StatusRow = sqlx::query_as(statuses!("WHERE attempt_id = ?1"))
            .bind(attempt.to_string())
            .fetch_optional(&self.reader)
            .await
            .map_err(fault)?
            .ok_or_else(|| missing::attempt(attempt))?;
        row.status(&self.changes)
    }

    /// How each of these attempts stands, in the order asked, all of one moment.
    pub async fn statuses(&self, attempts: &[AttemptId]) -> Result<Vec<AttemptStatus>, Refusal> {
        let ids: serde_json::Value = attempts.iter().map(ToString::to_string).collect();
        let rows: Vec<StatusRow> =
            sqlx::query_as(statuses!("WHERE attempt_id IN (SELECT value FROM json_each(?1))"))
                .bind(ids.to_string())
                .fetch_all(&self.reader)
                .await
                .map_err(fault)?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in rows {
            let status = row.status(&self.changes)?;
            found.insert(status.overview.attempt_id, status);
        }
        let each = attempts.iter();
        each.map(|id| found.get(id).cloned().ok_or_else(|| missing::attempt(*id))).collect()
    }

    /// Those that go on by themselves: after which process, and when.
    pub(super) async fn load_resumable(
        &self,
    ) -> Result<Vec<(AttemptId, ProcessId, Timestamp)>, Refusal> {
        let rows: Vec<(String, String, i64)> = sqlx::query_as(
            "SELECT x.attempt_id, x.process_id, x.resume_at
             FROM processes x JOIN attempts a ON a.attempt_id = x.attempt_id
             WHERE x.quota = 'auto' AND x.resume_at IS NOT NULL AND a.phase = 'settled'
               AND x.turn = (SELECT max(turn) FROM processes WHERE attempt_id = x.attempt_id)",
        )
        .fetch_all(&self.reader)
        .await
        .map_err(fault)?;
        let read = |(attempt, process, at): (String, String, i64)| {
            Ok((codec::id(&attempt)?, codec::id(&process)?, Timestamp::from_millis(at)))
        };
        rows.into_iter().map(read).collect()
    }

    /// The number of the latest change of any attempt.
    pub async fn newest_revision(&self) -> Result<i64, Refusal> {
        sqlx::query_scalar("SELECT coalesce(max(revision), 0) FROM attempts")
            .fetch_one(&self.reader)
            .await
            .map_err(fault)
    }

    /// A place among those who are woken when one of these attempts changes.
    pub fn watch(&self, attempts: &[AttemptId]) -> Watch {
        self.changes.watch(attempts)
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

    /// The folder of each of these attempts and the names of its repositories: a row
    /// for each repository.
    pub async fn worktree_folders(
        &self,
        attempts: &[AttemptId],
    ) -> Result<Vec<(AttemptId, String, String)>, Refusal> {
        let ids: serde_json::Value = attempts.iter().map(ToString::to_string).collect();
        let rows: Vec<(String, String, String)> = sqlx::query_as(
            "SELECT a.attempt_id, a.folder, r.name
             FROM json_each(?1) e JOIN attempts a ON a.attempt_id = e.value
             JOIN attempt_repos r ON r.attempt_id = a.attempt_id",
        )
        .bind(ids.to_string())
        .fetch_all(&self.reader)
        .await
        .map_err(fault)?;
        let read =
            |(id, folder, repo): (String, String, String)| Ok((codec::id(&id)?, folder, repo));
        rows.into_iter().map(read).collect()
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
        let (task_id, branch, folder) = row.ok_or_else(|| missing::attempt(attempt))?;
        let repos = repos_of(&mut reading, &attempt.to_string()).await?;
        Ok(WorkspaceView { task_id: codec::id(&task_id)?, branch, folder, repos })
    }
}
