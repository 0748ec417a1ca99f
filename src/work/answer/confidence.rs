//! How sure it is that a passage answers a question: a function of how much of the
//! question it covers, what it lacks, and what else the plan says. Pure.

use std::collections::BTreeSet;

use super::super::plan::{Passage, Section};
use super::contrary;
use super::kind::Kind;
use super::rank::{self, Asked, Hit};
use super::words;

/// From here on an answer is given without a reservation.
pub const SURE: f64 = 0.7;

/// How sure one is by what share of the question is covered; between these points,
/// in proportion. Fitted to the questions in `tests/answers`.
const CURVE: [(f64, f64); 7] =
    [(0.0, 0.0), (0.5, 0.2), (0.7, 0.42), (0.8, 0.62), (0.87, 0.76), (0.95, 0.92), (1.0, 0.97)];

/// The most there is for an answer with a doubt.
const DOUBTED: f64 = 0.64;
const MISFIT: f64 = 0.5;
const OPEN: f64 = 0.35;

/// Marks of what has not been decided.
const OPEN_MARKS: &[&str] = &[
    "tbd",
    "tbc",
    "todo",
    "to be decided",
    "to be determined",
    "to be defined",
    "to be confirmed",
    "undecided",
    "not decided",
    "not yet decided",
    "open question",
    "open issue",
    "unresolved",
    "not been decided",
    "still open",
    "under discussion",
    "open:",
    "yet to be",
    "no decision",
];

/// Marks of headings under which stands what does not hold.
const REJECTED_MARKS: &[&str] =
    &["rejected", "alternatives", "deprecated", "superseded", "obsolete"];

/// Why an answer is not sure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Words of the question that neither the passage nor its headings have.
    Unmentioned(Vec<String>),
    /// Words that stand elsewhere in its section only.
    Apart(Vec<String>),
    /// It has nothing of the kind that is asked for, such as a number.
    Lacks(&'static str),
    /// The plan itself leaves it open.
    Open,
    /// It stands under what was rejected.
    Rejected,
    /// It turns a comparison of the question round: the question's word and its own.
    Turned(&'static str, &'static str),
    /// It says of two things what the question says of them the other way round.
    Swapped,
    /// It says what is not so, and the question asks what is.
    Denies,
    /// Another passage says otherwise.
    Rival { section: usize, passage: usize },
    /// The question has too few words to go by.
    Vague,
}

/// How sure an answer is, and what speaks against it.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// From 0 to 1.
    pub confidence: f64,
    pub doubts: Vec<Doubt>,
}

pub(super) fn judge(asked: &Asked, sections: &[Section], best: &Hit, others: &[Hit]) -> Judgement {
    let section = &sections[best.section];
    let passage = &section.passages[best.passage];
    let mut judgement = Judgement { confidence: curve(best.coverage), doubts: Vec::new() };
    let missing = asked.words.iter().zip(&best.covers);
    let (apart, missing): (Vec<_>, Vec<_>) = missing
        .filter(|(word, covered)| !word.is_light && **covered < 0.5)
        .map(|(word, _)| word)
        .partition(|word| rank::is_in(section, word));
    let mut most = if apart.len() + missing.len() == 1 { DOUBTED } else { MISFIT };
    for (words, doubt) in [(missing, Doubt::Unmentioned as fn(_) -> _), (apart, Doubt::Apart)] {
        if !words.is_empty() {
            judgement.doubt(doubt(words.iter().map(|word| word.shown.clone()).collect()), most);
            most = 1.0;
        }
    }
    if !best.fits {
        judgement.doubt(Doubt::Lacks(asked.kind.missing()), MISFIT);
    }
    if let Some((asked, said)) = contrary::turned(&asked.question, &passage.text) {
        judgement.doubt(Doubt::Turned(asked, said), DOUBTED);
    }
    if contrary::swapped(&asked.question, &passage.text) {
        judgement.doubt(Doubt::Swapped, DOUBTED);
    }
    if asked.affirms && !passage.is_whole && contrary::denies(&passage.text) {
        judgement.doubt(Doubt::Denies, DOUBTED);
    }
    if is_open(section, passage) {
        judgement.doubt(Doubt::Open, OPEN);
    }
    // What is struck out does not hold either.
    let is_struck = passage.text.contains("~~") || section.breadcrumb.contains("~~");
    if has_mark(&section.breadcrumb, REJECTED_MARKS) || is_struck {
        judgement.doubt(Doubt::Rejected, DOUBTED);
    }
    let solid: Vec<_> = asked
        .words
        .iter()
        .zip(&best.covers)
        .filter(|(word, covered)| !word.is_light && **covered >= 0.5)
        .map(|(word, _)| word.shown.chars().count())
        .collect();
    // A single letter names nothing.
    let says_nothing = solid.iter().all(|length| *length < 2);
    if says_nothing
        || solid.len() == 1 && best.own < 0.5 && section.passages.len() > 1 && !passage.is_whole
    {
        judgement.doubt(Doubt::Vague, DOUBTED);
    }
    if best.own == 0.0 && !passage.is_whole && others.iter().any(|other| is_twin(best, other)) {
        judgement.doubt(Doubt::Vague, DOUBTED);
    }
    if let Some(rival) = others.iter().find(|other| is_rival(asked, sections, best, other)) {
        let (section, passage) = (rival.section, rival.passage);
        judgement.doubt(Doubt::Rival { section, passage }, DOUBTED);
    }
    // A long passage says much else; one that is only near says less.
    let loose = 0.05 * (1.0 - (best.density / 0.4).min(1.0)) + 0.1 * (0.5 - best.own).max(0.0);
    judgement.confidence = (judgement.confidence - loose).clamp(0.0, 1.0);
    judgement
}

