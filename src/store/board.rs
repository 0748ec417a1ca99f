//! The board's changes by people and orchestrators: `create_task`, `update_task`,
//! `delete_task` and the import of many tasks. Each is one transaction with all that
//! follows from it: tickets that are resolved, tasks that nothing blocks any more.

use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, ProjectId, TaskId, TaskRef};
use provost_actors::journal::{Key, Once, Priority, TaskStatus};
use provost_actors::refusal::{Code, Refusal};
use serde::{Deserialize, Serialize};

use super::codec::Text;
use super::tasks::{self, Draft, TaskView, load};
use super::work::{let_go, of_done, of_removed};
use super::write_retry::Patience;
use super::{Result, Store, StoreError, Writing, dependencies, missing, projects};

/// A task to be put on a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    pub project_id: ProjectId,
    pub title: String,
    pub description: Option<String>,
    pub priority: Priority,
    pub depends_on: Vec<TaskRef>,
    /// What a worker needs to know to do it, as JSON.
    pub brief: Option<String>,
}

impl NewTask {
    fn draft<'a>(&'a self, depends_on: &'a [TaskId]) -> Draft<'a> {
        Draft {
            description: self.description.as_deref(),
            brief: self.brief.as_deref(),
            depends_on,
            ..Draft::new(self.project_id, &self.title, self.priority)
        }
    }
}

/// A task of several that are made at once, and may depend on each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTask {
    /// Chosen beforehand, for the others to name.
    pub task_id: TaskId,
    /// What whoever planned it calls it.
    pub name: Option<String>,
    /// Where it was planned, for people to find.
    pub place: String,
    pub task: NewTask,
}

/// A task that was made as planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskMade {
    pub task_id: TaskId,
    pub handle: String,
    pub title: String,
    pub name: Option<String>,
}

/// Changes to a task; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskChange {
    pub title: Option<String>,
    pub description: Option<String>,
    pub status: Option<TaskStatus>,
    pub priority: Option<Priority>,
    pub depends_on: Option<Vec<TaskRef>>,
    /// As JSON; `{}` takes it away.
    pub brief: Option<String>,
}

impl Store {
    /// `create_task`.
    pub async fn create_task(
        &self,
        key: Option<&Key>,
        new: &NewTask,
    ) -> Result<Once<TaskId>, Refusal> {
        self.keyed(Patience::Owner, key, "create_task", async |writing| {
            projects::require(writing, new.project_id).await?;
            let on = dependencies::resolve(writing, new.project_id, &new.depends_on).await?;
            Ok(tasks::insert(writing, &new.draft(&on)).await?.0)
        })
        .await
    }

    /// `update_task`. A new status is the caller's word: it replaces what a report or an
    /// attempt made of the task.
    pub async fn update_task(
        &self,
        key: Option<&Key>,
        task: TaskId,
        change: &TaskChange,
    ) -> Result<Once<TaskView>, Refusal> {
        self.keyed(Patience::Owner, key, "update_task", async |writing| {
            let before = load(writing, task).await?.task;
            if let Some(depends_on) = &change.depends_on {
                let on = dependencies::resolve(writing, before.project_id, depends_on).await?;
                dependencies::replace(writing, before.project_id, task, &on).await?;
            }
            write_change(writing, task, change).await?;
            // Whoever puts a task back on the board, or closes it, ends all claims to it.
            if matches!(
                change.status,
                Some(TaskStatus::Todo | TaskStatus::Done | TaskStatus::Cancelled)
            ) {
                let_go(writing, task).await?;
            }
            if change.status == Some(TaskStatus::Done) {
                of_done(writing, task, &before.handle).await?;
            }
            load(writing, task).await
        })
        .await
    }

