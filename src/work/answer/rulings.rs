//! Earlier answers: the same question gets the same answer again, and a similar one shows
//! how it was decided. Pure.

use std::collections::BTreeSet;

use provost_actors::ids::QuestionId;
use serde::Deserialize;

use super::{Answer, terms};
use crate::api::worker::late::LateAnswer;
use crate::api::worker::question::Evidence;

/// Confidence in the ruling of an orchestrator or a person.
const RULED: f64 = 0.97;

/// The share of words that makes two questions similar, and how many are shown.
const SIMILAR: f64 = 0.5;
const SIMILAR_MAX: usize = 3;

/// A question that was answered.
#[derive(Clone, Debug, Deserialize)]
pub struct Ruling {
    pub question_id: QuestionId,
    pub handle: String,
    pub question: String,
    pub answer: String,
    pub by: String,
}

impl Ruling {
    /// Whether a person or an orchestrator decided it, not an executor.
    pub fn is_decision(&self) -> bool {
        is_ruler(&self.by)
    }

    /// The decision as the answer to its own question.
    pub fn to_answer(&self) -> Answer {
        Answer {
            confidence: RULED,
            text: Some(self.answer.clone()),
            evidence: Some(Evidence {
                source: format!("ruling {}", self.handle),
                plan_version: String::new(),
                section: String::new(),
                exact_quote: Some(self.answer.clone()),
                line_numbers: None,
            }),
            ..Answer::default()
        }
    }
}

/// Whether answers by this name are decisions.
pub fn is_ruler(by: &str) -> bool {
    matches!(by, "person" | "orchestrator")
}

/// The newest answer to the same question, word for word; a decision before any other.
pub fn same<'a>(question: &str, rulings: &'a [Ruling]) -> Option<&'a Ruling> {
    let normal = terms::normal(question);
    let mut same = rulings.iter().filter(|ruling| terms::normal(&ruling.question) == normal);
    let first = same.clone().next();
    same.find(|ruling| ruling.is_decision()).or(first)
}

/// How similar questions were decided, the most similar first.
pub fn similar(question: &str, rulings: &[Ruling]) -> Vec<LateAnswer> {
    let words = |text: &str| terms::terms(text).into_iter().collect::<BTreeSet<_>>();
    let asked = words(question);
    let mut similar: Vec<(f64, &Ruling)> = rulings
        .iter()
        .map(|ruling| (share(&asked, &words(&ruling.question)), ruling))
        .filter(|(share, _)| *share >= SIMILAR)
        .collect();
    similar.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let decision = |ruling: &Ruling| LateAnswer {
        question_id: ruling.handle.clone(),
        question: ruling.question.clone(),
        answer: ruling.answer.clone(),
        answered_by: ruling.by.clone(),
    };
    similar.into_iter().take(SIMILAR_MAX).map(|(_, ruling)| decision(ruling)).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a question has few words")]
fn share(one: &BTreeSet<String>, other: &BTreeSet<String>) -> f64 {
    one.intersection(other).count() as f64 / one.union(other).count().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ruling(question: &str, by: &str) -> Ruling {
        Ruling {
            question_id: QuestionId::new(),
            handle: "Q-001".to_owned(),
            question: question.to_owned(),
            answer: format!("by {by}"),
            by: by.to_owned(),
        }
    }

    #[test]
    fn the_same_question_is_known_again_however_it_is_spelled() {
        let rulings =
            [ruling("Which ORM do we use?", "claude"), ruling("which orm do we USE", "person")];
        let found = same("Which  ORM do we use", &rulings).unwrap();
        assert_eq!(found.by, "person", "a decision goes before an executor's answer");
        assert!(same("Which ORM do they use?", &rulings).is_none());
    }

    #[test]
    fn only_questions_that_share_their_words_are_similar() {
        let rulings = [ruling("Which ORM do we use for PostgreSQL?", "person")];
        assert_eq!(similar("Which ORM is used for PostgreSQL?", &rulings).len(), 1);
        assert!(similar("Which port does PostgreSQL listen on in staging?", &rulings).is_empty());
    }
}
