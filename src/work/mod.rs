//! The rules behind the worker API, and those of comments. Pure: no database, no protocol. A request goes as it is
//! from the tool to the store, and the response comes back from the transaction that made it
//! true:
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

/// Who calls, and how far it may reach: the tasks of one project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// The attempt's id, or the one that its bridge has.
    pub agent: String,
    pub attempt_id: Option<AttemptId>,
    pub project_id: ProjectId,
    pub may_write: bool,
}

/// What a task is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    Work,
    /// Whether another task was done as it was to be.
    Verification,
    /// Why a test of another task fails.
    Investigation,
    /// A question that was put to an executor; no worker's business.
    Answer,
}
