//! Tasks: read, listed, and put on the board.

use async_trait::async_trait;
use provost_actors::ids::{ProjectId, TaskId};
use provost_actors::journal::{Priority, StartContext, Tasks};
use provost_actors::text::cut;
use serde_json::json;

use super::{
    Db, Page, Refusal, Result, Sql, Store, dependencies, handles, not_found, now, projects,
};
use crate::api::brief::Brief;
use crate::api::tasks::{ListTasksInput, Task, TaskSummary};
use crate::api::worker::report::LastReport;
use crate::work::TaskKind;

/// The length to which a report's summary is cut where it is shown with its task, in characters.
const SUMMARY_MAX: usize = 1000;

/// Tasks in short, each with its newest attempt.
macro_rules! summaries {
    ($which:literal) => {
        concat!(
            "SELECT *, attempt_id AS latest_attempt_id, branch AS latest_workspace_branch,
                    session_id AS latest_session_id, session_executor AS latest_session_executor,
                    in_progress AS has_in_progress_attempt, state IS NOT DISTINCT FROM 'failed' AS last_attempt_failed
             FROM task_overview WHERE ",
            $which
        )
    };
}

/// A task with its dependencies, brief and last report; refused if it is not on the board.
pub(super) async fn load(db: Db<'_>, task: TaskId) -> Result<Task> {
    let summary: Option<TaskSummary> = db.find(summaries!("task_id = $1"), (task,)).await?;
    let summary = summary.ok_or_else(|| not_found::task(task))?;
    let sql = "SELECT project_id, description, brief,
                (SELECT json_group_array(depends_on ORDER BY depends_on)
                 FROM task_dependencies d WHERE d.task_id = t.task_id)
         FROM tasks t WHERE task_id = $1";
    let (project_id, description, brief, depends_on): (_, _, Option<String>, _) =
        db.one(sql, (task,)).await?;
    let brief = brief.as_deref().and_then(Brief::kept);
    let last_report = last_report(db, task).await?;
    Ok(Task { summary, project_id, description, depends_on, brief, last_report })
}

/// Refuses an id that was never given out. The id of a deleted task is accepted.
pub(super) async fn require_known(db: Db<'_>, task: TaskId) -> Result<()> {
    let sql = "SELECT EXISTS (SELECT 1 FROM tasks WHERE task_id = $1)";
    let is_known: bool = db.one(sql, (task,)).await?;
    if is_known { Ok(()) } else { Err(not_found::task(task).into()) }
}

/// The newest report that says something about the task's status; its summary comes from the first field that
/// the tools use for one.
async fn last_report(db: Db<'_>, task: TaskId) -> Result<Option<LastReport>> {
    let sql = "SELECT status, warnings, reported_at AS at,
                coalesce(body ->> '$.implementationNotes',
                         body ->> '$.output_summary',
                         body ->> '$.details',
                         body ->> '$.verification.summary',
                         body ->> '$.failureDetails.error') AS summary
         FROM reports WHERE task_id = $1 AND status IS NOT NULL ORDER BY report_id DESC LIMIT 1";
    let report: Option<LastReport> = db.find(sql, (task,)).await?;
    Ok(report.map(|report| LastReport {
        summary: report.summary.map(|summary| cut(summary, SUMMARY_MAX)),
        ..report
    }))
}

/// A task to be put on the board.
#[derive(Clone, Debug)]
pub(super) struct Draft<'a> {
    pub project_id: ProjectId,
    pub title: &'a str,
    pub description: Option<&'a str>,
    pub priority: Priority,
    pub kind: TaskKind,
    /// The task that this one verifies or investigates.
    pub about: Option<TaskId>,
    /// Why a report made this task; shown to the worker.
    pub reason: Option<&'a str>,
    /// As JSON; `None`: no brief.
    pub brief: Option<String>,
    pub depends_on: &'a [TaskId],
}

impl<'a> Draft<'a> {
    /// A task of work without description, brief and dependencies.
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

/// Puts a task on the board, with its dependencies. Returns its id and handle.
pub(super) async fn insert(db: Db<'_>, draft: &Draft<'_>) -> Result<(TaskId, String)> {
    let task = TaskId::new();
    let handle = insert_as(db, task, draft).await?;
    if !draft.depends_on.is_empty() {
        dependencies::add(db, task, draft.depends_on).await?;
    }
    Ok((task, handle))
}

/// Puts a task with this id on the board, without its dependencies. Returns its handle.
pub(super) async fn insert_as(db: Db<'_>, task: TaskId, draft: &Draft<'_>) -> Result<String> {
    let prefix = match draft.kind {
        TaskKind::Verification => handles::VERIFICATION,
        TaskKind::Answer => handles::ANSWERING,
        TaskKind::Work | TaskKind::Investigation => handles::TASK,
    };
    let handle = handles::next(db, draft.project_id, prefix).await?;
    let now = now();
    let row = json!({
        "task_id": task, "project_id": draft.project_id, "handle": handle, "title": draft.title,
        "description": draft.description, "status": "todo", "priority": draft.priority,
        "kind": draft.kind, "about": draft.about, "reason": draft.reason, "brief": draft.brief,
        "created_at": now, "updated_at": now,
    });
    db.insert("INTO tasks", row).await?;
    Ok(handle)
}

impl Store {
    /// A task by its id; refused if it is not on the board.
    pub async fn task(&self, task: TaskId) -> Result<Task, Refusal> {
        self.read(async |db| load(db, task).await).await
    }

    /// A page of a project's tasks, newest first, made before the task `before`. Tasks that put a question to
    /// an executor are left out.
    pub async fn tasks(
        &self,
        input: &ListTasksInput,
        before: Option<TaskId>,
    ) -> Result<Page<TaskSummary>, Refusal> {
        let sql = summaries!(
            "project_id = $1 AND kind <> 'answer' AND (status = $2 OR $2 IS NULL)
               AND (updated_at >= $3 OR $3 IS NULL) AND (task_id < $4 OR $4 IS NULL)
             ORDER BY task_id DESC LIMIT $5"
        );
        let (project, limit) = (input.project_id, input.limit.get());
        let since = input.updated_since.map(|since| since.0.millis());
        self.read(async |db| {
            projects::require(db, project).await?;
            let found = db.all(sql, (project, input.status, since, before, limit + 1)).await?;
            Ok(Page::cut(found, limit))
        })
        .await
    }
}

#[async_trait]
impl Tasks for Store {
    async fn start_context(&self, task: TaskId) -> Result<StartContext, Refusal> {
        self.read(async |db| {
            // `unmet` has the dependencies that a start needs.
            let sql = "SELECT *, '[]' AS depends_on FROM tasks
                 WHERE task_id = $1 AND deleted_at IS NULL";
            let found: Option<provost_actors::journal::Task> = db.find(sql, (task,)).await?;
            let task = found.ok_or_else(|| not_found::task(task))?;
            let sql = "SELECT reason, kind = 'answer' FROM tasks WHERE task_id = $1";
            let (reason, is_answer) = db.one(sql, (task.task_id,)).await?;
            let repos = "SELECT * FROM repos WHERE project_id = $1 ORDER BY repo_id";
            Ok(StartContext {
                project_name: projects::require(db, task.project_id).await?,
                repos: db.all(repos, (task.project_id,)).await?,
                unmet: dependencies::unmet(db, task.task_id).await?,
                brief: task.brief.as_deref().and_then(Brief::kept).map(|brief| brief.text()),
                reason,
                is_answer,
                task,
            })
        })
        .await
    }
}
