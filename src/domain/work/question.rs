//! `askQuestion`: what the plan or an earlier ruling says; what they don't say goes to the
//! inbox, or first to the executor that the project has for answers.

use std::time::Duration;

use provost_actors::refusal::{Code, Refusal};

use super::asking::after;
use super::consult::Consulted;
use crate::api::Session;
use crate::domain::Domain;
use crate::store::NewQuestion;
use crate::work::answer::{Focus, Told, rulings, words};
use crate::work::question::{AskQuestionInput, AskQuestionOutput};
use crate::work::reply::Outcome;

fn is_of_the_wait(code: Code) -> bool {
    matches!(code, Code::Timeout | Code::DaemonRestarting | Code::ShuttingDown)
}

impl Domain {
    pub(in crate::domain) async fn asked(
        &self,
        session: &Session,
        input: AskQuestionInput,
    ) -> Result<AskQuestionOutput, Refusal> {
        input.check(self.answers.token_limit)?;
        let project = input.project_id.as_deref();
        let asking = self.asking(session, project, input.task()).await?;
        let focus = Focus { terms: input.terms(), sections: asking.sections.clone() };
        let mut known = self.known(&asking, &input.question, &focus).await?;
        let mut outcome = Outcome::Told;
        if !known.is_sure() {
            let context = input.told();
            // One that it has answered already waits for somebody's word.
            let asks_executor =
                self.answers.is_configured() && !asking.is_answering && !known.is_ruled;
            let wait = Duration::from_secs(self.answers.timeout_secs);
            let new = NewQuestion {
                question: &input.question,
                normal: &words::normal(&input.question),
                context: context.as_ref(),
                priority: input.urgency(),
                task: asking.task,
                waits_until: asks_executor.then(|| after(wait)),
            };
            let question = self.store.pass_on(&asking.worker, &new).await?;
            outcome = Outcome::PassedOn(question.handle.clone());
            if question.is_ruled() {
                // Meanwhile somebody ruled.
                known = self.known(&asking, &input.question, &focus).await?;
                outcome = Outcome::Told;
            } else if question.answered.is_none() && asks_executor {
                match self.consult(&asking, &question, wait).await {
                    Ok(Consulted { executor, .. }) if rulings::is_ruler(&executor) => {
                        known = self.known(&asking, &input.question, &focus).await?;
                        outcome = Outcome::Told;
                    }
                    Ok(Consulted { answer, executor }) => {
                        known.told = Told::consulted(&answer, &executor, &question.handle);
                        outcome = Outcome::Answered(question.handle);
                    }
                    Err(refusal) if is_of_the_wait(refusal.code) => {
                        return Err(known.shown_with(refusal));
                    }
                    // It gave no answer: the question is with people now.
                    Err(_) => {}
                }
            }
        }
        let answers = self.store.due_answers(&asking.worker, asking.task).await?;
        Ok(input.reply(known, &outcome, answers))
    }
}
