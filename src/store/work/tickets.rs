//! Tickets: opened by reports and workers, resolved when a task is done or by a person.

use provost_actors::event::Timestamp;
use provost_actors::ids::{TaskId, TicketId};
use provost_actors::journal::{Key, Once};
use provost_actors::refusal::Refusal;

use super::deliveries;
use super::reports::{self, Report};
use super::scope;
use crate::api::worker::ticket::{
    CreateTicketInput, CreateTicketOutput, CreatedKind, TicketKind, TicketMade, TicketStatus,
    Urgency,
};
use crate::store::codec::Text;
use crate::store::handles::{self, Prefix};
use crate::store::write_retry::Patience;
use crate::store::{Result, Store, Writing};
use crate::work::Worker;

/// A ticket to be opened.
#[derive(Clone, Debug)]
pub struct NewTicket<'a> {
    pub kind: TicketKind,
    pub title: &'a str,
    pub description: Option<&'a str>,
    pub priority: Urgency,
    /// The task whose doing resolves it.
    pub task: Option<TaskId>,
    /// The task that waits for it.
    pub blocks: Option<TaskId>,
}

/// Opens a ticket that waits for a person, whatever becomes of the task it is about.
pub async fn open_for_person(
    writing: Writing<'_>,
    worker: &Worker,
    kind: TicketKind,
    priority: Urgency,
    title: &str,
    description: &str,
) -> Result<(TicketId, String)> {
    let description = Some(description);
    let new = NewTicket { kind, title, description, priority, task: None, blocks: None };
    open(writing, worker, new).await
}

/// Opens a ticket; gives its id and handle.
pub async fn open(
    writing: Writing<'_>,
    worker: &Worker,
    new: NewTicket<'_>,
) -> Result<(TicketId, String)> {
    let id = TicketId::new();
    let handle = handles::next(writing, worker.project_id, Prefix::Ticket).await?;
    sqlx::query(
        "INSERT INTO tickets (ticket_id, project_id, handle, kind, title, description, priority,
                              status, task_id, blocks_task_id, attempt_id, agent, opened_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )
    .bind(Text(id))
    .bind(Text(worker.project_id))
    .bind(&handle)
    .bind(Text(new.kind))
    .bind(new.title)
    .bind(new.description)
    .bind(Text(new.priority))
    .bind(Text(TicketStatus::Open))
    .bind(new.task.map(Text))
    .bind(new.blocks.map(Text))
    .bind(worker.attempt_id.map(Text))
    .bind(&worker.agent)
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await?;
    Ok((id, handle))
}

/// Resolves the tickets that a task which is done now was to resolve, and those that blocked
/// the task and that no other task resolves. Gives how many, and the tasks they blocked.
pub async fn resolve_linked(
    writing: Writing<'_>,
    task: TaskId,
    resolution: &str,
) -> Result<(u64, Vec<TaskId>)> {
    let waited: Vec<Option<Text<TaskId>>> = sqlx::query_scalar(
        "UPDATE tickets SET status = ?2, resolution = ?3, resolved_at = ?4
         WHERE status = 'open'
           AND (task_id = ?1 OR (blocks_task_id = ?1 AND task_id IS NULL)) RETURNING blocks_task_id",
    )
    .bind(Text(task))
    .bind(Text(TicketStatus::Resolved))
    .bind(resolution)
    .bind(Timestamp::now().millis())
    .fetch_all(writing)
    .await?;
    let count = u64::try_from(waited.len()).unwrap_or(u64::MAX);
    Ok((count, waited.into_iter().flatten().map(|Text(task)| task).collect()))
}

/// The open tickets that block a task.
pub async fn blocking(reading: Writing<'_>, task: TaskId) -> Result<Vec<String>> {
    Ok(sqlx::query_scalar(
        "SELECT handle FROM tickets WHERE blocks_task_id = ?1 AND status = 'open'
         ORDER BY ticket_id",
    )
    .bind(Text(task))
    .fetch_all(reading)
    .await?)
}

impl Store {
    /// `createTicket`.
    pub async fn create_ticket(
        &self,
        key: Option<&Key>,
        worker: &Worker,
        input: &CreateTicketInput,
    ) -> Result<Once<CreateTicketOutput>, Refusal> {
        input.check()?;
        self.keyed(Patience::Caller, key, "create_ticket", async |writing| {
            let is_blocker = input.kind == CreatedKind::Blocker;
            let task = match &input.task_id {
                // A blocker holds up its task.
                Some(name) if is_blocker => {
                    Some(scope::task_of_theirs(writing, worker, name).await?)
                }
                Some(name) => Some(scope::task(writing, worker, name).await?),
                None => None,
            };
            // A blocker is not resolved by the task that waits for it.
            let about = task.as_ref().map(|task| task.task_id);
            let new = NewTicket {
                kind: input.kind.into(),
                title: &input.title,
                description: input.description.as_deref(),
                priority: input.priority,
                task: about.filter(|_| !is_blocker),
                blocks: about.filter(|_| is_blocker),
            };
            let (ticket_id, id) = open(writing, worker, new).await?;
            let report = Report {
                tool: "createTicket",
                task: about,
                status: None,
                body: input,
                warnings: &[],
            };
            reports::record(writing, worker, report).await?;
            Ok(CreateTicketOutput {
                success: true,
                ticket: TicketMade {
                    id,
                    ticket_id,
                    title: input.title.to_string(),
                    status: TicketStatus::Open,
                    priority: input.priority,
                    task_id: task.map(|task| task.handle),
                },
                answers: deliveries::tell_due(writing, worker, None).await?,
            })
        })
        .await
    }
}
