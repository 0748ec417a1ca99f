//! Decides which passage answers a question, and how sure that is. Pure.

use super::super::plan::Passage;
use super::{Hit, Search, asks};

/// From this confidence on an answer needs no reservation.
pub const SURE: f64 = 0.7;

/// The share of the question's terms that a likely answer contains.
const MOST: f64 = 0.6;

/// A second passage is a rival from this share of the best one's score on.
const RIVAL: f64 = 0.8;

/// Marks of what is not decided yet, in a passage or in the headings above.
const OPEN_MARKS: &str = "tbd|tbc|todo|to be decided|to be determined|to be defined|to be confirmed|\
    undecided|not decided|not yet decided|no decision|open question|open questions|open issue|\
    open issues|open points|still open|unresolved|under discussion";

/// Marks of headings above what does not hold.
const REJECTED_MARKS: &str = "rejected|alternatives|deprecated|superseded|obsolete|decided against";

/// How sure an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    None,
    /// The best passage has some of the question's words, or is not decided.
    Weak,
    /// It has most of them, or all but with a doubt.
    Likely,
    /// It alone has all of them.
    Sure,
}

impl Class {
    /// The share of the held-out questions of this class whose best passage is right.
    pub fn confidence(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Weak => 0.27,
            Self::Likely => 0.66,
            Self::Sure => 0.97,
        }
    }
}

/// Why an answer is not sure.
#[derive(Clone, Debug)]
pub enum Doubt {
    Missing(Vec<String>),
    Lacks(&'static str),
    /// This other passage matches about as well.
    Rival(Hit),
    Open,
    /// The passage is rejected, out of date or struck out.
    Rejected,
}

/// The best passage for a question.
#[derive(Clone, Debug)]
pub struct Weighed {
    pub class: Class,
    pub best: Option<Hit>,
    /// `None` where the answer is sure, or where nothing was found.
    pub doubt: Option<Doubt>,
}

/// Weighs what was found. An answer is sure where one passage has all the question's
/// terms and what it asks for, and no other passage matches about as well.
pub fn weigh(search: &Search) -> Weighed {
    let weighed = |class, best: &Hit, doubt| Weighed { class, best: Some(best.clone()), doubt };
    let Some(best) = search.complete.first() else {
        return match search.partial.first() {
            Some(best) => {
                let doubt = Doubt::Missing(search.missing.clone());
                weighed(
                    if has_most(search) { Class::Likely } else { Class::Weak },
                    best,
                    Some(doubt),
                )
            }
            None => Weighed { class: Class::None, best: None, doubt: None },
        };
    };
    let mut others = search.complete[1..].iter();
    let rival = others.find(|it| it.score >= RIVAL * best.score && !it.overlaps(best));
    let lacking = asks::lacks(&search.question, &best.passage().text);
    if is_open(best) {
        weighed(Class::Weak, best, Some(Doubt::Open))
    } else if is_rejected(best) {
        weighed(Class::Likely, best, Some(Doubt::Rejected))
    } else if let Some(what) = lacking {
        weighed(Class::Likely, best, Some(Doubt::Lacks(what)))
    } else if let Some(rival) = rival {
        weighed(Class::Likely, best, Some(Doubt::Rival(rival.clone())))
    } else {
        weighed(Class::Sure, best, None)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a question has few words")]
fn has_most(search: &Search) -> bool {
    search.missing.len() as f64 <= (1.0 - MOST) * search.terms.len() as f64
}

fn is_open(hit: &Hit) -> bool {
    let Passage { text, .. } = hit.passage();
    text.trim_end().ends_with('?')
        || has_mark(text, OPEN_MARKS)
        || has_mark(&hit.section.breadcrumb, OPEN_MARKS)
}

fn is_rejected(hit: &Hit) -> bool {
    let place = &hit.section.breadcrumb;
    has_mark(place, REJECTED_MARKS) || place.contains("~~") || hit.passage().quote.contains("~~")
}

fn has_mark(text: &str, marks: &str) -> bool {
    let words = text.to_lowercase();
    let words: Vec<&str> = words.split(|c: char| !c.is_alphanumeric()).collect();
    let words = format!(" {} ", words.join(" "));
    marks.split('|').any(|mark| words.contains(&format!(" {mark} ")))
}
