//! Tasks and what they depend on.

use provost_actors::event::Timestamp;
use provost_actors::ids::{ProjectId, TaskId};
use provost_actors::journal::{
    Answer, Key, NewTask, Priority, StartContext, Task, TaskChange, TaskStatus, TaskView, Unmet,
};
use provost_actors::refusal::{Code, Refusal};
use sqlx::FromRow;

use super::work::{Prefix, last_report, let_go, next_handle, of_done, of_removed};
use super::{
    Page, Store, Writing, codec, commit, dependencies, fault, missing, projects, requests, rows_for,
};
use crate::api::brief::Brief;
use crate::work::TaskKind;

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

#[derive(FromRow)]
struct TaskRow {
    task_id: String,
    handle: String,
    project_id: String,
    title: String,
    description: Option<String>,
    status: String,
    priority: String,
    brief: Option<String>,
    created_at: i64,
    updated_at: i64,
}

impl TaskRow {
    fn task(self, depends_on: Vec<TaskId>) -> Result<Task, Refusal> {
        Ok(Task {
            task_id: codec::id(&self.task_id)?,
            handle: self.handle,
            project_id: codec::id(&self.project_id)?,
            title: self.title,
            description: self.description,
            status: codec::enumerated(self.status)?,
            priority: codec::enumerated(self.priority)?,
            depends_on,
            brief: self.brief,
            created_at: Timestamp::from_millis(self.created_at),
            updated_at: Timestamp::from_millis(self.updated_at),
        })
    }
}

#[derive(FromRow)]
struct TaskViewRow {
    #[sqlx(flatten)]
    task: TaskRow,
    standing: Option<String>,
    attempt_id: Option<String>,
    branch: Option<String>,
    state: Option<String>,
    session_id: Option<String>,
    session_executor: Option<String>,
    in_progress: bool,
}

impl TaskViewRow {
    async fn view(self, reading: Writing<'_>) -> Result<TaskView, Refusal> {
        let depends_on = dependencies::of(reading, codec::id(&self.task.task_id)?).await?;
        Ok(TaskView {
            task: self.task.task(depends_on)?,
            standing: self.standing.map(codec::enumerated).transpose()?,
            latest_attempt_id: codec::optional_id(self.attempt_id.as_deref())?,
            latest_workspace_branch: self.branch,
            latest_session_id: codec::optional_id(self.session_id.as_deref())?,
            latest_session_executor: self.session_executor,
            has_in_progress_attempt: self.in_progress,
            last_attempt_failed: self.state.as_deref() == Some("failed"),
            last_report: None,
        })
    }
}

async fn load(writing: Writing<'_>, task: TaskId) -> Result<TaskView, Refusal> {
    let row: TaskViewRow = sqlx::query_as("SELECT * FROM task_overview WHERE task_id = ?1")
        .bind(task.to_string())
        .fetch_optional(&mut *writing)
        .await
        .map_err(fault)?
        .ok_or_else(|| missing::task(task))?;
    let view = row.view(writing).await?;
    Ok(TaskView { last_report: last_report(writing, task).await?, ..view })
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

    /// What an orchestrator or a person asks for.
    pub fn asked_for(new: &'a NewTask, depends_on: &'a [TaskId]) -> Self {
        Self {
            description: new.description.as_deref(),
            brief: new.brief.as_deref(),
            depends_on,
            ..Self::new(new.project_id, &new.title, new.priority)
        }
    }
}

/// Puts a task on the board; gives its id and handle.
pub(super) async fn insert(
    writing: Writing<'_>,
    draft: &Draft<'_>,
) -> Result<(TaskId, String), Refusal> {
    let task = TaskId::new();
    let handle = insert_as(writing, task, draft).await?;
    dependencies::add(writing, task, draft.depends_on).await?;
    Ok((task, handle))
}

