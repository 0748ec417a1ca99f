//! Tickets: opened by reports and workers, resolved by the task that sees to them
//! or by a person.

use provost_actors::event::Timestamp;
use provost_actors::ids::{TaskId, TicketId};
use provost_actors::journal::{Answer, Key};
use provost_actors::refusal::Refusal;

use super::deliveries;
use super::handles::{self, Prefix};
use super::reports::{self, Report};
use super::scope;
use crate::api::worker::ticket::{
    CreateTicketInput, CreateTicketOutput, CreatedKind, TicketKind, TicketMade, TicketStatus,
    Urgency,
};
use crate::store::{Store, Writing, codec, commit, fault, requests};
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

/// Opens a ticket; gives its id and handle.
pub async fn open(
    writing: Writing<'_>,
    worker: &Worker,
    new: NewTicket<'_>,
) -> Result<(TicketId, String), Refusal> {
    let id = TicketId::new();
    let handle = handles::next(writing, worker.project_id, Prefix::Ticket).await?;
    sqlx::query(
        "INSERT INTO tickets (ticket_id, project_id, handle, kind, title, description, priority,
                              status, task_id, blocks_task_id, attempt_id, agent, opened_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )
    .bind(id.to_string())
    .bind(worker.project_id.to_string())
    .bind(&handle)
    .bind(codec::word(&new.kind))
    .bind(new.title)
    .bind(new.description)
    .bind(codec::word(&new.priority))
    .bind(codec::word(&TicketStatus::Open))
    .bind(new.task.map(|task| task.to_string()))
    .bind(new.blocks.map(|task| task.to_string()))
    .bind(worker.attempt_id.map(|attempt| attempt.to_string()))
    .bind(&worker.agent)
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await
    .map_err(fault)?;
    Ok((id, handle))
}

/// Resolves the tickets that wait for a task that is done now, and those that stood in
/// its way and wait for nothing else. Gives how many, and the tasks that waited for them.
pub async fn resolve_linked(
    writing: Writing<'_>,
    task: TaskId,
    resolution: &str,
) -> Result<(u64, Vec<TaskId>), Refusal> {
    let waited: Vec<Option<String>> = sqlx::query_scalar(
        "UPDATE tickets SET status = ?2, resolution = ?3, resolved_at = ?4
         WHERE status = 'open'
           AND (task_id = ?1 OR (blocks_task_id = ?1 AND task_id IS NULL)) RETURNING blocks_task_id",
    )
    .bind(task.to_string())
    .bind(codec::word(&TicketStatus::Resolved))
    .bind(resolution)
    .bind(Timestamp::now().millis())
    .fetch_all(writing)
    .await
    .map_err(fault)?;
    let count = u64::try_from(waited.len()).unwrap_or(u64::MAX);
    let waited = waited.iter().flatten().map(|id| codec::id(id)).collect::<Result<_, _>>()?;
    Ok((count, waited))
}

/// The open tickets that block a task.
pub async fn blocking(reading: Writing<'_>, task: TaskId) -> Result<Vec<String>, Refusal> {
    sqlx::query_scalar(
        "SELECT handle FROM tickets WHERE blocks_task_id = ?1 AND status = 'open'
         ORDER BY ticket_id",
    )
    .bind(task.to_string())
    .fetch_all(reading)
    .await
    .map_err(fault)
}

impl Store {
    /// `createTicket`.
    pub async fn create_ticket(
        &self,
        key: Option<&Key>,
        worker: &Worker,
        input: &CreateTicketInput,
    ) -> Result<Answer<CreateTicketOutput>, Refusal> {
        input.check()?;
        let mut writing = self.writing().await?;
        if let Some(answer) = requests::kept(&mut writing, key).await? {
            return Ok(answer);
        }
        let is_blocker = input.kind == CreatedKind::Blocker;
        let task = match &input.task_id {
            // A blocker holds up its task.
            Some(name) if is_blocker => {
                Some(scope::task_of_theirs(&mut writing, worker, name).await?)
            }
            Some(name) => Some(scope::task(&mut writing, worker, name).await?),
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
        let (ticket_id, id) = open(&mut writing, worker, new).await?;
        let report =
            Report { tool: "createTicket", task: about, status: None, body: input, warnings: &[] };
        reports::record(&mut writing, worker, report).await?;
        let made = CreateTicketOutput {
            success: true,
            ticket: TicketMade {
                id,
                ticket_id,
                title: input.title.to_string(),
                status: TicketStatus::Open,
                priority: input.priority,
                task_id: task.map(|task| task.handle),
            },
            answers: deliveries::tell_due(&mut writing, worker, None).await?,
        };
        let answer = requests::keep(&mut writing, key, made).await?;
        commit(writing, "create_ticket").await?;
        Ok(answer)
    }
}