    /// `delete_task`. Deleting again gives the same answer; only an id that was never issued
    /// is not found. The row stays, for the attempts of the task stay readable.
    pub async fn delete_task(
        &self,
        key: Option<&Key>,
        task: TaskId,
    ) -> Result<Once<TaskId>, Refusal> {
        self.keyed(Patience::Owner, key, "delete_task", async |writing| {
            let is_known: bool =
                sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM tasks WHERE task_id = ?1)")
                    .bind(Text(task))
                    .fetch_one(&mut *writing)
                    .await?;
            if !is_known {
                return Err(missing::task(task).into());
            }
            refuse_while_running(writing, task).await?;
            sqlx::query(
                "UPDATE tasks SET deleted_at = ?2, updated_at = ?2
                 WHERE task_id = ?1 AND deleted_at IS NULL",
            )
            .bind(Text(task))
            .bind(Timestamp::now().millis())
            .execute(&mut *writing)
            .await?;
            of_removed(writing, task).await?;
            Ok(task)
        })
        .await
    }

    /// Makes all of the tasks or none.
    pub async fn import_tasks(
        &self,
        key: Option<&Key>,
        planned: &[PlannedTask],
    ) -> Result<Once<Vec<TaskMade>>, Refusal> {
        self.keyed(Patience::Owner, key, "import_tasks", async |writing| {
            let mut made = Vec::with_capacity(planned.len());
            for PlannedTask { task_id, name, task, .. } in planned {
                projects::require(writing, task.project_id).await?;
                let handle = tasks::insert_as(writing, *task_id, &task.draft(&[])).await?;
                let (title, name) = (task.title.clone(), name.clone());
                made.push(TaskMade { task_id: *task_id, handle, title, name });
            }
            // Now all of them exist, and can depend on each other.
            for PlannedTask { task_id, place, task, .. } in planned {
                let on = dependencies::resolve(writing, task.project_id, &task.depends_on).await;
                let on = on.map_err(|error| misplaced(place, error))?;
                dependencies::add(writing, *task_id, &on).await?;
            }
            Ok(made)
        })
        .await
    }
}

async fn write_change(writing: Writing<'_>, task: TaskId, change: &TaskChange) -> Result<()> {
    sqlx::query(
        "UPDATE tasks SET title = coalesce(?2, title), description = coalesce(?3, description),
                status = coalesce(?4, status), priority = coalesce(?5, priority),
                standing = CASE WHEN ?4 IS NULL THEN standing END,
                blocked_reason = CASE WHEN ?4 IS NULL THEN blocked_reason END,
                begun_revision = CASE WHEN ?4 IS NULL THEN begun_revision END,
                brief = nullif(coalesce(?7, brief), '{}'), updated_at = ?6
         WHERE task_id = ?1",
    )
    .bind(Text(task))
    .bind(&change.title)
    .bind(&change.description)
    .bind(change.status.map(Text))
    .bind(change.priority.map(Text))
    .bind(Timestamp::now().millis())
    .bind(&change.brief)
    .execute(writing)
    .await?;
    Ok(())
}

/// Refuses to delete a task of which an attempt runs or waits.
async fn refuse_while_running(writing: Writing<'_>, task: TaskId) -> Result<()> {
    let busy: Option<Text<AttemptId>> = sqlx::query_scalar(
        "SELECT attempt_id FROM attempts WHERE task_id = ?1
         AND phase IN ('queued', 'preparing', 'running', 'stopping') LIMIT 1",
    )
    .bind(Text(task))
    .fetch_optional(writing)
    .await?;
    let Some(Text(attempt)) = busy else { return Ok(()) };
    let message = format!("attempt {attempt} of the task is queued or running");
    Err(Refusal::new(Code::AttemptRunning, message)
        .hint(format!("Call stop_attempt with attempt_id = \"{attempt}\", then delete_task again."))
        .detail("attempt_id", attempt.to_string())
        .into())
}

/// Adds where in the file the fault is.
fn misplaced(place: &str, error: StoreError) -> StoreError {
    match error {
        StoreError::Refused(refusal) if refusal.code == Code::TaskNotFound => {
            let message = format!("nothing is imported: {place}: {}", refusal.message);
            Refusal::new(Code::InvalidArgument, message)
                .hint("Mend what the message names in the file, then import it again.")
                .into()
        }
        error => error,
    }
}