/// Puts a task on the board that is to have this id, without what it depends on.
pub(super) async fn insert_as(
    writing: Writing<'_>,
    task: TaskId,
    draft: &Draft<'_>,
) -> Result<String, Refusal> {
    let prefix = match draft.kind {
        TaskKind::Verification => Prefix::Verification,
        TaskKind::Answer => Prefix::Answering,
        TaskKind::Work | TaskKind::Investigation => Prefix::Task,
    };
    let handle = next_handle(writing, draft.project_id, prefix).await?;
    sqlx::query(
        "INSERT INTO tasks (task_id, project_id, handle, title, description, status, priority,
                            kind, about, reason, brief, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12)",
    )
    .bind(task.to_string())
    .bind(draft.project_id.to_string())
    .bind(&handle)
    .bind(draft.title)
    .bind(draft.description)
    .bind(codec::word(&TaskStatus::Todo))
    .bind(codec::word(&draft.priority))
    .bind(codec::word(&draft.kind))
    .bind(draft.about.map(|task| task.to_string()))
    .bind(draft.reason)
    .bind(draft.brief)
    .bind(Timestamp::now().millis())
    .execute(&mut *writing)
    .await
    .map_err(fault)?;
    Ok(handle)
}

impl Store {
    /// A task by its id.
    pub async fn task(&self, task: TaskId) -> Result<TaskView, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        load(&mut reading, task).await
    }

    /// A project's tasks, newest first, each with its latest attempt.
    pub async fn tasks(&self, filter: &TaskFilter) -> Result<Page<TaskView>, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        projects::require(&mut reading, filter.project).await?;
        let rows: Vec<TaskViewRow> = sqlx::query_as(
            "SELECT * FROM task_overview
             WHERE project_id = ?1 AND kind <> 'answer' AND (?2 IS NULL OR status = ?2)
               AND (?3 IS NULL OR updated_at >= ?3) AND (?4 IS NULL OR task_id < ?4)
             ORDER BY task_id DESC LIMIT ?5",
        )
        .bind(filter.project.to_string())
        .bind(filter.status.as_ref().map(codec::word))
        .bind(filter.updated_since.map(Timestamp::millis))
        .bind(filter.before.map(|id| id.to_string()))
        .bind(rows_for(filter.limit))
        .fetch_all(&mut *reading)
        .await
        .map_err(fault)?;
        let mut items = Vec::with_capacity(rows.len());
        for row in rows {
            items.push(row.view(&mut reading).await?);
        }
        Ok(Page::cut(items, filter.limit))
    }

    pub(super) async fn insert_task(
        &self,
        key: Option<&Key>,
        new: &NewTask,
    ) -> Result<Answer<TaskId>, Refusal> {
        let mut writing = self.writing_patiently().await?;
        if let Some(answer) = requests::kept(&mut writing, key).await? {
            return Ok(answer);
        }
        projects::require(&mut writing, new.project_id).await?;
        let on = dependencies::resolve(&mut writing, new.project_id, &new.depends_on).await?;
        let (task, _) = insert(&mut writing, &Draft::asked_for(new, &on)).await?;
        let answer = requests::keep(&mut writing, key, task).await?;
        commit(writing, "create_task").await?;
        Ok(answer)
    }

    pub(super) async fn change_task(
        &self,
        key: Option<&Key>,
        task: TaskId,
        change: &TaskChange,
    ) -> Result<Answer<TaskView>, Refusal> {
        let mut writing = self.writing_patiently().await?;
        if let Some(answer) = requests::kept(&mut writing, key).await? {
            return Ok(answer);
        }
        let before = load(&mut writing, task).await?.task;
        if let Some(depends_on) = &change.depends_on {
            let on = dependencies::resolve(&mut writing, before.project_id, depends_on).await?;
            dependencies::replace(&mut writing, before.project_id, task, &on).await?;
        }
        sqlx::query(
            "UPDATE tasks SET title = coalesce(?2, title), description = coalesce(?3, description),
                    status = coalesce(?4, status), priority = coalesce(?5, priority),
                    standing = CASE WHEN ?4 IS NULL THEN standing END,
                    blocked_reason = CASE WHEN ?4 IS NULL THEN blocked_reason END,
                    begun_revision = CASE WHEN ?4 IS NULL THEN begun_revision END,
                    brief = nullif(coalesce(?7, brief), '{}'), updated_at = ?6
             WHERE task_id = ?1",
        )
        .bind(task.to_string())
        .bind(&change.title)
        .bind(&change.description)
        .bind(change.status.as_ref().map(codec::word))
        .bind(change.priority.as_ref().map(codec::word))
        .bind(Timestamp::now().millis())
        .bind(&change.brief)
        .execute(&mut *writing)
        .await
        .map_err(fault)?;
        // Who puts it back on the board, or closes it, takes it out of all hands.
        if matches!(
            change.status,
            Some(TaskStatus::Todo | TaskStatus::Done | TaskStatus::Cancelled)
        ) {
            let_go(&mut writing, task).await?;
        }
        if change.status == Some(TaskStatus::Done) {
            of_done(&mut writing, task, &before.handle).await?;
        }
        let changed = load(&mut writing, task).await?;
        let answer = requests::keep(&mut writing, key, changed).await?;
        commit(writing, "update_task").await?;
        Ok(answer)
    }

    /// Deleting again gives the same answer; only an id never issued is not found.
    pub(super) async fn remove_task(
        &self,
        key: Option<&Key>,
        task: TaskId,
    ) -> Result<Answer<TaskId>, Refusal> {
        let mut writing = self.writing_patiently().await?;
        if let Some(answer) = requests::kept(&mut writing, key).await? {
            return Ok(answer);
        }
        let known: Option<String> =
            sqlx::query_scalar("SELECT task_id FROM tasks WHERE task_id = ?1")
                .bind(task.to_string())
                .fetch_optional(&mut *writing)
                .await
                .map_err(fault)?;
        if known.is_none() {
            return Err(missing::task(task));
        }
        let busy: Option<String> = sqlx::query_scalar(
            "SELECT attempt_id FROM attempts WHERE task_id = ?1
             AND phase IN ('queued', 'preparing', 'running', 'stopping') LIMIT 1",
        )
        .bind(task.to_string())
        .fetch_optional(&mut *writing)
        .await
        .map_err(fault)?;
        if let Some(attempt) = busy {
            return Err(Refusal::new(
                Code::AttemptRunning,
                format!("attempt {attempt} of the task is queued or running"),
            )
            .hint(format!(
                "Call stop_attempt with attempt_id = \"{attempt}\", then delete_task again."
            ))
            .detail("attempt_id", attempt));
        }
        sqlx::query(
            "UPDATE tasks SET deleted_at = ?2, updated_at = ?2
             WHERE task_id = ?1 AND deleted_at IS NULL",
        )
        .bind(task.to_string())
        .bind(Timestamp::now().millis())
        .execute(&mut *writing)
        .await
        .map_err(fault)?;
        of_removed(&mut writing, task).await?;
        let answer = requests::keep(&mut writing, key, task).await?;
        commit(writing, "delete_task").await?;
        Ok(answer)
    }

    pub(super) async fn load_start_context(&self, task: TaskId) -> Result<StartContext, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        let task = load(&mut reading, task).await?.task;
        let project_name = projects::require(&mut reading, task.project_id).await?;
        let repos = projects::repos_of(&mut reading, task.project_id).await?;
        let unmet: Vec<(String, String, Option<String>)> = sqlx::query_as(
            "SELECT t.task_id, t.handle,
                    (SELECT a.attempt_id FROM attempts a
                     WHERE a.task_id = t.task_id AND a.phase NOT IN ('settled', 'idle')
                     ORDER BY a.created_at DESC LIMIT 1)
             FROM task_dependencies d JOIN tasks t ON t.task_id = d.depends_on
             WHERE d.task_id = ?1 AND t.status <> 'done' AND t.deleted_at IS NULL
             ORDER BY t.task_id",
        )
        .bind(task.task_id.to_string())
        .fetch_all(&mut *reading)
        .await
        .map_err(fault)?;
        let unmet = unmet.into_iter().map(|(task, handle, running)| {
            let running = running.map(|id| codec::id(&id)).transpose()?;
            Ok(Unmet { task_id: codec::id(&task)?, handle, running })
        });
        let unmet = unmet.collect::<Result<_, Refusal>>()?;
        let brief = task.brief.as_deref().and_then(Brief::kept).map(|brief| brief.text());
        let (reason, kind): (Option<String>, String) =
            sqlx::query_as("SELECT reason, kind FROM tasks WHERE task_id = ?1")
                .bind(task.task_id.to_string())
                .fetch_one(&mut *reading)
                .await
                .map_err(fault)?;
        let is_answer = codec::enumerated::<TaskKind>(kind)? == TaskKind::Answer;
        Ok(StartContext { task, project_name, repos, brief, reason, is_answer, unmet })
    }
}
