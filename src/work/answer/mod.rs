//! Says what the plan answers to a question, and how sure the answer is. Pure: the store searches
//! (`store/work/search/mod.rs`), and this module weighs what the search found.
//!
//! Every answer of the plan is one of its passages, verbatim. `tests/answers/held-out` measures how often the
//! answers of each [`Class`] are right; `docs/workers.md` publishes the figures.

mod asks;
pub mod cite;
mod compose;
pub mod earlier;
pub mod terms;
mod weigh;

pub use compose::Answer;
pub use earlier::EarlierAnswer;
pub use weigh::{Class, SURE, Weighed, weigh};

use std::sync::Arc;

use super::plan::{Passage, Section};
use crate::api::worker::question::Near;

/// How many passages an answer shows at most.
pub const SHOWN: usize = 5;

/// A passage that the search found.
#[derive(Clone, Debug)]
pub struct Hit {
    /// Row id of the passage in the search index.
    pub id: i64,
    /// The document and the version of its plan.
    pub source: String,
    pub version: String,
    pub section: Arc<Section>,
    /// Index of the passage in its section.
    pub number: usize,
    /// How well it matches (BM25); a larger score is better.
    pub score: f64,
}

impl Hit {
    /// The passage itself; the section has it.
    pub fn passage(&self) -> &Passage {
        &self.section.passages[self.number]
    }

    /// Where the passage is: the JSON path of a value, or else the breadcrumb of the section.
    pub fn place(&self) -> &str {
        self.passage().path.as_deref().unwrap_or(&self.section.breadcrumb)
    }

    /// Whether both passages have a line in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (one, two) = (self.passage(), other.passage());
        self.source == other.source
            && one.first_line <= two.last_line
            && two.first_line <= one.last_line
    }

    /// The longest passage of the section that contains this one: its whole paragraph, list or table. It is
    /// the passage itself if none contains it.
    fn whole(&self) -> Self {
        let passages = &self.section.passages;
        let (first, last) = (self.passage().first_line, self.passage().last_line);
        let contains = |number: &usize| {
            let it = &passages[*number];
            it.is_whole && it.first_line <= first && it.last_line >= last
        };
        let wholes = (0..passages.len()).filter(contains);
        let longest =
            wholes.max_by_key(|number| passages[*number].last_line - passages[*number].first_line);
        let number = longest.unwrap_or(self.number);
        let ids = i64::try_from(number).unwrap_or_default()
            - i64::try_from(self.number).unwrap_or_default();
        Self { id: self.id + ids, number, ..self.clone() }
    }

    /// The passage in the form in which replies show what matches best.
    pub fn to_near(&self) -> Near {
        let passage = self.passage();
        Near {
            document: self.source.clone(),
            version: self.version.clone(),
            section: self.place().to_owned(),
            lines: [passage.first_line, passage.last_line],
            quote: passage.quote.clone(),
        }
    }
}

/// The results of the search for a question.
#[derive(Clone, Debug, Default)]
pub struct Search {
    pub question: String,
    /// Whether the project has a plan at all.
    pub has_plan: bool,
    /// The words that the question is searched by.
    pub terms: Vec<String>,
    /// Passages that contain all terms, together with the headings above; best first.
    pub complete: Vec<Hit>,
    /// The best passages of the sections that the asker names.
    pub named: Vec<Hit>,
    /// Passages that contain any of the terms, best first.
    pub partial: Vec<Hit>,
    /// The terms that the best of `partial` does not contain.
    pub missing: Vec<String>,
}

impl Search {
    /// The best passages without a common line, each as the whole paragraph, list or table that contains it.
    pub fn best(&self, count: usize) -> Vec<Hit> {
        let mut best: Vec<Hit> = Vec::new();
        for hit in self.named.iter().chain(&self.partial) {
            let whole = hit.whole();
            if best.len() < count && !best.iter().any(|other| other.overlaps(&whole)) {
                best.push(whole);
            }
        }
        best
    }
}
