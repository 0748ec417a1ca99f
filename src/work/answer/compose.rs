//! Makes an answer of what the search found: the passage, its evidence, what the plan says besides, and what
//! is missing. Pure.

use provost_actors::text::cut;

use super::super::plan::{Passage, Section};
use super::{Class, Hit, SHOWN, SURE, Search, Weighed, weigh};
use crate::api::worker::question::{Evidence, Guidance};

/// The confidence in an executor's answer that has no ruling and cites no passage.
const CONSULTED: f64 = 0.6;

/// The confidence in a passage that an executor cited verbatim. It is not measured, because it depends on the
/// model.
const CITED: f64 = 0.9;

/// How many other passages are shown as related, and their length in characters.
const RELATED: usize = 3;
const RELATED_MAX: usize = 200;

/// The length to which an answer is cut, in characters.
const ANSWER_MAX: usize = 1500;

/// What is known about a question.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// From 0 to 1, with two decimals.
    pub confidence: f64,
    /// What the plan, a ruling or an executor says; `None`: nothing is known.
    pub text: Option<String>,
    pub evidence: Option<Evidence>,
    pub guidance: Option<Guidance>,
    pub related: Vec<String>,
    /// What is missing; `None`: the answer is sure.
    pub uncertainty: Option<String>,
}

impl Answer {
    /// The answer of the plan. Without a likely passage it has no text.
    pub fn of_plan(search: &Search) -> Self {
        let Weighed { class, best, doubt: uncertainty } = weigh(search);
        let confidence = class.confidence();
        let Some(best) = best.filter(|_| class >= Class::Likely) else {
            let related = related(search, None);
            return Self { confidence, related, uncertainty, ..Self::default() };
        };
        Self {
            related: related(search, Some(&best)),
            guidance: guidance(&best.section, best.passage()),
            uncertainty,
            ..Self::of_passage(&best, best.passage().text.clone(), confidence)
        }
    }

    /// The answer of an executor that no ruling has confirmed.
    pub fn of_executor(answer: &str, executor: &str, question: &str) -> Self {
        Self {
            confidence: CONSULTED,
            text: Some(answer.to_owned()),
            evidence: Some(Evidence {
                source: format!("{executor}, asked as {question}"),
                plan_version: String::new(),
                section: String::new(),
                exact_quote: None,
                line_numbers: None,
            }),
            uncertainty: Some(format!(
                "The plan does not say this. The executor {executor} answered it from the code; \
                 no one has ruled on it."
            )),
            ..Self::default()
        }
    }

    /// The answer by a passage of the plan that an executor cited, once the citation is verified.
    pub fn of_citation(cited: &Hit, words: &str) -> Self {
        Self::of_passage(cited, words.to_owned(), CITED)
    }

    fn of_passage(hit: &Hit, text: String, confidence: f64) -> Self {
        let passage = hit.passage();
        Self {
            confidence,
            text: Some(cut(text, ANSWER_MAX)),
            evidence: Some(Evidence {
                source: hit.source.clone(),
                plan_version: hit.version.clone(),
                section: hit.place().to_owned(),
                exact_quote: Some(passage.quote.clone()),
                line_numbers: Some([passage.first_line, passage.last_line]),
            }),
            ..Self::default()
        }
    }

    /// Whether the answer needs no reservation.
    pub fn is_sure(&self) -> bool {
        self.confidence >= SURE
    }
}

/// Other passages that were found, one line for each.
fn related(search: &Search, answer: Option<&Hit>) -> Vec<String> {
    let best = search.best(SHOWN).into_iter();
    let others = best.filter(|hit| !answer.is_some_and(|answer| answer.overlaps(hit)));
    let line = |hit: Hit| {
        let text = hit.passage().text.replace('\n', " ");
        cut(format!("{}: {text}", hit.place()), RELATED_MAX)
    };
    others.take(RELATED).map(line).collect()
}

/// The passages of the section that begin with the name of a guidance field, and the section's code.
fn guidance(section: &Section, answer: &Passage) -> Option<Guidance> {
    let named = |name: &str| {
        let other =
            section.passages.iter().filter(|passage| *passage != answer && !passage.is_whole);
        let mut said = other.filter_map(|passage| {
            let (key, said) = passage.said().split_once(':')?;
            key.trim().eq_ignore_ascii_case(name).then(|| cut(said.trim().to_owned(), ANSWER_MAX))
        });
        said.next()
    };
    let mut guidance = Guidance {
        implementation: named("implementation"),
        animation: named("animation"),
        accessibility: named("accessibility"),
        ..Guidance::default()
    };
    for passage in &section.passages {
        if let Some(language) = &passage.code {
            let name = if language.is_empty() { "code" } else { language };
            let example = cut(passage.text.clone(), ANSWER_MAX);
            guidance.examples.entry(name.to_owned()).or_insert(example);
        }
    }
    (guidance != Guidance::default()).then_some(guidance)
}
