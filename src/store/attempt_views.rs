//! Attempts as the tools show them: listed, or one in full.

use std::collections::HashMap;

use provost_actors::event::{Timestamp, Usage};
use provost_actors::ids::{AttemptId, ProcessId, ProjectId, RepoId, SessionId, TaskId};
use provost_actors::journal::{AttemptRepo, Phase, State, TaskStatus};
use provost_actors::limits::Applied;
use provost_actors::refusal::Refusal;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::attempts::repos_of;
use super::changes::{Changes, Watch};
use super::codec::{Columns, Text};
use super::{Page, Result, Store, missing, rows_for};

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
    /// When it is over, if the executor said so.
    pub resume_at: Option<Timestamp>,
    /// The daemon resumes the attempt then.
    pub resumes: bool,
}

/// The whole status of an attempt, as far as the store knows it.
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

/// An attempt from a row of `attempt_overview`.
fn overview(row: &SqliteRow, changes: &Changes) -> sqlx::Result<AttemptOverview> {
    let attempt_id = row.text("attempt_id")?;
    let quota: Option<&str> = row.try_get("quota")?;
    let resume_at = row.maybe_at("resume_at")?;
    Ok(AttemptOverview {
        attempt_id,
        task_id: row.text("task_id")?,
        task_title: row.try_get("title")?,
        project_id: row.text("project_id")?,
        project_name: row.try_get("project_name")?,
        workspace_branch: row.try_get("branch")?,
        executor: row.try_get("executor")?,
        variant: row.try_get("variant")?,
        state: row.text("state")?,
        phase: row.text("phase")?,
        waits_for_disk: changes.waits_for_disk(attempt_id),
        pending_approvals: row.try_get("pending_approvals")?,
        limited: quota.map(|quota| Limited { resume_at, resumes: quota == "auto" }),
        created_at: row.at("created_at")?,
        updated_at: row.at("updated_at")?,
        latest_session_id: row.maybe_text("session_id")?,
        latest_session_executor: row.try_get("session_executor")?,
    })
}

/// The statuses of attempts for a condition. The usage of a process is that of its turn
/// alone, so theirs can be added up; a cost that one of them does not tell makes the sum
/// unknown.
macro_rules! statuses {
    ($condition:literal) => {
        concat!(
            "SELECT *, (
                 SELECT json_object('input_tokens', sum(p.usage ->> 'input_tokens'),
                                    'output_tokens', sum(p.usage ->> 'output_tokens'),
                                    'cost_usd', iif(count(*) = count(p.usage ->> 'cost_usd'),
                                                    sum(p.usage ->> 'cost_usd'), NULL))
                 FROM processes p
                 WHERE p.attempt_id = o.attempt_id AND p.usage IS NOT NULL) AS spent
             FROM attempt_overview o ",
            $condition
        )
    };
}

/// A status from a row of [`statuses`].
fn status(row: &SqliteRow, changes: &Changes) -> sqlx::Result<AttemptStatus> {
    let overview = overview(row, changes)?;
    let has_ended = matches!(overview.state, State::Failed | State::Completed);
    let failure_summary: Option<String> = row.try_get("failure_summary")?;
    Ok(AttemptStatus {
        latest_execution_process_id: row.maybe_text("process_id")?,
        exit_code: row.try_get("exit_code")?,
        exit_signal: row.try_get("exit_signal")?,
        // It is the newest process's, which has not run where the attempt is idle.
        failure_summary: failure_summary.filter(|_| has_ended),
        final_message: row.try_get("final_message")?,
        usage: row.json("spent").unwrap_or_default(),
        limits: row.json("limits").unwrap_or_default(),
        queued_follow_ups: row.try_get("queued_follow_ups")?,
        queue_held: row.try_get("queue_held")?,
        revision: row.try_get("revision")?,
        settled_revision: row.try_get("settled_revision")?,
        overview,
    })
}

