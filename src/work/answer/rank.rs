//! How much of a question a passage covers, and in what order passages answer it. Pure.

use std::collections::HashSet;

use super::super::plan::{Passage, Section};
use super::Focus;
use super::kind::Kind;
use super::words;

/// What a word counts where it stands: in the passage, in what introduces it, in its
/// section's heading, in one above, and in what is said beside it.
const LEAD: f64 = 0.9;
const HEADING: f64 = 0.9;
const ABOVE: f64 = 0.75;
const AROUND: f64 = 0.3;

/// What a word counts that only means the same.
const ALIKE: f64 = 0.85;

/// What a word counts, beside others, that nearly every question has.
const LIGHT: f64 = 0.2;

/// A question, made ready.
#[derive(Clone, Debug)]
pub struct Asked {
    pub(super) question: String,
    pub(super) words: Vec<Word>,
    pub(super) kind: Kind,
}

/// A word that carries the question.
#[derive(Clone, Debug)]
pub(super) struct Word {
    /// As it was asked.
    pub shown: String,
    pub stem: String,
    pub alike: Vec<String>,
    pub is_light: bool,
    /// Larger for rarer words.
    pub weight: f64,
}

impl Asked {
    /// `sections` is how many the plan has; `frequency` tells in how many of them a stem
    /// stands.
    pub fn new(question: &str, sections: u64, frequency: impl Fn(&str) -> u64) -> Self {
        let mut seen = HashSet::new();
        let words =
            words::content(question).into_iter().filter(|(_, stem)| seen.insert(stem.clone()));
        let words = words.map(|(shown, stem)| {
            let alike = words::like(&stem);
            let found = std::iter::once(&stem).chain(&alike).map(|stem| frequency(stem)).max();
            let is_light = words::is_light(&stem);
            let weight =
                rarity(sections, found.unwrap_or_default()) * if is_light { LIGHT } else { 1.0 };
            Word { shown, stem, alike, is_light, weight }
        });
        let question = question.to_owned();
        Self { words: words.collect(), kind: Kind::of(&question), question }
    }

    /// The stems that a section may be found by.
    pub fn stems(question: &str) -> Vec<String> {
        let content = words::content(question).into_iter().map(|(_, stem)| stem);
        let mut stems: Vec<_> = content
            .flat_map(|stem| std::iter::once(stem.clone()).chain(words::like(&stem)))
            .collect();
        stems.sort_unstable();
        stems.dedup();
        stems
    }

    pub(super) fn total(&self) -> f64 {
        self.words.iter().map(|word| word.weight).sum()
    }
}

/// Inverse document frequency.
fn rarity(sections: u64, with: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of sections are small")]
    let (sections, with) = (sections.max(1) as f64, with as f64);
    (1.0 + sections / (with + 0.5)).ln()
}

/// A passage that has to do with the question.
#[derive(Clone, Debug)]
pub struct Hit {
    pub section: usize,
    pub passage: usize,
    /// How much of each word of the question it covers, from 0 to 1.
    pub(super) covers: Vec<f64>,
    /// How much of the question it covers, from 0 to 1.
    pub(super) coverage: f64,
    /// How much of the question the passage itself covers.
    pub(super) own: f64,
    /// The share of its own words that were asked for.
    pub(super) density: f64,
    /// It holds what is asked for.
    pub(super) fits: bool,
    pub(super) score: f64,
}

impl Hit {
    /// Whether it has much to do with the question.
    pub(super) fn is_near(&self) -> bool {
        self.coverage >= 0.45
    }
}

/// Stems, to look words up in.
struct Bag(HashSet<String>);

impl Bag {
    fn of(text: &str) -> Self {
        Self(words::stems(text).into_iter().collect())
    }

    fn has(&self, word: &Word) -> f64 {
        if self.0.contains(&word.stem) {
            1.0
        } else if word.alike.iter().any(|stem| self.0.contains(stem)) {
            ALIKE
        } else {
            0.0
        }
    }
}

/// The passages that have to do with the question, best first.
pub(super) fn rank(asked: &Asked, sections: &[Section], focus: &Focus) -> Vec<Hit> {
    let mut hits: Vec<Hit> = Vec::new();
    for (number, section) in sections.iter().enumerate() {
        let focused = focus.bonus(section);
        let (heading, above) = (Bag::of(&section.heading), Bag::of(&section.above));
        for (at, passage) in section.passages.iter().enumerate() {
            let mut hit = cover(asked, section, passage, &heading, &above);
            if hit.coverage > 0.0 {
                (hit.section, hit.passage) = (number, at);
                hit.score += focused;
                hits.push(hit);
            }
        }
    }
    // Stable: of equals the first in the plan comes first.
    hits.sort_by(|one, other| other.score.total_cmp(&one.score));
    hits
}

fn cover(asked: &Asked, section: &Section, passage: &Passage, heading: &Bag, above: &Bag) -> Hit {
    let told = passage.asked.as_deref().unwrap_or(&passage.text);
    let (text, lead, around) = (Bag::of(told), Bag::of(&passage.lead), Bag::of(&passage.around));
    let is_alone = section.passages.len() == 1;
    let in_heading = if is_alone { 1.0 } else { HEADING };
    let mut hit = Hit {
        section: 0,
        passage: 0,
        covers: Vec::with_capacity(asked.words.len()),
        coverage: 0.0,
        own: 0.0,
        density: 0.0,
        fits: asked.kind.is_in(&passage.text),
        score: 0.0,
    };
    let total = asked.total().max(f64::MIN_POSITIVE);
    let mut matched = 0.0;
    for word in &asked.words {
        let own = text.has(word).max(lead.has(word) * LEAD);
        let covered = [
            own,
            heading.has(word) * in_heading,
            above.has(word) * ABOVE,
            around.has(word) * AROUND,
        ];
        let covered = covered.into_iter().fold(0.0, f64::max);
        hit.covers.push(covered);
        hit.coverage += covered * word.weight / total;
        hit.own += own * word.weight / total;
        matched += text.has(word);
    }
    #[expect(clippy::cast_precision_loss, reason = "a passage has few words")]
    let words = words::content(told).len().max(1) as f64;
    hit.density = (matched / words).min(1.0);
    let fit = if hit.fits { 1.0 } else { 0.8 };
    // A whole is told where none of its parts is more to the point.
    let whole = if passage.is_whole { 0.01 } else { 0.0 };
    hit.score = hit.coverage * fit + 0.06 * hit.density + 0.04 * hit.own + whole;
    hit
}

impl Focus {
    /// What a section's passages gain by being where the asker looks.
    fn bonus(&self, section: &Section) -> f64 {
        let place = section.breadcrumb.to_lowercase();
        let is_in = |term: &String| {
            let term = term.to_lowercase();
            let words = term.replace(['-', '_'], " ");
            place.contains(&term) || place.contains(words.trim())
        };
        let named = |terms: &[String]| terms.iter().any(is_in);
        let mut bonus = 0.0;
        if named(&self.terms) {
            bonus += 0.05;
        }
        if named(&self.sections) {
            bonus += 0.03;
        }
        bonus
    }
}
