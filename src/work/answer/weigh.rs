//! Decides which passage answers a question, and how sure that is. Pure.

use provost_actors::text::cut;

use super::super::plan::Passage;
use super::{Hit, Search, asks};

/// An answer with at least this confidence needs no reservation.
pub const SURE: f64 = 0.7;

/// The share of the question's terms that a likely answer contains.
const MOST: f64 = 0.6;

/// A second passage is a rival if its score is at least this share of the best score.
const RIVAL: f64 = 0.8;

/// To how many characters the text of a rival is cut.
const RIVAL_MAX: usize = 200;

/// Words in a passage, or in the headings above, that mark something as undecided.
const OPEN_MARKS: &str = "tbd|tbc|todo|to be decided|to be determined|to be defined|to be confirmed|\
    undecided|not decided|not yet decided|no decision|open question|open questions|open issue|\
    open issues|open points|still open|unresolved|under discussion";

/// Words in headings that mark what is below as no longer valid.
const REJECTED_MARKS: &str = "rejected|alternatives|deprecated|superseded|obsolete|decided against";

/// How sure an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    None,
    /// The best passage has some of the question's words, or marks its matter as undecided.
    Weak,
    /// The best passage has most of the words, or all of them with a doubt.
    Likely,
    /// The best passage has all of the words, and no other passage matches about as well.
    Sure,
}

impl Class {
    /// The confidence: the share of the held-out questions of this class whose best passage is right.
    pub fn confidence(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Weak => 0.27,
            Self::Likely => 0.66,
            Self::Sure => 0.97,
        }
    }
}

/// The best passage for a question, and how sure it is.
#[derive(Clone, Debug)]
pub struct Weighed {
    pub class: Class,
    pub best: Option<Hit>,
    /// Why the answer is not sure, in a sentence; `None`: it is sure.
    pub doubt: Option<String>,
}

/// Weighs what the search found. An answer is sure if one passage has all terms of the question and what the
/// question asks for, is neither undecided nor rejected, and no other passage matches about as well.
pub fn weigh(search: &Search) -> Weighed {
    let weighed = |class, best: Option<&Hit>, doubt: &str| {
        let doubt = (class != Class::Sure).then(|| doubt.to_owned());
        Weighed { class, best: best.cloned(), doubt }
    };
    let Some(best) = search.complete.first() else {
        if search.partial.is_empty() {
            let doubt = if search.has_plan {
                "No passage of the plan contains a word of the question."
            } else {
                "The project has no plan yet."
            };
            return weighed(Class::None, None, doubt);
        }
        let class = if has_most(search) { Class::Likely } else { Class::Weak };
        let doubt = format!("The best passage does not mention {}.", listed(&search.missing));
        return weighed(class, search.partial.first(), &doubt);
    };
    let mut others = search.complete[1..].iter();
    let rival = others.find(|it| it.score >= RIVAL * best.score && !it.overlaps(best));
    let (class, doubt) = if is_open(best) {
        (Class::Weak, "The plan leaves this open.".to_owned())
    } else if is_rejected(best) {
        (Class::Likely, "The plan marks this passage as rejected or out of date.".to_owned())
    } else if let Some(what) = asks::lacks(&search.question, &best.passage().text) {
        (Class::Likely, format!("The best passage does not say {what}."))
    } else if let Some(rival) = rival {
        let (place, text) = (rival.place(), cut(rival.passage().text.clone(), RIVAL_MAX));
        (Class::Likely, format!("Another passage matches as well, in {place}: \"{text}\"."))
    } else {
        (Class::Sure, String::new())
    };
    weighed(class, Some(best), &doubt)
}

fn listed(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// Whether the best partial match contains enough of the question's terms to be a likely answer.
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
