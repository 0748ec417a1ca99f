//! Earlier answers: the same question gets the same answer, and a similar question shows how it was decided.
//! Pure.

use std::collections::BTreeSet;

use provost_actors::ids::QuestionId;
use serde::Deserialize;

use super::{Answer, terms};
use crate::api::worker::question::Evidence;
use crate::api::worker::report::LateAnswer;

/// The confidence in a ruling.
const RULED: f64 = 0.97;

/// The share of common words from which on two questions are similar, and how many are shown.
const SIMILAR: f64 = 0.5;
const SIMILAR_MAX: usize = 3;

/// An answered question of the project.
#[derive(Clone, Debug, Deserialize)]
pub struct EarlierAnswer {
    pub question_id: QuestionId,
    pub said: LateAnswer,
}

impl LateAnswer {
    /// Whether a person or an orchestrator gave the answer, not an executor.
    pub fn is_decision(&self) -> bool {
        is_ruler(&self.answered_by)
    }

    /// The ruling as the answer to the same question.
    pub fn to_answer(&self) -> Answer {
        Answer {
            confidence: RULED,
            text: Some(self.answer.clone()),
            evidence: Some(Evidence {
                source: format!("ruling {}", self.question_id),
                plan_version: String::new(),
                section: String::new(),
                exact_quote: Some(self.answer.clone()),
                line_numbers: None,
            }),
            ..Answer::default()
        }
    }
}

/// Whether an answer by this name is a ruling.
pub fn is_ruler(by: &str) -> bool {
    matches!(by, "person" | "orchestrator")
}

/// The earlier answer to the question with the same words: a ruling if there is one, else the newest.
pub fn same<'a>(question: &str, earlier: &'a [EarlierAnswer]) -> Option<&'a EarlierAnswer> {
    let normal = terms::normal(question);
    let mut same = earlier.iter().filter(|it| terms::normal(&it.said.question) == normal);
    let first = same.clone().next();
    same.find(|it| it.said.is_decision()).or(first)
}

/// The answers to similar questions, the most similar first.
pub fn similar(question: &str, earlier: &[EarlierAnswer]) -> Vec<LateAnswer> {
    let words = |text: &str| terms::terms(text).into_iter().collect::<BTreeSet<_>>();
    let asked = words(question);
    let shares = earlier.iter().map(|it| (share(&asked, &words(&it.said.question)), it));
    let mut similar: Vec<_> = shares.filter(|(share, _)| *share >= SIMILAR).collect();
    similar.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    similar.into_iter().take(SIMILAR_MAX).map(|(_, it)| it.said.clone()).collect()
}

/// The share of the words of both questions that they have in common.
#[expect(clippy::cast_precision_loss, reason = "a question has few words")]
fn share(one: &BTreeSet<String>, other: &BTreeSet<String>) -> f64 {
    one.intersection(other).count() as f64 / one.union(other).count().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(question: &str, by: &str) -> EarlierAnswer {
        let said = LateAnswer {
            question_id: "Q-001".to_owned(),
            question: question.to_owned(),
            answer: format!("by {by}"),
            answered_by: by.to_owned(),
        };
        EarlierAnswer { question_id: QuestionId::new(), said }
    }

    #[test]
    fn the_same_question_is_known_again_however_it_is_spelled() {
        let earlier =
            [answered("Which ORM do we use?", "claude"), answered("which orm do we USE", "person")];
        let found = same("Which  ORM do we use", &earlier).unwrap();
        assert_eq!(found.said.answered_by, "person", "a decision goes before an executor's answer");
        assert!(same("Which ORM do they use?", &earlier).is_none());
    }

    #[test]
    fn only_questions_that_share_their_words_are_similar() {
        let earlier = [answered("Which ORM do we use for PostgreSQL?", "person")];
        assert_eq!(similar("Which ORM is used for PostgreSQL?", &earlier).len(), 1);
        assert!(similar("Which port does PostgreSQL listen on in staging?", &earlier).is_empty());
    }
}
