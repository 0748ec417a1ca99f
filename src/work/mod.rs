//! The rules behind the worker API and the comments. Pure: no database, no protocol. A request goes unchanged
//! from the tool to the store, and the transaction that makes the changes also makes the response:
//!
//! ```text
//!   tool ▸ request ▸ domain (who asks, in which project) ▸ store: ONE transaction
//!        ◂ response ◂──────────────────────────────────────┘   by the rules of this folder
//! ```

pub mod answer;
pub mod attention;
pub mod brief;
pub mod cause;
pub mod comments;
pub mod dependencies;
pub mod failure;
pub mod import;
pub mod labels;
pub mod next;
pub mod observation;
pub mod plan;
pub mod question;
pub mod queue;
pub mod reply;
pub mod report;
pub mod report_claims;
pub mod report_history;
pub mod signature;
pub mod suggestion;
pub mod verification;

use provost_actors::ids::{AttemptId, ProjectId};
pub use provost_actors::journal::ReviewState;
use serde::{Deserialize, Serialize};

/// The caller of a worker's tool, and what it may reach: the tasks of one project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// The id of the attempt, or the name that the caller's bridge gives it.
    pub agent: String,
    /// The attempt that the caller works in; `None`: an agent outside of attempts.
    pub attempt_id: Option<AttemptId>,
    pub project_id: ProjectId,
    /// The caller's role allows writes.
    pub may_write: bool,
}

/// What a task is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    Work,
    /// Checks whether another task was done as specified.
    Verification,
    /// Finds out why a test of another task fails.
    Investigation,
    /// Puts a question to an executor; no worker sees it.
    Answer,
}
