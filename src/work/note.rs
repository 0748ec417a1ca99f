//! What the reports of things found have in common.

use serde::{Deserialize, Serialize};

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoteKind {
    #[default]
    Observation,
    Issue,
}
