//! The reply to `askQuestion`: what is known, in the form of the call. Pure.

use provost_actors::refusal::Refusal;
use serde_json::json;

use super::answer::nearest::Near;
use super::answer::{SURE, Told};
use super::late::LateAnswer;
use super::question::{
    AnswerV1_0, AnswerV1_2, AskQuestionInput, AskQuestionOutput, Decision, Evidence, Form,
};

/// What is known to a question without asking anybody.
#[derive(Clone, Debug)]
pub struct Known {
    pub told: Told,
    /// A ruling says so, not the plan.
    pub is_ruled: bool,
    /// How similar questions were decided.
    pub decisions: Vec<Decision>,
    /// Where it is not sure: the passages that come nearest.
    pub nearest: Vec<Near>,
}

impl Known {
    pub fn is_sure(&self) -> bool {
        self.told.confidence >= SURE
    }

    /// A refusal for want of an answer, with the passages that come nearest.
    pub fn shown_with(&self, refusal: Refusal) -> Refusal {
        if self.nearest.is_empty() {
            refusal
        } else {
            refusal.detail("nearest", json!(self.nearest))
        }
    }

    /// The answer of a ruling and which one it is, if there is any.
    pub fn ruled(&self) -> Option<(String, String)> {
        self.sure().filter(|_| self.is_ruled)
    }

    /// The answer and who says so, if that is sure.
    pub fn sure(&self) -> Option<(String, String)> {
        let answer = self.told.answer.clone().filter(|_| self.is_sure())?;
        Some((answer, self.told.evidence.as_ref()?.cited()))
    }
}

/// What became of a question that the plan does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing: it was known.
    Told,
    /// It is in the inbox, as this.
    PassedOn(String),
    /// An executor answered it, as this.
    Answered(String),
}

impl Evidence {
    /// In a line.
    fn cited(&self) -> String {
        match self.line_numbers {
            Some([first, last]) => {
                format!(
                    "{} ({}), {}, lines {first}-{last}",
                    self.source, self.plan_version, self.section
                )
            }
            None => self.source.clone(),
        }
    }
}

impl AskQuestionInput {
    /// The reply, in the form of the call.
    pub fn reply(
        self,
        known: Known,
        outcome: &Outcome,
        answers: Vec<LateAnswer>,
    ) -> AskQuestionOutput {
        let (passed_on, question_id) = match outcome {
            Outcome::Told => (None, None),
            Outcome::PassedOn(handle) => (Some(handle), Some(handle.clone())),
            Outcome::Answered(handle) => (None, Some(handle.clone())),
        };
        let is_sure = known.is_sure();
        let Known { told, decisions, nearest, .. } = known;
        let uncertainty = told.uncertainty.map(|missing| match passed_on {
            Some(handle) => {
                format!("{missing} It was passed on as {handle}; the answer comes later.")
            }
            None => missing,
        });
        match self.form() {
            Form::V1_0 => AskQuestionOutput::V1_0(Box::new(AnswerV1_0 {
                success: true,
                question: self.question.into(),
                answer_from_plan: told.answer,
                confidence: told.confidence,
                evidence: told.evidence,
                guidance: told.guidance,
                nearest,
                related_design_choices: told.related,
                related_decisions: match self.include_related_decisions {
                    Some(false) => Vec::new(),
                    _ => decisions,
                },
                uncertainty,
                question_id,
                answers,
            })),
            Form::V1_2 => AskQuestionOutput::V1_2(AnswerV1_2 {
                answer: match (told.answer, uncertainty) {
                    (Some(answer), None) => answer,
                    (Some(answer), Some(missing)) => format!("{answer}\n\n{missing}"),
                    (None, missing) => missing.unwrap_or_default(),
                },
                source: told.evidence.as_ref().map(Evidence::cited),
                nearest,
                confidence: percent(told.confidence),
                follow_up_needed: !is_sure,
                escalated_to_user: passed_on.is_some(),
                question_id,
                answers,
            }),
        }
    }
}

fn percent(confidence: f64) -> u8 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    let percent = (confidence.clamp(0.0, 1.0) * 100.0).round() as u8;
    percent
}
