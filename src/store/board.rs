//! Changes of the board by people and orchestrators: `create_task`, `update_task`, `delete_task` and the
//! import of many tasks. Each is one transaction with its consequences: tickets are resolved, and tasks that
//! nothing blocks any more are unblocked.

use provost_actors::ids::{AttemptId, ProjectId, TaskId, TaskRef};
use provost_actors::journal::{Idempotent, Key};

use super::tasks::{self, Draft, load};
use super::work::{after_done, after_removed, let_go};
use super::{
    Code, Db, Refusal, Result, RetryBudget, Sql, Store, StoreError, dependencies, now, projects,
};
use crate::api::brief::{Brief, GivenBrief};
use crate::api::commands::ImportedTask;
use crate::api::tasks::{CreateTaskInput, Task, TaskStatus, UpdateTaskInput};
use crate::work::import::{On, Planned};

/// The stored form of an empty brief. In an update, an empty brief removes the task's brief.
const NO_BRIEF: &str = "{}";

/// The stored form of a brief in a call; `None`: the call gives no brief. Refuses an invalid one.
fn kept(given: Option<&GivenBrief>) -> Result<Option<String>> {
    Ok(given.map(|given| given.clone().check().map(|brief| brief.to_json())).transpose()?)
}

impl Store {
    /// `create_task`. Returns the id and the handle of the task.
    pub async fn create_task(
        &self,
        key: Option<&Key>,
        input: &CreateTaskInput,
    ) -> Result<(Idempotent<TaskId>, String), Refusal> {
        let mut handle = None;
        let made = self.keyed(RetryBudget::Long, key, "create_task", async |db| {
            if !input.depends_on.is_empty() {
                // Checked first: otherwise the refusal would name the dependency instead of the missing
                // project.
                projects::require(db, input.project_id).await?;
            }
            let depends_on = dependencies::resolve(db, input.project_id, &input.depends_on).await?;
            let draft = Draft {
                description: input.description.as_deref(),
                brief: kept(input.brief.as_ref())?.filter(|brief| brief != NO_BRIEF),
                depends_on: &depends_on,
                ..Draft::new(input.project_id, &input.title, input.priority)
            };
            let (task, its) = tasks::insert(db, &draft).await?;
            handle = Some(its);
            Ok(task)
        });
        let made = made.await?;
        let handle = match handle {
            Some(handle) => handle,
            // An earlier call with the same key made the task.
            None => self.handle_of(made.value).await?,
        };
        Ok((made, handle))
    }

    /// `update_task`. A new status comes from the caller: it replaces what a report or an attempt made of the
    /// task, and clears the review state.
    pub async fn update_task(
        &self,
        key: Option<&Key>,
        input: &UpdateTaskInput,
    ) -> Result<Idempotent<Task>, Refusal> {
        let task = input.task_id;
        self.keyed(RetryBudget::Long, key, "update_task", async |db| {
            let before = load(db, task).await?;
            if let Some(depends_on) = &input.depends_on {
                let on = dependencies::resolve(db, before.project_id, depends_on).await?;
                dependencies::replace(db, before.project_id, task, &on).await?;
            }
            write_change(db, input).await?;
            // Back on the board, or closed: all claims of workers on the task end.
            if matches!(
                input.status,
                Some(TaskStatus::Todo | TaskStatus::Done | TaskStatus::Cancelled)
            ) {
                let_go(db, task).await?;
            }
            if input.status == Some(TaskStatus::Done) {
                after_done(db, task, &before.summary.handle).await?;
            }
            load(db, task).await
        })
        .await
    }

    /// `delete_task`. Deleting a second time gives the same answer; only an id that was never given out is
    /// not found. The row stays, because the attempts of the task stay readable.
    pub async fn delete_task(
        &self,
        key: Option<&Key>,
        task: TaskId,
    ) -> Result<Idempotent<TaskId>, Refusal> {
        self.keyed(RetryBudget::Long, key, "delete_task", async |db| {
            tasks::require_known(db, task).await?;
            refuse_while_running(db, task).await?;
            let sql = "UPDATE tasks SET deleted_at = $2, updated_at = $2
                 WHERE task_id = $1 AND deleted_at IS NULL";
            db.run(sql, (task, now())).await?;
            after_removed(db, task).await?;
            Ok(task)
        })
        .await
    }

