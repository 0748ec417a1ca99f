//! `getNextTask`: shows the next task, or claims it.

use provost_actors::event::Timestamp;
use provost_actors::ids::{ProjectId, TaskId};
use provost_actors::journal::{Idempotent, Key, Priority, TaskStatus};
use serde::Deserialize;

use super::{Worker, deliveries, leases, queue, tickets};
use crate::api::brief::{Brief, PlanReference};
use crate::api::worker::next::{
    GetNextTaskInput, GetNextTaskOutput, NextTask, TaskPreview, TaskState,
};
use crate::store::{Db, Refusal, Result, RetryBudget, Sql, Store, now};
use crate::work::next::PREVIEWS;
use crate::work::queue::{Claim, OpenTask, pick};

#[derive(Deserialize)]
struct Row {
    handle: String,
    title: String,
    description: Option<String>,
    priority: Priority,
    brief: Option<String>,
    reason: Option<String>,
    blocked_reason: Option<String>,
    /// Whether this agent has a valid lease of the task, and until when.
    has_lease: bool,
    expires_at: Option<Timestamp>,
}

impl Store {
    /// `getNextTask`; changes nothing.
    pub async fn next_task(
        &self,
        worker: &Worker,
        input: &GetNextTaskInput,
    ) -> Result<GetNextTaskOutput, Refusal> {
        // One snapshot, so that the queue and the details of its tasks fit together.
        self.read_snapshot(async |db| {
            let open = queue::open(db, worker).await?;
            let (first, others) = pick(&open, input.filter, input.priority);
            show(db, worker, input, first, &others).await
        })
        .await
    }

    /// `getNextTask` with `claim`: gives the first ready task to the worker.
    pub async fn claim_next_task(
        &self,
        key: Option<&Key>,
        worker: &Worker,
        input: &GetNextTaskInput,
    ) -> Result<Idempotent<GetNextTaskOutput>, Refusal> {
        self.keyed(RetryBudget::Short, key, "getNextTask", async |db| {
            let open = queue::open(db, worker).await?;
            let (first, others) = pick(&open, input.filter, input.priority);
            let mut first = first.cloned();
            if let Some(task) = &mut first {
                // The worker's own task is held by its attempt, without a lease.
                if task.claim != Claim::Own {
                    leases::take(db, worker, task.task_id, self.times.claims).await?;
                    task.claim = Claim::Held;
                }
                begin(db, task).await?;
            }
            let shown = show(db, worker, input, first.as_ref(), &others).await?;
            let answers = deliveries::deliver_due(db, worker, None).await?;
            Ok(GetNextTaskOutput { answers, ..shown })
        })
        .await
    }
}

/// Sets a claimed task in progress.
async fn begin(db: Db<'_>, task: &mut OpenTask) -> Result<()> {
    task.status = TaskStatus::InProgress;
    let sql = "UPDATE tasks SET status = $2, standing = nullif(standing, 'paused'), updated_at = $3
         WHERE task_id = $1";
    db.run(sql, (task.task_id, task.status, now())).await?;
    Ok(())
}

async fn show(
    db: Db<'_>,
    worker: &Worker,
    input: &GetNextTaskInput,
    first: Option<&OpenTask>,
    others: &[&OpenTask],
) -> Result<GetNextTaskOutput> {
    let task = match first {
        Some(first) => Some(whole(db, worker, input, first).await?),
        None => None,
    };
    let mut next_tasks_preview = Vec::new();
    for open in others.iter().take(PREVIEWS) {
        let sql = "SELECT handle, title FROM tasks WHERE task_id = $1";
        let (id, title): (String, String) = db.one(sql, (open.task_id,)).await?;
        next_tasks_preview.push(TaskPreview { id, title, priority: open.priority });
    }
    Ok(GetNextTaskOutput {
        success: true,
        task,
        queue_length: others.len() + usize::from(first.is_some()),
        next_tasks_preview,
        answers: Vec::new(),
    })
}

/// Everything that a worker gets to know about its next task. Without a description, the title says what is
/// to be made.
async fn whole(
    db: Db<'_>,
    worker: &Worker,
    input: &GetNextTaskInput,
    open: &OpenTask,
) -> Result<NextTask> {
    let sql = "SELECT t.handle, t.title, t.description, t.priority, t.brief, t.reason,
                t.blocked_reason, l.expires_at,
                EXISTS (SELECT 1 FROM task_holders h
                        WHERE h.task_id = t.task_id AND h.agent = $2) AS has_lease
         FROM tasks t LEFT JOIN leases l ON l.task_id = t.task_id AND l.agent = $2
         WHERE t.task_id = $1";
    let row: Row = db.one(sql, (open.task_id, &worker.agent)).await?;
    let on = depends_on(db, open.task_id).await?;
    let mut blocked_by: Vec<String> =
        on.iter().filter(|(_, is_done)| !is_done).map(|(handle, _)| handle.clone()).collect();
    blocked_by.extend(tickets::blocking(db, open.task_id).await?);
    let brief = row.brief.as_deref().and_then(Brief::kept).unwrap_or_default();
    let plan_reference = match brief.plan_reference.clone() {
        Some(named) => named,
        None => newest_plan(db, worker.project_id).await?.unwrap_or_default(),
    };
    let description = row.description.unwrap_or_default();
    let made_of = if description.is_empty() { &row.title } else { &description };
    let is_claimed = row.has_lease || open.claim == Claim::Own;
    Ok(NextTask {
        super_detailed_prompt: input.prompt(&brief, made_of),
        estimated_hours: brief.hours().unwrap_or_else(|| 0.into()),
        plan_reference,
        related_tasks: brief.related_tasks,
        task_id: row.handle,
        title: row.title,
        priority: row.priority,
        status: if is_claimed { TaskState::InProgress } else { open.readiness().into() },
        dependencies: on.into_iter().map(|(handle, _)| handle).collect(),
        blocked_by,
        description,
        uuid: open.task_id,
        reason: row.reason,
        blocked_reason: row.blocked_reason,
        claimed: is_claimed,
        claimed_until: row.expires_at.filter(|_| row.has_lease),
    })
}

async fn depends_on(db: Db<'_>, task: TaskId) -> Result<Vec<(String, bool)>> {
    let sql = "SELECT o.handle, o.status = 'done' FROM task_dependencies d
         JOIN tasks o ON o.task_id = d.depends_on
         WHERE d.task_id = $1 AND o.deleted_at IS NULL ORDER BY o.task_id";
    db.all(sql, (task,)).await
}

/// The project's newest plan, for a brief that names none; `None`: the project has no plan.
async fn newest_plan(db: Db<'_>, project: ProjectId) -> Result<Option<PlanReference>> {
    let sql = "SELECT name, version FROM plans WHERE project_id = $1 ORDER BY plan_id DESC LIMIT 1";
    let newest: Option<(String, String)> = db.find(sql, (project,)).await?;
    Ok(newest.map(|(plan_id, version)| PlanReference {
        plan_id,
        version,
        affected_sections: Vec::new(),
    }))
}
