//! `askQuestion`: what the plan or an earlier answer says. Where that is not sure, the
//! question goes to the inbox, and first to the executor that answers, if there is one.

use async_trait::async_trait;
use std::time::Duration;

use provost_actors::refusal::{Code, Refusal};

use super::consult::Consulted;
use crate::api::Session;
use crate::api::worker::question::{AskQuestionInput, AskQuestionOutput, AskTools};
use crate::domain::Domain;
use crate::work::answer::earlier;
use crate::work::reply::Outcome;

fn is_of_the_wait(code: Code) -> bool {
    matches!(code, Code::Timeout | Code::DaemonRestarting | Code::ShuttingDown)
}

#[async_trait]
impl AskTools for Domain {
    async fn ask_question(
        &self,
        session: &Session,
        input: AskQuestionInput,
    ) -> Result<AskQuestionOutput, Refusal> {
        input.check(self.answers.token_limit)?;
        let project = input.project_id.as_deref();
        let asking = self.asking(session, project, input.task()).await?;
        let names = input.terms();
        let mut known = self.known(&asking, &input.question, &names).await?;
        let mut outcome = Outcome::Known;
        if !known.answer.is_sure() {
            let context = input.context_json();
            // A question that it answered already waits for a ruling.
            let asks_executor = !self.answers.executor.is_empty()
                && !asking.is_answering
                && !known.has_earlier_answer;
            let wait = Duration::from_secs(self.answers.timeout_secs);
            let (urgency, waits) = (input.urgency(), asks_executor.then_some(wait));
            let question =
                self.pass_on(&asking, &input.question, context.as_ref(), urgency, waits).await?;
            outcome = Outcome::PassedOn(question.handle.clone());
            if question.is_ruled() {
                // It was ruled on meanwhile.
                known = self.known(&asking, &input.question, &names).await?;
                outcome = Outcome::Known;
            } else if question.answered.is_none() && asks_executor {
                match self.consult(&asking, &question, wait).await {
                    Ok(Consulted { executor, .. }) if earlier::is_ruler(&executor) => {
                        known = self.known(&asking, &input.question, &names).await?;
                        outcome = Outcome::Known;
                    }
                    Ok(Consulted { answer, executor }) => {
                        let project = asking.worker.project_id;
                        known.answer = self
                            .executor_answer(project, &answer, &executor, &question.handle)
                            .await?;
                        outcome = Outcome::Answered(question.handle);
                    }
                    Err(refusal) if is_of_the_wait(refusal.code) => {
                        return Err(known.shown_with(refusal));
                    }
                    // It gave no answer: the question stays in the inbox.
                    Err(_) => {}
                }
            }
        }
        let answers = self.store.deliver_answers(&asking.worker, asking.task).await?;
        Ok(input.reply(known, &outcome, answers))
    }
}
