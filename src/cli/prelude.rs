//! What the verbs import: the context and its output, the types of answers, and text for people.

pub use provost_actors::event::Timestamp;
pub use provost_actors::ids::{AttemptId, ProjectId, TaskId};
pub use provost_actors::refusal::{Code, Refusal};
pub use serde_json::{Value, json};

pub use super::calls::*;
pub use super::context::{Context, by_name_or_id, check_piece, only, whole};
pub use super::exit::{Exit, Failure};
pub use super::output::Output;
pub use super::render::{ended, for_person};
pub use super::table::Column::{Cut, Whole, Wrapped};
pub use super::text::{harmless, one_line};
pub use crate::client::{Answer, ClientError};
pub use crate::work::labels::{headline, word};
