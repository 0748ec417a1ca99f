//! `getNextTask`: shows the next task, or claims it.

use provost_actors::event::Timestamp;
use provost_actors::ids::{ProjectId, TaskId};
use provost_actors::journal::{Key, Once, Priority, TaskStatus};
use provost_actors::refusal::Refusal;
use sqlx::{Connection, FromRow};

use super::{deliveries, leases, queue, tickets};
use crate::api::brief::{Brief, PlanReference};
use crate::api::worker::next::{
    GetNextTaskInput, GetNextTaskOutput, NextTask, TaskPreview, TaskState,
};
use crate::store::codec::Text;
use crate::store::write_retry::Patience;
use crate::store::{Result, Store, Writing};
use crate::work::Worker;
use crate::work::next::PREVIEWS;
use crate::work::queue::{Hold, Open, pick};

/// What is shown of a task, from its row.
#[derive(FromRow)]
struct Row {
    handle: String,
    title: String,
    description: Option<String>,
    priority: Text<Priority>,
    status: Text<TaskStatus>,
    brief: Option<String>,
    reason: Option<String>,
    blocked_reason: Option<String>,
    /// Whether this agent has a lease of it that lives, and until when.
    has_lease: bool,
    expires_at: Option<i64>,
}

impl Store {
    /// `getNextTask`, which changes nothing.
    pub async fn next_task(
        &self,
        worker: &Worker,
        input: &GetNextTaskInput,
    ) -> Result<GetNextTaskOutput, Refusal> {
        self.read(async |reading| {
            // One snapshot, so that the queue and what is shown of its tasks fit together.
            let mut reading = reading.begin().await?;
            let queue = Queue::of(&mut reading, worker, input).await?;
            show(&mut reading, worker, input, &queue).await
        })
        .await
    }

    /// `getNextTask` with `claim`: the first ready task is the worker's from now on.
    pub async fn claim_next_task(
        &self,
        key: Option<&Key>,
        worker: &Worker,
        input: &GetNextTaskInput,
    ) -> Result<Once<GetNextTaskOutput>, Refusal> {
        self.keyed(Patience::Caller, key, "getNextTask", async |writing| {
            let mut queue = Queue::of(writing, worker, input).await?;
            if let Some(task) = &mut queue.first {
                // Its own is held by its attempt.
                if task.hold != Hold::Own {
                    leases::take(writing, worker, task.task_id, self.times.claims).await?;
                    task.hold = Hold::Held;
                }
                begin(writing, task).await?;
            }
            let shown = show(writing, worker, input, &queue).await?;
            let answers = deliveries::tell_due(writing, worker, None).await?;
            Ok(GetNextTaskOutput { answers, ..shown })
        })
        .await
    }
}

/// The tasks that are asked for.
struct Queue {
    /// The first of the priority that is wanted.
    first: Option<Open>,
    /// Those of any priority, in their order, without it.
    others: Vec<Open>,
}

impl Queue {
    async fn of(reading: Writing<'_>, worker: &Worker, input: &GetNextTaskInput) -> Result<Self> {
        let open = queue::open(reading, worker).await?;
        let (first, others) = pick(&open, input.filter, input.priority.map(Into::into));
        Ok(Self { first: first.cloned(), others: others.into_iter().cloned().collect() })
    }
}

/// A task is begun. One that was paused goes on.
async fn begin(writing: Writing<'_>, task: &mut Open) -> Result<()> {
    task.status = TaskStatus::InProgress;
    sqlx::query(
        "UPDATE tasks SET status = ?2, standing = nullif(standing, 'paused'), updated_at = ?3
         WHERE task_id = ?1",
    )
    .bind(Text(task.task_id))
    .bind(Text(task.status))
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await?;
    Ok(())
}

