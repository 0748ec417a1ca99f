//! The passages that come nearest to a question that no passage answers for certain:
//! whoever asked reads them and judges. Pure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::plan::{Passage, Section};

/// Most passages that are shown.
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

impl Near {
    /// A passage of a section of a document.
    pub fn new(document: String, version: String, section: &Section, passage: &Passage) -> Self {
        Self {
            document,
            version,
            section: passage.path.clone().unwrap_or_else(|| section.breadcrumb.clone()),
            lines: [passage.first_line, passage.last_line],
            quote: passage.quote.clone(),
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.document == other.document
            && self.lines[0] <= other.lines[1]
            && other.lines[0] <= self.lines[1]
    }
}

/// The first [`SHOWN`] of them, each from lines of its own.
pub fn apart(found: impl IntoIterator<Item = Near>) -> Vec<Near> {
    let mut shown: Vec<Near> = Vec::new();
    for near in found {
        if shown.len() == SHOWN {
            break;
        }
        if !shown.iter().any(|other| other.overlaps(&near)) {
            shown.push(near);
        }
    }
    shown
}
