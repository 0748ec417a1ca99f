//! Tasks: read, listed, and put on the board.

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, ProjectId, SessionId, TaskId};
use provost_actors::journal::{Priority, Standing, StartContext, Task, TaskStatus, Tasks};
use provost_actors::refusal::Refusal;
use provost_actors::text::cut;
use serde::{Deserialize, Serialize};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::codec::{Columns, Text};
use super::handles::{self, Prefix};
use super::{Page, Result, Store, Writing, dependencies, missing, projects, rows_for};
use crate::api::brief::Brief;
use crate::api::worker::reported::LastReport;
use crate::work::TaskKind;

/// How much of a report's summary is shown with its task, in characters.
const SUMMARY_MAX: usize = 1000;

/// Which tasks to list.
#[derive(Clone, Debug)]
pub struct TaskFilter {
    pub project: ProjectId,
    pub status: Option<TaskStatus>,
    pub updated_since: Option<Timestamp>,
    pub limit: usize,
    /// List those made before this one.
    pub before: Option<TaskId>,
}

/// A task with its latest attempt: the most recently created one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    pub task: Task,
    #[serde(default)]
    pub standing: Option<Standing>,
    pub latest_attempt_id: Option<AttemptId>,
    pub latest_workspace_branch: Option<String>,
    pub latest_session_id: Option<SessionId>,
    pub latest_session_executor: Option<String>,
    pub has_in_progress_attempt: bool,
    pub last_attempt_failed: bool,
    /// The newest report on it; not looked up for lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_report: Option<LastReport>,
}

/// A view from a row of `task_overview`, without the task's dependencies and report.
fn view(row: &SqliteRow) -> sqlx::Result<TaskView> {
    let task = Task {
        task_id: row.text("task_id")?,
        handle: row.try_get("handle")?,
        project_id: row.text("project_id")?,
        title: row.try_get("title")?,
        description: row.try_get("description")?,
        status: row.text("status")?,
        priority: row.text("priority")?,
        depends_on: Vec::new(),
        brief: row.try_get("brief")?,
        created_at: row.at("created_at")?,
        updated_at: row.at("updated_at")?,
    };
    Ok(TaskView {
        task,
        standing: row.maybe_text("standing")?,
        latest_attempt_id: row.maybe_text("attempt_id")?,
        latest_workspace_branch: row.try_get("branch")?,
        latest_session_id: row.maybe_text("session_id")?,
        latest_session_executor: row.try_get("session_executor")?,
        has_in_progress_attempt: row.try_get("in_progress")?,
        last_attempt_failed: row.try_get::<Option<&str>, _>("state")? == Some("failed"),
        last_report: None,
    })
}

/// A task on the board, with its dependencies and the newest report on it.
pub(super) async fn load(writing: Writing<'_>, task: TaskId) -> Result<TaskView> {
    let found = sqlx::query("SELECT * FROM task_overview WHERE task_id = ?1")
        .bind(Text(task))
        .try_map(|row| view(&row))
        .fetch_optional(&mut *writing)
        .await?;
    let mut found = found.ok_or_else(|| missing::task(task))?;
    found.task.depends_on = dependencies::of(writing, task).await?;
    found.last_report = last_report(writing, task).await?;
    Ok(found)
}

/// The newest report on a task, in brief.
async fn last_report(reading: Writing<'_>, task: TaskId) -> Result<Option<LastReport>> {
    let report = |row: SqliteRow| {
        let summary: Option<String> = row.try_get("summary")?;
        Ok(LastReport {
            status: row.try_get("status")?,
            at: row.at("reported_at")?,
            summary: summary.map(|summary| cut(summary, SUMMARY_MAX)),
            warnings: row.json("warnings").unwrap_or_default(),
        })
    };
    Ok(sqlx::query(
        "SELECT status, warnings, reported_at,
                coalesce(json_extract(body, '$.implementationNotes'),
                         json_extract(body, '$.output_summary'),
                         json_extract(body, '$.details'),
                         json_extract(body, '$.verification.summary'),
                         json_extract(body, '$.failureDetails.error')) AS summary
         FROM reports WHERE task_id = ?1 AND status IS NOT NULL ORDER BY report_id DESC LIMIT 1",
    )
    .bind(Text(task))
    .try_map(report)
    .fetch_optional(reading)
    .await?)
}