    /// Makes all tasks that a file plans, or none of them.
    pub async fn import_tasks(
        &self,
        key: Option<&Key>,
        project: ProjectId,
        planned: &[Planned],
    ) -> Result<Idempotent<Vec<ImportedTask>>, Refusal> {
        self.keyed(RetryBudget::Long, key, "import_tasks", async |db| {
            projects::require(db, project).await?;
            let mut made = Vec::with_capacity(planned.len());
            for Planned { id, title, description, priority, brief, .. } in planned {
                let draft = Draft {
                    description: description.as_deref(),
                    brief: brief.as_ref().map(Brief::to_json),
                    ..Draft::new(project, title, *priority)
                };
                let task_id = TaskId::new();
                let handle = tasks::insert_as(db, task_id, &draft).await?;
                let (title, name) = (title.clone(), id.clone());
                made.push(ImportedTask { task_id, handle, title, name });
            }
            // All of them exist now, so they can depend on each other in any order.
            for (Planned { place, depends_on, .. }, ImportedTask { task_id, .. }) in
                planned.iter().zip(&made)
            {
                let named = |on: &On| match on {
                    On::Planned(number) => Ok(TaskRef::Id(made[*number].task_id)),
                    On::Board(name) => {
                        TaskRef::try_from(name.clone()).map_err(|_| unknown(place, name))
                    }
                };
                let names = depends_on.iter().map(named).collect::<Result<Vec<_>, _>>()?;
                let on = dependencies::resolve(db, project, &names).await;
                let on = on.map_err(|error| misplaced(place, error))?;
                dependencies::add(db, *task_id, &on).await?;
            }
            Ok(made)
        })
        .await
    }
}

async fn write_change(db: Db<'_>, input: &UpdateTaskInput) -> Result<u64> {
    let UpdateTaskInput { task_id, title, description, status, priority, brief, .. } = input;
    let sql = "UPDATE tasks SET title = coalesce($2, title),
                description = coalesce($3, description), status = coalesce($4, status),
                priority = coalesce($5, priority),
                standing = CASE WHEN $4 IS NULL THEN standing END,
                blocked_reason = CASE WHEN $4 IS NULL THEN blocked_reason END,
                begun_revision = CASE WHEN $4 IS NULL THEN begun_revision END,
                brief = nullif(coalesce($6, brief), $7), updated_at = $8
         WHERE task_id = $1";
    let (title, description) = (title.as_deref(), description.as_deref());
    let brief = kept(brief.as_ref())?;
    db.run(sql, (task_id, title, description, status, priority, brief, NO_BRIEF, now())).await
}

async fn refuse_while_running(db: Db<'_>, task: TaskId) -> Result<()> {
    let sql = "SELECT attempt_id FROM attempts WHERE task_id = $1
         AND phase IN ('queued', 'preparing', 'running', 'stopping') LIMIT 1";
    let busy: Option<AttemptId> = db.find(sql, (task,)).await?;
    let Some(attempt) = busy else { return Ok(()) };
    let message = format!("attempt {attempt} of the task is queued or running");
    Err(Refusal::new(Code::AttemptRunning, message)
        .hint(format!("Call stop_attempt with attempt_id = \"{attempt}\", then delete_task again."))
        .detail("attempt_id", attempt.to_string())
        .into())
}

fn unknown(place: &str, name: &str) -> Refusal {
    not_imported(&format!(
        "{place}: it depends on {name:?}, which neither the file nor the board has"
    ))
}

fn misplaced(place: &str, error: StoreError) -> StoreError {
    match error {
        StoreError::Refused(refusal) if refusal.code == Code::TaskNotFound => {
            not_imported(&format!("{place}: {}", refusal.message)).into()
        }
        error => error,
    }
}

fn not_imported(why: &str) -> Refusal {
    Refusal::new(Code::InvalidArgument, format!("nothing is imported: {why}"))
        .hint("Fix what the message names in the file, then import it again.")
}