/// Ids as a JSON array, for `json_each`.
fn list(attempts: &[AttemptId]) -> String {
    let ids: serde_json::Value = attempts.iter().map(ToString::to_string).collect();
    ids.to_string()
}

impl Store {
    /// A task's attempts, newest first. Those of a deleted task stay readable.
    pub async fn attempts(&self, filter: &AttemptFilter) -> Result<Page<AttemptOverview>, Refusal> {
        self.read(async |reading| {
            let is_known: bool =
                sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM tasks WHERE task_id = ?1)")
                    .bind(Text(filter.task))
                    .fetch_one(&mut *reading)
                    .await?;
            if !is_known {
                return Err(missing::task(filter.task).into());
            }
            let (created_at, id) = filter.after.unzip();
            let items = sqlx::query(
                "SELECT * FROM attempt_overview WHERE task_id = ?1
                   AND (?2 IS NULL OR created_at < ?2 OR (created_at = ?2 AND attempt_id > ?3))
                 ORDER BY created_at DESC, attempt_id ASC LIMIT ?4",
            )
            .bind(Text(filter.task))
            .bind(created_at.map(Timestamp::millis))
            .bind(id.map(Text))
            .bind(rows_for(filter.limit))
            .try_map(|row| overview(&row, &self.changes))
            .fetch_all(reading)
            .await?;
            Ok(Page::cut(items, filter.limit))
        })
        .await
    }

    /// The attempts of all projects, newest first; without `all`, those that are
    /// queued or active and the newest 20.
    pub async fn overview(&self, all: bool) -> Result<Vec<AttemptOverview>, Refusal> {
        self.read(async |reading| {
            Ok(sqlx::query(
                "SELECT * FROM attempt_overview
                 WHERE ?1 OR phase IN ('queued', 'preparing', 'running', 'stopping')
                    OR attempt_id IN (SELECT attempt_id FROM attempts
                                      ORDER BY created_at DESC, attempt_id ASC LIMIT 20)
                 ORDER BY created_at DESC, attempt_id ASC",
            )
            .bind(all)
            .try_map(|row| overview(&row, &self.changes))
            .fetch_all(reading)
            .await?)
        })
        .await
    }

    /// How many attempts there are, of all projects.
    pub async fn count_attempts(&self) -> Result<i64, Refusal> {
        self.read(async |reading| {
            Ok(sqlx::query_scalar("SELECT count(*) FROM attempts").fetch_one(reading).await?)
        })
        .await
    }

    /// The newest attempts of all projects, with their tasks' titles.
    pub async fn newest_attempts(&self, most: usize) -> Result<Vec<(AttemptId, String)>, Refusal> {
        self.read(async |reading| {
            let rows: Vec<(Text<AttemptId>, String)> = sqlx::query_as(
                "SELECT a.attempt_id, t.title FROM attempts a JOIN tasks t ON t.task_id = a.task_id
                 ORDER BY a.created_at DESC, a.attempt_id ASC LIMIT ?1",
            )
            .bind(i64::try_from(most).unwrap_or(i64::MAX))
            .fetch_all(reading)
            .await?;
            Ok(rows.into_iter().map(|(Text(id), title)| (id, title)).collect())
        })
        .await
    }

    /// The status of an attempt.
    pub async fn status(&self, attempt: AttemptId) -> Result<AttemptStatus, Refusal> {
        self.read(async |reading| {
            let found = sqlx::query(statuses!("WHERE attempt_id = ?1"))
                .bind(Text(attempt))
                .try_map(|row| status(&row, &self.changes))
                .fetch_optional(reading)
                .await?;
            found.ok_or_else(|| missing::attempt(attempt).into())
        })
        .await
    }

    /// The status of each of these attempts, in the order asked, all of one moment.
    pub async fn statuses(&self, attempts: &[AttemptId]) -> Result<Vec<AttemptStatus>, Refusal> {
        self.read(async |reading| {
            let found =
                sqlx::query(statuses!("WHERE attempt_id IN (SELECT value FROM json_each(?1))"))
                    .bind(list(attempts))
                    .try_map(|row| status(&row, &self.changes))
                    .fetch_all(reading)
                    .await?;
            let found: HashMap<AttemptId, AttemptStatus> =
                found.into_iter().map(|status| (status.overview.attempt_id, status)).collect();
            let of = |id: &AttemptId| found.get(id).cloned().ok_or_else(|| missing::attempt(*id));
            Ok(attempts.iter().map(of).collect::<Result<_, Refusal>>()?)
        })
        .await
    }

    /// The number of the latest change of any attempt.
    pub async fn newest_revision(&self) -> Result<i64, Refusal> {
        self.read(async |reading| {
            Ok(sqlx::query_scalar("SELECT coalesce(max(revision), 0) FROM attempts")
                .fetch_one(reading)
                .await?)
        })
        .await
    }

    /// Registers for a wake-up when one of these attempts changes.
    pub fn watch(&self, attempts: &[AttemptId]) -> Watch {
        self.changes.watch(attempts)
    }

    /// The attempt whose worktrees lie in this folder.
    pub async fn attempt_in(&self, folder: &str) -> Result<Option<AttemptId>, Refusal> {
        self.read(async |reading| {
            let id: Option<Text<AttemptId>> =
                sqlx::query_scalar("SELECT attempt_id FROM attempts WHERE folder = ?1")
                    .bind(folder)
                    .fetch_optional(reading)
                    .await?;
            Ok(id.map(|Text(id)| id))
        })
        .await
    }

    /// Where a worker of this attempt is.
    pub async fn context(&self, attempt: AttemptId) -> Result<ContextView, Refusal> {
        let overview = self.status(attempt).await?.overview;
        self.read(async |reading| {
            let Text(task_status) =
                sqlx::query_scalar("SELECT status FROM tasks WHERE task_id = ?1")
                    .bind(Text(overview.task_id))
                    .fetch_one(&mut *reading)
                    .await?;
            let repos = repos_of(reading, attempt).await?;
            Ok(ContextView {
                project_id: overview.project_id,
                project_name: overview.project_name,
                task_id: overview.task_id,
                task_title: overview.task_title,
                task_status,
                attempt_id: attempt,
                workspace_branch: overview.workspace_branch,
                repos: repos.into_iter().map(|r| (r.repo_id, r.name, r.target_branch)).collect(),
            })
        })
        .await
    }

    /// The folder of each of these attempts and the names of its repositories: a row
    /// for each repository.
    pub async fn worktree_folders(
        &self,
        attempts: &[AttemptId],
    ) -> Result<Vec<(AttemptId, String, String)>, Refusal> {
        self.read(async |reading| {
            let rows: Vec<(Text<AttemptId>, String, String)> = sqlx::query_as(
                "SELECT a.attempt_id, a.folder, r.name
                 FROM json_each(?1) e JOIN attempts a ON a.attempt_id = e.value
                 JOIN attempt_repos r ON r.attempt_id = a.attempt_id",
            )
            .bind(list(attempts))
            .fetch_all(reading)
            .await?;
            Ok(rows.into_iter().map(|(Text(id), folder, repo)| (id, folder, repo)).collect())
        })
        .await
    }

    /// Where the work of this attempt lies.
    pub async fn workspace(&self, attempt: AttemptId) -> Result<WorkspaceView, Refusal> {
        self.read(async |reading| {
            let row: Option<(Text<TaskId>, String, String)> = sqlx::query_as(
                "SELECT task_id, branch, folder FROM attempts WHERE attempt_id = ?1",
            )
            .bind(Text(attempt))
            .fetch_optional(&mut *reading)
            .await?;
            let (Text(task_id), branch, folder) = row.ok_or_else(|| missing::attempt(attempt))?;
            Ok(WorkspaceView { task_id, branch, folder, repos: repos_of(reading, attempt).await? })
        })
        .await
    }
}