impl Judgement {
    fn doubt(&mut self, doubt: Doubt, most: f64) {
        self.doubts.push(doubt);
        // In proportion, so that what is doubted more stays below what is doubted less.
        self.confidence *= most;
    }
}

fn curve(coverage: f64) -> f64 {
    let above = CURVE.iter().position(|(at, _)| *at >= coverage).unwrap_or(CURVE.len() - 1);
    let ((x0, y0), (x1, y1)) = (CURVE[above.saturating_sub(1)], CURVE[above]);
    if x1 > x0 { y0 + (y1 - y0) * (coverage - x0) / (x1 - x0) } else { y1 }
}

fn has_mark(text: &str, marks: &[&str]) -> bool {
    let text = text.to_lowercase();
    let is_there = |mark: &&str| {
        text.match_indices(*mark).any(|(at, _)| {
            let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            !is_word(text[..at].chars().next_back())
                && !is_word(text[at + mark.len()..].chars().next())
        })
    };
    marks.iter().any(is_there)
}

fn is_open(section: &Section, passage: &Passage) -> bool {
    passage.text.trim_end().ends_with('?')
        || has_mark(&passage.text, OPEN_MARKS)
        || has_mark(
            &section.breadcrumb,
            &["open questions", "open question", "open issues", "undecided", "tbd"],
        )
}

/// Whether another passage of the section has to do with the question for the same reason:
/// what stands above both.
fn is_twin(best: &Hit, other: &Hit) -> bool {
    best.section == other.section && other.own == 0.0 && other.coverage >= best.coverage
}

/// Whether another passage answers as well, and otherwise.
fn is_rival(asked: &Asked, sections: &[Section], best: &Hit, other: &Hit) -> bool {
    let passage = |hit: &Hit| &sections[hit.section].passages[hit.passage];
    let (one, two) = (passage(best), passage(other));
    let is_apart = best.section != other.section
        || one.last_line < two.first_line
        || two.last_line < one.first_line;
    if !is_apart || !other.fits || other.coverage < best.coverage - 0.02 {
        return false;
    }
    if contrary::part_in_a_word(&one.text, &two.text) {
        return true;
    }
    let (first, second) = (numbers(&one.text), numbers(&two.text));
    let differ = !first.is_empty() && !second.is_empty() && first.is_disjoint(&second);
    match asked.kind {
        Kind::Number | Kind::Frequency | Kind::Time | Kind::Color => differ,
        _ => differ && similarity(&one.text, &two.text) > 0.4,
    }
}

fn numbers(text: &str) -> BTreeSet<String> {
    words::stems(text)
        .into_iter()
        .filter(|stem| stem.starts_with(|c: char| c.is_ascii_digit()))
        .collect()
}

/// The share of words that two texts have in common.
fn similarity(one: &str, other: &str) -> f64 {
    let [one, other] =
        [one, other].map(|text| words::stems(text).into_iter().collect::<BTreeSet<_>>());
    let all = one.union(&other).count().max(1);
    #[expect(clippy::cast_precision_loss, reason = "a passage has few words")]
    let share = one.intersection(&other).count() as f64 / all as f64;
    share
}
