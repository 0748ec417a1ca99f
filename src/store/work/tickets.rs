//! Tickets: opened by reports and workers, resolved by a person or when a task is done.

use async_trait::async_trait;
use provost_actors::ids::{TaskId, TicketId};
use serde_json::json;

use super::{Submission, Worker, WorkerCall, deliveries, reports, scope};
use crate::api::worker::ticket::{
    CreateTicketInput, CreateTicketOutput, TicketKind, TicketMade, TicketStatus, Urgency,
};
use crate::store::{Db, Result, Sql, handles, now};

/// A ticket to be opened. By default it waits for a person, whatever happens to the task that it is about.
#[derive(Clone, Debug, Default)]
pub struct NewTicket<'a> {
    pub kind: TicketKind,
    pub title: &'a str,
    pub description: Option<&'a str>,
    pub priority: Urgency,
    /// The task that resolves the ticket when it is done.
    pub task: Option<TaskId>,
    /// The task that the ticket blocks.
    pub blocks: Option<TaskId>,
}

/// Opens a ticket; returns its id and handle.
pub async fn open(db: Db<'_>, worker: &Worker, new: NewTicket<'_>) -> Result<(TicketId, String)> {
    let id = TicketId::new();
    let handle = handles::next(db, worker.project_id, handles::TICKET).await?;
    let row = json!({
        "ticket_id": id, "project_id": worker.project_id, "handle": handle, "kind": new.kind,
        "title": new.title, "description": new.description, "priority": new.priority,
        "status": TicketStatus::Open, "task_id": new.task, "blocks_task_id": new.blocks,
        "attempt_id": worker.attempt_id, "agent": worker.agent,
        "opened_at": now(),
    });
    db.insert("INTO tickets", row).await?;
    Ok((id, handle))
}

/// Resolves the tickets that wait for this task, and those that blocked it and that no other task resolves.
/// Returns how many, and the tasks that they blocked.
pub async fn resolve_linked(
    db: Db<'_>,
    task: TaskId,
    resolution: &str,
) -> Result<(u64, Vec<TaskId>)> {
    let sql = "UPDATE tickets SET status = $2, resolution = $3, resolved_at = $4
         WHERE status = 'open'
           AND (task_id = $1 OR (blocks_task_id = $1 AND task_id IS NULL)) RETURNING blocks_task_id";
    let waited: Vec<Option<TaskId>> =
        db.all(sql, (task, TicketStatus::Resolved, resolution, now())).await?;
    Ok((waited.len() as u64, waited.into_iter().flatten().collect()))
}

/// The handles of the open tickets that block a task.
pub async fn blocking(db: Db<'_>, task: TaskId) -> Result<Vec<String>> {
    let sql = "SELECT handle FROM tickets WHERE blocks_task_id = $1 AND status = 'open'
         ORDER BY ticket_id";
    db.all(sql, (task,)).await
}

#[async_trait]
impl WorkerCall for CreateTicketInput {
    const TOOL: &'static str = "createTicket";
    type Output = CreateTicketOutput;

    async fn take(
        &self,
        db: Db<'_>,
        worker: &Worker,
        _: Option<&Submission>,
    ) -> Result<Self::Output> {
        self.check()?;
        let is_blocker = self.kind == TicketKind::Blocker;
        let task = match &self.task_id {
            // A blocker stops its task, so the worker must be allowed to change the task.
            Some(name) if is_blocker => Some(scope::changeable_task(db, worker, name).await?),
            Some(name) => Some(scope::task(db, worker, name).await?),
            None => None,
        };
        // A blocker must not be resolved by the very task that waits for it.
        let about = task.as_ref().map(|task| task.task_id);
        let new = NewTicket {
            kind: self.kind,
            title: &self.title,
            description: self.description.as_deref(),
            priority: self.priority,
            task: about.filter(|_| !is_blocker),
            blocks: about.filter(|_| is_blocker),
        };
        let (ticket_id, id) = open(db, worker, new).await?;
        reports::record(db, worker, self, about, None, &[]).await?;
        Ok(CreateTicketOutput {
            success: true,
            ticket: TicketMade {
                id,
                ticket_id,
                title: self.title.to_string(),
                status: TicketStatus::Open,
                priority: self.priority,
                task_id: task.map(|task| task.handle),
            },
            answers: deliveries::deliver_due(db, worker, None).await?,
        })
    }
}
