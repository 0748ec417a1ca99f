//! The types that the fields and rules of most tools use.

pub use std::collections::{BTreeMap, BTreeSet};

pub use provost_actors::event::Timestamp;
pub use provost_actors::ids::*;
pub use provost_actors::journal::{Priority, TaskStatus, WaitingOn};
pub use provost_actors::refusal::{Code, Refusal};
pub use schemars::{JsonSchema, json_schema};
pub use serde::{Deserialize, Serialize};
pub use serde_json::{Map, Number, Value};

pub use super::args::*;
pub use super::attempts::{AttemptPhase, AttemptState, LatestEntryIndex, Worktree};
pub use super::field_rules::FieldRule;
pub use super::worker::report::LateAnswer;
