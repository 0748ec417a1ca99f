//! What is told of what was found: the answer with its evidence, what else the plan says
//! to it, and what is missing. Pure, and nothing of it is made up.

use provost_actors::text::cut;

use super::super::plan::{Passage, Section};
use super::super::question::{Evidence, Guidance};
use super::rulings::CONSULTED;
use super::{Doubt, Found, Hit, Judgement, SURE, Search};

/// Below it there is no answer, only what is related.
const FLOOR: f64 = 0.4;

/// Other passages that are told at most, and how long each may be, in characters.
const RELATED: usize = 3;
const RELATED_MAX: usize = 200;

/// Longest answer, in characters.
const ANSWER_MAX: usize = 1500;

/// What the plan says to a question.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// From 0 to 1, with two decimals.
    pub confidence: f64,
    pub answer: Option<String>,
    pub evidence: Option<Evidence>,
    pub guidance: Option<Guidance>,
    pub related: Vec<String>,
    /// What is missing, where it is not sure.
    pub uncertainty: Option<String>,
}

impl Told {
    /// What an executor answered, which nobody has held against anything.
    pub fn consulted(answer: &str, executor: &str, question: &str) -> Self {
        Self {
            confidence: CONSULTED,
            answer: Some(answer.to_owned()),
            evidence: Some(Evidence {
                source: format!("{executor}, asked as {question}"),
                plan_version: String::new(),
                section: String::new(),
                exact_quote: None,
                line_numbers: None,
            }),
            uncertainty: Some(format!(
                "The plan does not say this. The executor {executor} answered it from the code; \
                 nobody has ruled on it."
            )),
            ..Self::default()
        }
    }
}

/// Puts into words what was found.
pub fn tell(search: &Search, found: &Found) -> Told {
    let Some((best, judgement)) = &found.best else {
        return Told { uncertainty: Some(nothing(search).to_owned()), ..Told::default() };
    };
    let confidence = (judgement.confidence * 100.0).round() / 100.0;
    let section = &search.sections[best.section];
    let passage = &section.passages[best.passage];
    let is_answer = confidence >= FLOOR;
    let place = &search.places[best.section];
    Told {
        confidence,
        answer: is_answer.then(|| cut(passage.text.clone(), ANSWER_MAX)),
        evidence: is_answer.then(|| Evidence {
            source: place.source.clone(),
            plan_version: place.version.clone(),
            section: at(section, passage).to_owned(),
            exact_quote: Some(passage.quote.clone()),
            line_numbers: Some([passage.first_line, passage.last_line]),
        }),
        guidance: is_answer.then(|| guidance(section, passage)).flatten(),
        related: related(search, found, if is_answer { Some(best) } else { None }),
        uncertainty: (confidence < SURE).then(|| uncertainty(search, judgement)),
    }
}

fn nothing(search: &Search) -> &'static str {
    if search.is_empty {
        "The project has no plan yet."
    } else {
        "The plan says nothing about this."
    }
}

/// The path of a value, or the breadcrumb of its section.
fn at<'a>(section: &'a Section, passage: &'a Passage) -> &'a str {
    passage.path.as_deref().unwrap_or(&section.breadcrumb)
}

/// Other good hits, each from lines of its own.
fn related(search: &Search, found: &Found, told: Option<&Hit>) -> Vec<String> {
    let first = found.best.iter().map(|(hit, _)| hit).filter(|_| told.is_none());
    let mut seen: Vec<&Hit> = told.into_iter().collect();
    let mut related = Vec::new();
    for hit in first.chain(&found.others) {
        if related.len() == RELATED || !hit.is_near() {
            break;
        }
        if seen.iter().any(|other| search.overlap(hit, other)) {
            continue;
        }
        let section = &search.sections[hit.section];
        let passage = &section.passages[hit.passage];
        let text = passage.text.replace('\n', " ");
        related.push(cut(format!("{}: {text}", at(section, passage)), RELATED_MAX));
        seen.push(hit);
    }
    related
}

/// What the section says under the names of guidance, and its code.
fn guidance(section: &Section, answer: &Passage) -> Option<Guidance> {
    let named = |name: &str| {
        let other =
            section.passages.iter().filter(|passage| *passage != answer && !passage.is_whole);
        let mut said = other.filter_map(|passage| {
            let text = passage.asked.as_deref().unwrap_or(&passage.text);
            let (key, said) = text.split_once(':')?;
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

fn uncertainty(search: &Search, judgement: &Judgement) -> String {
    let doubts = judgement.doubts.iter().map(|doubt| match doubt {
        Doubt::Unmentioned(words) => {
            format!("The plan says nothing here about {}.", listed(words))
        }
        Doubt::Apart(words) => {
            format!("Only its section speaks of {}, not the passage itself.", listed(words))
        }
        Doubt::Swapped => "The plan says it the other way round.".to_owned(),
        Doubt::Denies => "The plan says here what is not so.".to_owned(),
        Doubt::Lacks(what) => format!("What it says does not tell {what}."),
        Doubt::Turned(asked, said) => {
            format!("The question says {asked}, and the plan speaks of {said}.")
        }
        Doubt::Open => "The plan leaves this open.".to_owned(),
        Doubt::Rejected => "This stands under what was rejected or is out of date.".to_owned(),
        Doubt::Rival { section, passage } => {
            let section = &search.sections[*section];
            let passage = &section.passages[*passage];
            let text = cut(passage.text.clone(), RELATED_MAX);
            format!("The plan says otherwise in {}: \"{text}\".", at(section, passage))
        }
        Doubt::Vague => "Little more than a heading has to do with the question.".to_owned(),
    });
    let doubts: Vec<String> = doubts.collect();
    if doubts.is_empty() {
        return "The plan comes near this, but does not say it in so many words.".to_owned();
    }
    doubts.join(" ")
}

fn listed(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}
