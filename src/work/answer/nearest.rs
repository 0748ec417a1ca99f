//! A passage of a plan as answers show it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many passages an answer shows at most.
pub const SHOWN: usize = 5;

/// A passage of a plan, verbatim, with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Near {
    /// The document's path.
    pub document: String,
    /// Version of the plan.
    pub version: String,
    /// Section, as a breadcrumb or a JSON path.
    pub section: String,
    /// First and last line, from 1.
    pub lines: [usize; 2],
    /// What stands there, verbatim.
    pub quote: String,
}
