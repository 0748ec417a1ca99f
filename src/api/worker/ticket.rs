//! `createTicket`.

use crate::api::args::Text;
use crate::api::worker::late::LateAnswer;
use provost_actors::ids::TicketId;
use provost_actors::journal::Priority;
use provost_actors::refusal::{Code, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub const CREATE_TICKET: &str = "\
Use when: something needs attention that is not your task.
Required: title.
Optional: description, priority, type, task_id, project_id, request_id.
Next: getNextTask, to continue with other work.
Avoid: using it for questions (askQuestion).";

/// What a ticket is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
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

/// How urgent it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Urgency {
    Critical,
    High,
    #[default]
    Medium,
    Low,
}

impl From<Urgency> for Priority {
    fn from(urgency: Urgency) -> Self {
        match urgency {
            Urgency::Critical => Self::Critical,
            Urgency::High => Self::High,
            Urgency::Medium => Self::Medium,
            Urgency::Low => Self::Low,
        }
    }
}

impl From<Priority> for Urgency {
    fn from(priority: Priority) -> Self {
        match priority {
            Priority::Critical => Self::Critical,
            Priority::High => Self::High,
            Priority::Medium => Self::Medium,
            Priority::Low => Self::Low,
        }
    }
}

impl CreateTicketInput {
    /// What the schema does not say.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.kind == CreatedKind::Blocker && self.task_id.is_none() {
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
    /// critical, high, medium or low.
    #[serde(default)]
    pub priority: Urgency,
    /// ticket; blocker (task_id waits for it); alert (for a person).
    #[serde(default, rename = "type")]
    pub kind: CreatedKind,
    /// Related task: TASK-001 or a UUID.
    pub task_id: Option<Text<1, 64>>,
    /// Project id; by default yours.
    pub project_id: Option<Text<1, 64>>,
}

/// The kinds that a worker may open by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CreatedKind {
    #[default]
    Ticket,
    Blocker,
    Alert,
}

impl From<CreatedKind> for TicketKind {
    fn from(kind: CreatedKind) -> Self {
        match kind {
            CreatedKind::Ticket => Self::Ticket,
            CreatedKind::Blocker => Self::Blocker,
            CreatedKind::Alert => Self::Alert,
        }
    }
}

#[apply(output)]
pub struct CreateTicketOutput {
    /// true.
    pub success: bool,
    /// The ticket.
    pub ticket: TicketMade,
    /// Answers to your questions since your last call.
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
    /// open.
    pub status: TicketStatus,
    /// critical, high, medium or low.
    pub priority: Urgency,
    /// The task that it is about: TASK-001.
    pub task_id: Option<String>,
}

tools! {
    /// What the tool about tickets asks of the daemon.
    TicketTools:
    change create_ticket(CreateTicketInput) -> CreateTicketOutput;
}
