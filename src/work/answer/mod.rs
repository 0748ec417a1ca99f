//! Finds in a plan what answers a question, and says how sure that is. Pure: the
//! sections come from wherever they are kept.
//!
//! Nothing is made up: an answer is a passage of the plan, or there is none. The
//! confidence is meant as the share of such answers that are right, and it errs
//! towards modesty; `tests/answers` holds it to that.

mod confidence;
mod contrary;
mod kin;
mod kind;
pub mod nearest;
mod rank;
pub mod rulings;
mod told;
pub mod words;

pub use confidence::{Doubt, Judgement, SURE};
pub use rank::{Asked, Hit};
pub use rulings::Ruling;
pub use told::{Told, tell};

use super::plan::Section;

/// Where to look first.
#[derive(Clone, Debug, Default)]
pub struct Focus {
    /// Terms that the asker expects where the answer stands.
    pub terms: Vec<String>,
    /// The sections that the asker's task is about.
    pub sections: Vec<String>,
}

/// What a question is answered from: sections that may hold the answer.
#[derive(Clone, Debug)]
pub struct Search {
    pub asked: Asked,
    pub sections: Vec<Section>,
    /// Where each section stands.
    pub places: Vec<Place>,
    /// There is no plan at all.
    pub is_empty: bool,
}

/// Where a section stands.
#[derive(Clone, Debug)]
pub struct Place {
    /// The document.
    pub source: String,
    /// Of the plan.
    pub version: String,
}

impl Search {
    /// Whether two hits are of the same lines.
    fn overlap(&self, one: &Hit, other: &Hit) -> bool {
        let place = |hit: &Hit| {
            let passage = &self.sections[hit.section].passages[hit.passage];
            (&self.places[hit.section], passage.first_line, passage.last_line)
        };
        let ((here, first, last), (there, from, to)) = (place(one), place(other));
        here.source == there.source && first <= to && from <= last
    }
}

/// What a plan says to a question.
#[derive(Clone, Debug)]
pub struct Found {
    /// The best hit, and how sure it is; `None` if nothing has to do with the question.
    pub best: Option<(Hit, Judgement)>,
    /// Other hits, best first.
    pub others: Vec<Hit>,
}

/// Looks for the answer among sections that may hold it.
pub fn find(Search { asked, sections, .. }: &Search, focus: &Focus) -> Found {
    let mut hits = rank::rank(asked, sections, focus);
    if hits.is_empty() {
        return Found { best: None, others: hits };
    }
    let best = hits.remove(0);
    let judgement = confidence::judge(asked, sections, &best, &hits);
    Found { best: Some((best, judgement)), others: hits }
}

#[cfg(test)]
mod tests;
