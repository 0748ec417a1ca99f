//! What tasks depend on.

use std::collections::{BTreeSet, HashMap};

use provost_actors::ids::{ProjectId, TaskId, TaskRef};
use provost_actors::refusal::{Code, Refusal};

use super::{Writing, codec, fault, missing};
use crate::work::dependencies::cycle;

/// The tasks that a task depends on.
pub(super) async fn of(writing: Writing<'_>, task: TaskId) -> Result<Vec<TaskId>, Refusal> {
    let rows: Vec<String> = sqlx::query_scalar(
        "SELECT depends_on FROM task_dependencies WHERE task_id = ?1 ORDER BY depends_on",
    )
    .bind(task.to_string())
    .fetch_all(writing)
    .await
    .map_err(fault)?;
    rows.iter().map(|row| codec::id(row)).collect()
}

/// The tasks of a project's board that are named, each once.
pub(super) async fn resolve(
    writing: Writing<'_>,
    project: ProjectId,
    names: &[TaskRef],
) -> Result<Vec<TaskId>, Refusal> {
    let mut tasks = BTreeSet::new();
    for name in names {
        let column = match name {
            TaskRef::Id(_) => "task_id",
            TaskRef::Handle(_) => "handle",
        };
        let found: Option<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(format!(
            "SELECT task_id FROM tasks
             WHERE project_id = ?1 AND {column} = ?2 AND deleted_at IS NULL"
        )))
        .bind(project.to_string())
        .bind(name.to_string())
        .fetch_optional(&mut *writing)
        .await
        .map_err(fault)?;
        let Some(found) = found else {
            return Err(missing::task(name)
                .hint("Call the tool again with depends_on from list_tasks.")
                .detail("path", "depends_on"));
        };
        tasks.insert(codec::id(&found)?);
    }
    Ok(tasks.into_iter().collect())
}

/// Lets a new task depend on others. Nothing depends on it yet: there is no circle.
pub(super) async fn add(
    writing: Writing<'_>,
    task: TaskId,
    depends_on: &[TaskId],
) -> Result<(), Refusal> {
    for dependency in depends_on {
        sqlx::query(
            "INSERT OR IGNORE INTO task_dependencies (task_id, depends_on) VALUES (?1, ?2)",
        )
        .bind(task.to_string())
        .bind(dependency.to_string())
        .execute(&mut *writing)
        .await
        .map_err(fault)?;
    }
    Ok(())
}

/// Lets a task depend on these alone, unless there would be a circle.
pub(super) async fn replace(
    writing: Writing<'_>,
    project: ProjectId,
    task: TaskId,
    depends_on: &[TaskId],
) -> Result<(), Refusal> {
    sqlx::query("DELETE FROM task_dependencies WHERE task_id = ?1")
        .bind(task.to_string())
        .execute(&mut *writing)
        .await
        .map_err(fault)?;
    add(writing, task, depends_on).await?;
    refuse_cycle(writing, project, task).await
}

async fn refuse_cycle(
    writing: Writing<'_>,
    project: ProjectId,
    task: TaskId,
) -> Result<(), Refusal> {
    let rows: Vec<(String, String)> = sqlx::query_as(
        "SELECT task_id, depends_on FROM task_dependencies
         WHERE task_id IN (SELECT task_id FROM tasks WHERE project_id = ?1)",
    )
    .bind(project.to_string())
    .fetch_all(&mut *writing)
    .await
    .map_err(fault)?;
    let mut edges: HashMap<TaskId, Vec<TaskId>> = HashMap::new();
    for (from, to) in rows {
        edges.entry(codec::id(&from)?).or_default().push(codec::id(&to)?);
    }
    let Some(path) = cycle(&edges, task) else { return Ok(()) };
    let mut handles = Vec::new();
    for task in &path {
        handles.push(handle(writing, *task).await?);
    }
    let handles = handles.join(" -> ");
    let message = format!("the dependencies would form a cycle: {handles}");
    let path: Vec<String> = path.iter().map(ToString::to_string).collect();
    Err(Refusal::new(Code::DependencyCycle, message).detail("cycle", path))
}

/// What a task is called in its project.
async fn handle(writing: Writing<'_>, task: TaskId) -> Result<String, Refusal> {
    sqlx::query_scalar("SELECT handle FROM tasks WHERE task_id = ?1")
        .bind(task.to_string())
        .fetch_one(writing)
        .await
        .map_err(fault)
}
