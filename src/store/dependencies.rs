//! The dependencies of tasks: found by name, written, and kept free of cycles.

use std::collections::{BTreeSet, HashMap};

use provost_actors::ids::{ProjectId, TaskId, TaskRef};
use provost_actors::journal::Unmet;

use super::{Code, Db, Refusal, Result, Sql, not_found};
use crate::work::dependencies::cycle;

/// The tasks on which `task` still waits: neither done nor deleted.
pub(super) async fn unmet(db: Db<'_>, task: TaskId) -> Result<Vec<Unmet>> {
    let sql = "SELECT t.task_id, t.handle,
                (SELECT a.attempt_id FROM attempts a
                 WHERE a.task_id = t.task_id AND a.phase NOT IN ('settled', 'idle')
                 ORDER BY a.created_at DESC LIMIT 1) AS running
         FROM task_dependencies d JOIN tasks t ON t.task_id = d.depends_on
         WHERE d.task_id = $1 AND t.status <> 'done' AND t.deleted_at IS NULL
         ORDER BY t.task_id";
    db.all(sql, (task,)).await
}

/// The ids of tasks that are named by id or handle, sorted, each once. Refused if one is not on the project's
/// board.
pub(super) async fn resolve<'a>(
    db: Db<'_>,
    project: ProjectId,
    names: impl IntoIterator<Item = &'a TaskRef>,
) -> Result<Vec<TaskId>> {
    let sql = "SELECT task_id FROM tasks
         WHERE project_id = $1 AND (task_id = $2 OR handle = $2) AND deleted_at IS NULL";
    let mut tasks = BTreeSet::new();
    for name in names {
        let Some(task) = db.find(sql, (project, name)).await? else {
            return Err(not_found::task(name)
                .hint("Call the tool again with depends_on from list_tasks.")
                .detail("path", "depends_on")
                .into());
        };
        tasks.insert(task);
    }
    Ok(tasks.into_iter().collect())
}

/// Makes a new task depend on others. No task depends on the new one yet, so no cycle can form.
pub(super) async fn add(db: Db<'_>, task: TaskId, depends_on: &[TaskId]) -> Result<u64> {
    let sql = "INSERT INTO task_dependencies (task_id, depends_on)
         SELECT $1, value FROM json_each($2) WHERE true ON CONFLICT DO NOTHING";
    db.run(sql, (task, depends_on)).await
}

/// Makes a task depend on exactly these. Refused if a cycle would form; the transaction then undoes the
/// change.
pub(super) async fn replace(
    db: Db<'_>,
    project: ProjectId,
    task: TaskId,
    depends_on: &[TaskId],
) -> Result<()> {
    db.run("DELETE FROM task_dependencies WHERE task_id = $1", (task,)).await?;
    add(db, task, depends_on).await?;
    let sql = "SELECT task_id, depends_on FROM task_dependencies
         WHERE task_id IN (SELECT task_id FROM tasks WHERE project_id = $1)";
    let mut edges: HashMap<TaskId, Vec<TaskId>> = HashMap::new();
    for (from, to) in db.all(sql, (project,)).await? {
        edges.entry(from).or_default().push(to);
    }
    let Some(path) = cycle(&edges, [task]) else { return Ok(()) };
    let mut handles: Vec<String> = Vec::new();
    for task in &path {
        handles.push(db.one("SELECT handle FROM tasks WHERE task_id = $1", (task,)).await?);
    }
    let message = format!("the dependencies would form a cycle: {}", handles.join(" -> "));
    let path: Vec<String> = path.iter().map(ToString::to_string).collect();
    Err(Refusal::new(Code::DependencyCycle, message).detail("cycle", path).into())
}
