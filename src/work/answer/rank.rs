//! How much of a question a passage covers, and in what order passages answer it. Pure.

use std::collections::HashSet;

use super::super::plan::{Passage, Section};
use super::kind::Kind;
use super::{Focus, contrary, words};

/// What a word counts where it stands: in the passage, in what introduces it, in its
/// section's heading, in one above, and in what is said beside it.
const LEAD: f64 = 0.9;
const HEADING: f64 = 0.9;
const ABOVE: f64 = 0.75;
const AROUND: f64 = 0.3;

/// How many passages before and after one are what is said beside it.
const BESIDE: usize = 8;

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
    /// It asks what is so: what is not so is hardly an answer.
    pub(super) affirms: bool,
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
        Self {
            words: words.collect(),
            kind: Kind::of(question),
            affirms: contrary::asks_what_is(question),
            question: question.to_owned(),
        }
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
        } else if word.alike.iter().any(|stem| self.0.contains(stem)) || self.is_version(word) {
            ALIKE
        } else {
            0.0
        }
    }

    /// Whether a version is asked for, and there is a number of one: `git 2.31`.
    fn is_version(&self, word: &Word) -> bool {
        let is_number = |stem: &String| {
            stem.contains('.') && stem.starts_with(|first: char| first.is_ascii_digit())
        };
        word.stem == "version" && self.0.iter().any(is_number)
    }
}

/// What a section's words are, by where they stand.
struct Bags {
    heading: Bag,
    above: Bag,
    /// What each passage says.
    said: Vec<Bag>,
}

impl Bags {
    fn of(section: &Section) -> Self {
        Self {
            heading: Bag::of(&section.heading),
            above: Bag::of(&section.above),
            said: section.said().map(Bag::of).collect(),
        }
    }

    /// How much of a word stands beside a passage.
    fn beside(&self, passages: &[Passage], at: usize, word: &Word) -> f64 {
        let near = at.saturating_sub(BESIDE)..passages.len().min(at + BESIDE + 1);
        let is_beside = |other: &usize| {
            let other = (*other != at).then(|| &passages[*other]);
            other.is_some_and(|other| other.block == passages[at].block && !other.is_whole)
        };
        near.filter(is_beside).map(|other| self.said[other].has(word)).fold(0.0, f64::max)
    }
}

/// Whether a word of a question stands anywhere in a section.
pub(super) fn is_in(section: &Section, word: &Word) -> bool {
    let texts = section.passages.iter().flat_map(|it| [it.said(), &it.text, &it.lead]);
    texts.chain([&*section.heading, &section.above]).any(|text| Bag::of(text).has(word) > 0.0)
}

/// The passages that have to do with the question, best first.
pub(super) fn rank(asked: &Asked, sections: &[Section], focus: &Focus) -> Vec<Hit> {
    let mut hits: Vec<Hit> = Vec::new();
    for (number, section) in sections.iter().enumerate() {
        let focused = focus.bonus(section);
        let bags = Bags::of(section);
        for at in 0..section.passages.len() {
            let mut hit = cover(asked, section, at, &bags);
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

fn cover(asked: &Asked, section: &Section, at: usize, bags: &Bags) -> Hit {
    let passage = &section.passages[at];
    let (text, lead) = (&bags.said[at], Bag::of(&passage.lead));
    // What is in a whole stands beside what introduces it.
    let whole = passage.is_whole.then(|| Bag::of(&passage.text));
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
        let beside = match &whole {
            Some(whole) => whole.has(word),
            None => bags.beside(&section.passages, at, word),
        };
        let covered = [
            own,
            bags.heading.has(word) * in_heading,
            bags.above.has(word) * ABOVE,
            beside * AROUND,
        ];
        let covered = covered.into_iter().fold(0.0, f64::max);
        hit.covers.push(covered);
        hit.coverage += covered * word.weight / total;
        hit.own += own * word.weight / total;
        matched += text.has(word);
    }
    #[expect(clippy::cast_precision_loss, reason = "a passage has few words")]
    let words = words::content(passage.said()).len().max(1) as f64;
    hit.density = (matched / words).min(1.0);
    let denies = asked.affirms && !passage.is_whole && contrary::denies(&passage.text);
    let fit = if hit.fits && !denies { 1.0 } else { 0.8 };
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
