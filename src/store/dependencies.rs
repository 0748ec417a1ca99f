//! The dependencies of tasks: resolved by name, written, and kept free of cycles.

use std::collections::{BTreeSet, HashMap};

use provost_actors::ids::{ProjectId, TaskId, TaskRef};
use provost_actors::journal::Unmet;
use provost_actors::refusal::{Code, Refusal};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::codec::{Columns, Text};
use super::{Result, Writing, missing};
use crate::work::dependencies::cycle;

/// The tasks that a task depends on.
pub(super) async fn of(writing: Writing<'_>, task: TaskId) -> Result<Vec<TaskId>> {
    let on: Vec<Text<TaskId>> = sqlx::query_scalar(
        "SELECT depends_on FROM task_dependencies WHERE task_id = ?1 ORDER BY depends_on",
    )
    .bind(Text(task))
    .fetch_all(writing)
    .await?;
    Ok(on.into_iter().map(|Text(task)| task).collect())
}

/// The dependencies of a task that are not done.
pub(super) async fn unmet(reading: Writing<'_>, task: TaskId) -> Result<Vec<Unmet>> {
    let unmet = |row: SqliteRow| {
        Ok(Unmet {
            task_id: row.text("task_id")?,
            handle: row.try_get("handle")?,
            running: row.maybe_text("running")?,
        })
    };
    Ok(sqlx::query(
        "SELECT t.task_id, t.handle,
                (SELECT a.attempt_id FROM attempts a
                 WHERE a.task_id = t.task_id AND a.phase NOT IN ('settled', 'idle')
                 ORDER BY a.created_at DESC LIMIT 1) AS running
         FROM task_dependencies d JOIN tasks t ON t.task_id = d.depends_on
         WHERE d.task_id = ?1 AND t.status <> 'done' AND t.deleted_at IS NULL
         ORDER BY t.task_id",
    )
    .bind(Text(task))
    .try_map(unmet)
    .fetch_all(reading)
    .await?)
}

/// The tasks of a project's board that are named, each once.
pub(super) async fn resolve(
    writing: Writing<'_>,
    project: ProjectId,
    names: &[TaskRef],
) -> Result<Vec<TaskId>> {
    let mut tasks = BTreeSet::new();
    for name in names {
        let found: Option<Text<TaskId>> = sqlx::query_scalar(
            "SELECT task_id FROM tasks
             WHERE project_id = ?1 AND (task_id = ?2 OR handle = ?2) AND deleted_at IS NULL",
        )
        .bind(Text(project))
        .bind(Text(name))
        .fetch_optional(&mut *writing)
        .await?;
        let Some(Text(task)) = found else {
            return Err(missing::task(name)
                .hint("Call the tool again with depends_on from list_tasks.")
                .detail("path", "depends_on")
                .into());
        };
        tasks.insert(task);
    }
    Ok(tasks.into_iter().collect())
}

/// Lets a new task depend on others. Nothing depends on it yet, so there is no cycle.
pub(super) async fn add(writing: Writing<'_>, task: TaskId, depends_on: &[TaskId]) -> Result<()> {
    for dependency in depends_on {
        sqlx::query(
            "INSERT OR IGNORE INTO task_dependencies (task_id, depends_on) VALUES (?1, ?2)",
        )
        .bind(Text(task))
        .bind(Text(dependency))
        .execute(&mut *writing)
        .await?;
    }
    Ok(())
}

/// Lets a task depend on these alone, unless there would be a cycle.
pub(super) async fn replace(
    writing: Writing<'_>,
    project: ProjectId,
    task: TaskId,
    depends_on: &[TaskId],
) -> Result<()> {
    sqlx::query("DELETE FROM task_dependencies WHERE task_id = ?1")
        .bind(Text(task))
        .execute(&mut *writing)
        .await?;
    add(writing, task, depends_on).await?;
    refuse_cycle(writing, project, task).await
}

async fn refuse_cycle(writing: Writing<'_>, project: ProjectId, task: TaskId) -> Result<()> {
    let rows: Vec<(Text<TaskId>, Text<TaskId>)> = sqlx::query_as(
        "SELECT task_id, depends_on FROM task_dependencies
         WHERE task_id IN (SELECT task_id FROM tasks WHERE project_id = ?1)",
    )
    .bind(Text(project))
    .fetch_all(&mut *writing)
    .await?;
    let mut edges: HashMap<TaskId, Vec<TaskId>> = HashMap::new();
    for (Text(from), Text(to)) in rows {
        edges.entry(from).or_default().push(to);
    }
    let Some(path) = cycle(&edges, task) else { return Ok(()) };
    let mut handles: Vec<String> = Vec::new();
    for task in &path {
        let handle = sqlx::query_scalar("SELECT handle FROM tasks WHERE task_id = ?1")
            .bind(Text(task))
            .fetch_one(&mut *writing)
            .await?;
        handles.push(handle);
    }
    let message = format!("the dependencies would form a cycle: {}", handles.join(" -> "));
    let path: Vec<String> = path.iter().map(ToString::to_string).collect();
    Err(Refusal::new(Code::DependencyCycle, message).detail("cycle", path).into())
}