/// A task to be put on the board.
#[derive(Clone, Debug)]
pub(super) struct Draft<'a> {
    pub project_id: ProjectId,
    pub title: &'a str,
    pub description: Option<&'a str>,
    pub priority: Priority,
    pub kind: TaskKind,
    /// The task that it verifies or investigates.
    pub about: Option<TaskId>,
    /// Why a report made it.
    pub reason: Option<&'a str>,
    /// As JSON.
    pub brief: Option<&'a str>,
    pub depends_on: &'a [TaskId],
}

impl<'a> Draft<'a> {
    /// Work that depends on nothing.
    pub fn new(project_id: ProjectId, title: &'a str, priority: Priority) -> Self {
        Self {
            project_id,
            title,
            description: None,
            priority,
            kind: TaskKind::Work,
            about: None,
            reason: None,
            brief: None,
            depends_on: &[],
        }
    }
}

/// Puts a task on the board; gives its id and handle.
pub(super) async fn insert(writing: Writing<'_>, draft: &Draft<'_>) -> Result<(TaskId, String)> {
    let task = TaskId::new();
    let handle = insert_as(writing, task, draft).await?;
    dependencies::add(writing, task, draft.depends_on).await?;
    Ok((task, handle))
}

/// Puts a task with this id on the board, without its dependencies.
pub(super) async fn insert_as(
    writing: Writing<'_>,
    task: TaskId,
    draft: &Draft<'_>,
) -> Result<String> {
    let prefix = match draft.kind {
        TaskKind::Verification => Prefix::Verification,
        TaskKind::Answer => Prefix::Answering,
        TaskKind::Work | TaskKind::Investigation => Prefix::Task,
    };
    let handle = handles::next(writing, draft.project_id, prefix).await?;
    sqlx::query(
        "INSERT INTO tasks (task_id, project_id, handle, title, description, status, priority,
                            kind, about, reason, brief, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12)",
    )
    .bind(Text(task))
    .bind(Text(draft.project_id))
    .bind(&handle)
    .bind(draft.title)
    .bind(draft.description)
    .bind(Text(TaskStatus::Todo))
    .bind(Text(draft.priority))
    .bind(Text(draft.kind))
    .bind(draft.about.map(Text))
    .bind(draft.reason)
    .bind(draft.brief)
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await?;
    Ok(handle)
}

impl Store {
    /// A task by its id.
    pub async fn task(&self, task: TaskId) -> Result<TaskView, Refusal> {
        self.read(async |reading| load(reading, task).await).await
    }

    /// A project's tasks, newest first, each with its latest attempt.
    pub async fn tasks(&self, filter: &TaskFilter) -> Result<Page<TaskView>, Refusal> {
        self.read(async |reading| {
            projects::require(reading, filter.project).await?;
            let mut items = sqlx::query(
                "SELECT * FROM task_overview
                 WHERE project_id = ?1 AND kind <> 'answer' AND (?2 IS NULL OR status = ?2)
                   AND (?3 IS NULL OR updated_at >= ?3) AND (?4 IS NULL OR task_id < ?4)
                 ORDER BY task_id DESC LIMIT ?5",
            )
            .bind(Text(filter.project))
            .bind(filter.status.map(Text))
            .bind(filter.updated_since.map(Timestamp::millis))
            .bind(filter.before.map(Text))
            .bind(rows_for(filter.limit))
            .try_map(|row| view(&row))
            .fetch_all(&mut *reading)
            .await?;
            for TaskView { task, .. } in &mut items {
                task.depends_on = dependencies::of(reading, task.task_id).await?;
            }
            Ok(Page::cut(items, filter.limit))
        })
        .await
    }
}

#[async_trait]
impl Tasks for Store {
    async fn start_context(&self, task: TaskId) -> Result<StartContext, Refusal> {
        self.read(async |reading| {
            let task = load(reading, task).await?.task;
            let (reason, Text(kind)): (Option<String>, Text<TaskKind>) =
                sqlx::query_as("SELECT reason, kind FROM tasks WHERE task_id = ?1")
                    .bind(Text(task.task_id))
                    .fetch_one(&mut *reading)
                    .await?;
            Ok(StartContext {
                project_name: projects::require(reading, task.project_id).await?,
                repos: projects::repos_of(reading, task.project_id).await?,
                unmet: dependencies::unmet(reading, task.task_id).await?,
                brief: task.brief.as_deref().and_then(Brief::kept).map(|brief| brief.text()),
                reason,
                is_answer: kind == TaskKind::Answer,
                task,
            })
        })
        .await
    }
}
