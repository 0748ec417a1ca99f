//! The reply to `askQuestion`, in the form of the call. Pure.

use provost_actors::refusal::Refusal;
use serde_json::json;

use super::answer::Answer;
use crate::api::worker::question::{
    AnswerV1_0, AnswerV1_2, AskQuestionInput, AskQuestionOutput, Evidence, Near,
};
use crate::api::worker::report::LateAnswer;

/// What the plan and earlier answers say to a question.
#[derive(Clone, Debug)]
pub struct Known {
    pub answer: Answer,
    /// The answer is an earlier one, not one of the plan.
    pub has_earlier_answer: bool,
    /// The answers to similar questions.
    pub decisions: Vec<LateAnswer>,
    /// The passages that match best, whether or not they answer.
    pub nearest: Vec<Near>,
}

impl Known {
    /// Adds the best passages to a refusal that says that there is no answer.
    pub fn shown_with(&self, refusal: Refusal) -> Refusal {
        if self.nearest.is_empty() {
            refusal
        } else {
            refusal.detail("nearest", json!(self.nearest))
        }
    }

    /// The sure answer that was given earlier, and who gave it; `None`: there is none.
    pub fn ruled(&self) -> Option<(String, String)> {
        self.sure().filter(|_| self.has_earlier_answer)
    }

    /// The answer and its source, if it is sure.
    pub fn sure(&self) -> Option<(String, String)> {
        let answer = self.answer.text.clone().filter(|_| self.answer.is_sure())?;
        Some((answer, self.answer.evidence.as_ref()?.cited()))
    }
}

impl Evidence {
    /// The evidence as a source in one line.
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
    /// The reply, in the form of the call. `question_id` is the handle of a question that the plan does not
    /// answer. It is in the inbox if `is_passed_on`; otherwise an executor has answered it.
    pub fn reply(
        self,
        known: Known,
        question_id: Option<String>,
        is_passed_on: bool,
        answers: Vec<LateAnswer>,
    ) -> AskQuestionOutput {
        let Known { answer, decisions, nearest, .. } = known;
        let is_sure = answer.is_sure();
        let passed_on = question_id.as_ref().filter(|_| is_passed_on);
        let uncertainty = answer.uncertainty.map(|missing| match passed_on {
            Some(handle) => {
                format!("{missing} It was passed on as {handle}; the answer comes later.")
            }
            None => missing,
        });
        if self.is_v1_2() {
            return AskQuestionOutput::V1_2(AnswerV1_2 {
                answer: match (answer.text, uncertainty) {
                    (Some(answer), None) => answer,
                    (Some(answer), Some(missing)) => format!("{answer}\n\n{missing}"),
                    (None, missing) => missing.unwrap_or_default(),
                },
                source: answer.evidence.as_ref().map(Evidence::cited),
                nearest,
                confidence: percent(answer.confidence),
                follow_up_needed: !is_sure,
                escalated_to_user: is_passed_on,
                question_id,
                answers,
            });
        }
        AskQuestionOutput::V1_0(Box::new(AnswerV1_0 {
            success: true,
            question: self.question.into(),
            answer_from_plan: answer.text,
            confidence: answer.confidence,
            evidence: answer.evidence,
            guidance: answer.guidance,
            nearest,
            related_design_choices: answer.related,
            related_decisions: match self.include_related_decisions {
                Some(false) => Vec::new(),
                _ => decisions,
            },
            uncertainty,
            question_id,
            answers,
        }))
    }
}

fn percent(confidence: f64) -> u8 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    let percent = (confidence.clamp(0.0, 1.0) * 100.0).round() as u8;
    percent
}
