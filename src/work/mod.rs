//! The worker's API: what the agent that does a task asks and is answered, in its
//! own words, and the rules behind the answers. Pure: no database, no protocol.
//!
//! A request goes as it is from the tool to the store, and the response comes back
//! from the transaction that made it true. So a file here holds all there is to
//! know of a tool from outside, and `store/work` what it does.
//!
//! ```text
//!   tool ▸ request ▸ domain (who asks, in which project) ▸ store: ONE transaction
//!        ◂ response ◂──────────────────────────────────────┘   by the rules of this folder
//! ```

pub mod answer;
pub mod brief;
pub mod cause;
pub mod completed;
pub mod consult;
pub mod dependencies;
pub mod done;
pub mod failure;
pub mod immediate;
pub mod import;
pub mod inbox;
pub mod issue;
pub mod late;
pub mod next;
pub mod note;
pub mod observation;
pub mod path;
pub mod plan;
pub mod question;
pub mod queue;
pub mod receipt;
pub mod reply;
pub mod report;
pub mod reported;
pub mod signature;
pub mod status;
pub mod suggestion;
pub mod ticket;
pub mod verification;

use provost_actors::ids::{AttemptId, ProjectId};
pub use provost_actors::journal::Standing;
use serde::{Deserialize, Serialize};

use crate::args::Text;

/// Who calls, and how far it may reach: the tasks of one project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// The attempt's id, or the one that its bridge has.
    pub agent: String,
    pub attempt_id: Option<AttemptId>,
    pub project_id: ProjectId,
    /// Whether it may change anything.
    pub may_write: bool,
}

/// A task's title and description, by whatever way it comes to the board.
pub type Title = Text<1, 1000>;
pub type Description = Text<0, 1_000_000>;

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