async fn show(
    reading: Writing<'_>,
    worker: &Worker,
    input: &GetNextTaskInput,
    queue: &Queue,
) -> Result<GetNextTaskOutput> {
    let task = match &queue.first {
        Some(first) => Some(whole(reading, worker, input, first).await?),
        None => None,
    };
    let mut next_tasks_preview = Vec::new();
    for open in queue.others.iter().take(PREVIEWS) {
        let (id, title): (String, String) =
            sqlx::query_as("SELECT handle, title FROM tasks WHERE task_id = ?1")
                .bind(Text(open.task_id))
                .fetch_one(&mut *reading)
                .await?;
        next_tasks_preview.push(TaskPreview { id, title, priority: open.priority });
    }
    Ok(GetNextTaskOutput {
        success: true,
        task,
        queue_length: queue.others.len() + usize::from(queue.first.is_some()),
        next_tasks_preview,
        answers: Vec::new(),
    })
}

async fn whole(
    reading: Writing<'_>,
    worker: &Worker,
    input: &GetNextTaskInput,
    open: &Open,
) -> Result<NextTask> {
    let row: Row = sqlx::query_as(
        "SELECT t.handle, t.title, t.description, t.priority, t.status, t.brief, t.reason,
                t.blocked_reason, l.expires_at,
                EXISTS (SELECT 1 FROM task_holders h
                        WHERE h.task_id = t.task_id AND h.agent = ?2) AS has_lease
         FROM tasks t LEFT JOIN leases l ON l.task_id = t.task_id AND l.agent = ?2
         WHERE t.task_id = ?1",
    )
    .bind(Text(open.task_id))
    .bind(&worker.agent)
    .fetch_one(&mut *reading)
    .await?;
    let on = depends_on(reading, open.task_id).await?;
    let mut blocked_by: Vec<String> =
        on.iter().filter(|(_, is_done)| !is_done).map(|(handle, _)| handle.clone()).collect();
    blocked_by.extend(tickets::blocking(reading, open.task_id).await?);
    let brief = row.brief.as_deref().and_then(Brief::kept).unwrap_or_default();
    let plan_reference = match brief.plan_reference.clone() {
        Some(named) => named,
        None => newest_plan(reading, worker.project_id).await?.unwrap_or_default(),
    };
    let description = row.description.unwrap_or_default();
    let made_of = if description.is_empty() { &row.title } else { &description };
    let is_claimed = row.has_lease || open.hold == Hold::Own;
    Ok(NextTask {
        super_detailed_prompt: input.prompt(&brief, made_of),
        estimated_hours: brief.hours().unwrap_or_else(|| 0.into()),
        plan_reference,
        related_tasks: brief.related_tasks,
        task_id: row.handle,
        title: row.title,
        priority: row.priority.0,
        status: if is_claimed {
            TaskState::InProgress
        } else {
            TaskState::of(row.status.0, open.place())
        },
        dependencies: on.into_iter().map(|(handle, _)| handle).collect(),
        blocked_by,
        description,
        uuid: open.task_id,
        reason: row.reason,
        blocked_reason: row.blocked_reason,
        claimed: is_claimed,
        claimed_until: row.expires_at.filter(|_| row.has_lease).map(Timestamp::from_millis),
    })
}

/// What a task depends on, by handle, and whether it is done.
async fn depends_on(reading: Writing<'_>, task: TaskId) -> Result<Vec<(String, bool)>> {
    Ok(sqlx::query_as(
        "SELECT o.handle, o.status = 'done' FROM task_dependencies d
         JOIN tasks o ON o.task_id = d.depends_on
         WHERE d.task_id = ?1 AND o.deleted_at IS NULL ORDER BY o.task_id",
    )
    .bind(Text(task))
    .fetch_all(reading)
    .await?)
}

/// Where a brief names no plan: the project's newest, if it has any.
async fn newest_plan(reading: Writing<'_>, project: ProjectId) -> Result<Option<PlanReference>> {
    let newest: Option<(String, String)> = sqlx::query_as(
        "SELECT name, version FROM plans WHERE project_id = ?1 ORDER BY plan_id DESC LIMIT 1",
    )
    .bind(Text(project))
    .fetch_optional(reading)
    .await?;
    Ok(newest.map(|(plan_id, version)| PlanReference {
        plan_id,
        version,
        affected_sections: Vec::new(),
    }))
}
