//! `createTicket`.

pub use provost_actors::journal::Priority as Urgency;

use crate::api::prelude::*;

/// The description of `createTicket`, by which a model decides whether to call it.
pub const CREATE_TICKET: &str = "\
Use when: something needs attention that is not your task.
Next: getNextTask, to continue with other work.
Avoid: using it for questions (askQuestion).";

/// What a ticket is about.
#[apply(word)]
#[derive(Default, Hash)]
pub enum TicketKind {
    #[default]
    Ticket,
    /// A task looks into it.
    Investigation,
    /// A task waits for it.
    Blocker,
    /// A person is to see it.
    Alert,
}

/// Whether a ticket still waits.
#[apply(word)]
pub enum TicketStatus {
    Open,
    Resolved,
}

impl CreateTicketInput {
    /// Checks what the schema does not say: a blocker needs the task that waits for it.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.kind == TicketKind::Blocker && self.task_id.is_none() {
            let message = "a blocker needs `task_id`, the task that waits for it";
            return Err(Refusal::new(Code::MissingRequired, message)
                .hint("Call createTicket again with task_id from getNextTask.")
                .detail("path", "task_id"));
        }
        Ok(())
    }
}

#[apply(input)]
pub struct CreateTicketInput {
    /// Subject, 1 to 300 characters.
    pub title: Text<1, 300>,
    /// What is known about it.
    pub description: Option<Text<0, 20_000>>,
    #[serde(default)]
    pub priority: Priority,
    /// ticket; blocker (task_id waits for it); alert (for a person).
    // A worker opens no investigation by itself.
    #[serde(default, rename = "type")]
    #[schemars(with = "CreatedKinds")]
    pub kind: TicketKind,
    /// Related task: TASK-001 or a UUID.
    pub task_id: Option<Text<1, 64>>,
    pub project_id: Option<ProjectName>,
}

#[apply(output)]
pub struct CreateTicketOutput {
    pub success: bool,
    /// The ticket.
    pub ticket: TicketMade,
    pub answers: Vec<LateAnswer>,
}

#[apply(camel_output)]
pub struct TicketMade {
    /// Its handle: TK-001.
    pub id: String,
    /// Its id, a UUID.
    pub ticket_id: TicketId,
    /// What it is about.
    pub title: String,
    pub status: TicketStatus,
    pub priority: Priority,
    /// The task that it is about: TASK-001.
    pub task_id: Option<String>,
}
