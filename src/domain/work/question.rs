//! `askQuestion` and `getImmediateAnswer`: answers from the plan and earlier answers, else through the
//! inbox.
//!
//! ```text
//!  askQuestion      known for sure --------------------------------------------> answer
//!                   else: into the inbox (or joins the same question there)
//!                     +- ruled on in the meantime ------------------------------> that ruling
//!                     +- an executor answers, and it has not answered this yet:
//!                     |    it answers, or a person rules first -----------------> that answer
//!                     |    no answer in time, or the daemon ends ---------------> refusal
//!                     |    it fails -------------------------------------------+
//!                     +- no executor ------------------------------------------+-> what is known so far;
//!                                                                                  the answer comes later
//!  getImmediate-    known for sure --------------------------------------------> answer
//!  Answer           else: into the inbox; waits for the answer ----------------> answer, or a timeout
//! ```
//!
//! A wait registers, reads the row, and sleeps until the answer is announced; then it reads again.

use async_trait::async_trait;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::asking::timed_out;
use super::consult::Consulted;
use crate::api::worker::question::{
    AskQuestionInput, AskQuestionOutput, AskTools, GetImmediateAnswerInput,
    GetImmediateAnswerOutput, ImmediateTools,
};
use crate::api::worker::ticket::Urgency;
use crate::api::{Caller, Code, Refusal};
use crate::domain::{Domain, waits};
use crate::store::{Asking, Question};
use crate::work::answer::earlier;
use crate::work::question::check_length;

/// True for refusals that mean only that the wait ended: the question is still open.
fn is_of_the_wait(code: Code) -> bool {
    matches!(code, Code::Timeout | Code::DaemonRestarting | Code::ShuttingDown)
}

#[async_trait]
impl AskTools for Domain {
    async fn ask_question(
        &self,
        caller: &Caller,
        input: AskQuestionInput,
    ) -> Result<AskQuestionOutput, Refusal> {
        input.check(self.answers.token_limit)?;
        let project = input.project_id.as_deref();
        let asking = self.asking(caller, project, input.task()).await?;
        let names = input.terms();
        let mut known = self.known(&asking, &input.question, &names).await?;
        let (mut question_id, mut is_passed_on) = (None, false);
        if !known.answer.is_sure() {
            let context = input.context_json();
            // If the executor has answered this question before, only a ruling can still change the
            // answer.
            let asks_executor = !self.answers.executor.is_empty()
                && !asking.is_answering
                && !known.has_earlier_answer;
            let wait = Duration::from_secs(self.answers.timeout_secs);
            let (urgency, waits) = (input.urgency(), asks_executor.then_some(wait));
            let question =
                self.pass_on(&asking, &input.question, context.as_ref(), urgency, waits).await?;
            (question_id, is_passed_on) = (Some(question.handle.clone()), true);
            if question.is_ruled() {
                // A person or the orchestrator ruled between the search and `pass_on`.
                known = self.known(&asking, &input.question, &names).await?;
                (question_id, is_passed_on) = (None, false);
            } else if question.answered.is_none() && asks_executor {
                match self.consult(caller, &asking, &question, wait).await {
                    Ok(Consulted { executor, .. }) if earlier::is_ruler(&executor) => {
                        known = self.known(&asking, &input.question, &names).await?;
                        (question_id, is_passed_on) = (None, false);
                    }
                    Ok(Consulted { answer, executor }) => {
                        let project = asking.worker.project_id;
                        known.answer = self
                            .executor_answer(project, &answer, &executor, &question.handle)
                            .await?;
                        is_passed_on = false;
                    }
                    Err(refusal) if is_of_the_wait(refusal.code) => {
                        return Err(known.shown_with(refusal));
                    }
                    // The executor gave no answer. The question stays in the inbox, and the call returns
                    // what is known.
                    Err(_) => {}
                }
            }
        }
        let answers = self.store.deliver_answers(&asking.worker, asking.task).await?;
        Ok(input.reply(known, question_id, is_passed_on, answers))
    }
}

#[async_trait]
impl ImmediateTools for Domain {
    async fn get_immediate_answer(
        &self,
        caller: &Caller,
        input: GetImmediateAnswerInput,
    ) -> Result<GetImmediateAnswerOutput, Refusal> {
        let context = input.context_bundle.clone().map(Value::Object);
        check_length(&input.query, context.as_ref(), self.answers.token_limit)?;
        let project = input.project_id.as_deref();
        let asking = self.asking(caller, project, input.task()).await?;
        let known = self.known(&asking, &input.query, &[]).await?;
        let (answer, source) = if let Some((answer, source)) = known.sure() {
            (answer, Some(source))
        } else {
            let seconds = u64::try_from(input.max_wait_seconds.get()).unwrap_or(u64::MAX);
            let wait = Duration::from_secs(seconds);
            let (query, context) = (&input.query, context.as_ref());
            let question = self.pass_on(&asking, query, context, Urgency::High, Some(wait)).await?;
            let waited = self.wait_for_answer(&asking, &question, wait).await;
            waited.map_err(|refusal| known.shown_with(refusal))?
        };
        let answers = self.store.deliver_answers(&asking.worker, asking.task).await?;
        Ok(GetImmediateAnswerOutput { answer, source, timeout: false, answers })
    }
}

impl Domain {
    /// Waits for an answer to a question in the inbox: its text, and where it is from.
    async fn wait_for_answer(
        &self,
        asking: &Asking,
        question: &Question,
        wait: Duration,
    ) -> Result<(String, Option<String>), Refusal> {
        let deadline = Instant::now() + wait;
        let (id, agent) = (question.id, &asking.worker.agent);
        let watch = self.store.watch_question(id);
        loop {
            let is_over = Instant::now() >= deadline;
            let now = self.store.question(id).await?;
            if let Some(Consulted { answer, executor: by }) = now.answered {
                self.store.take_answer(id, agent, &answer).await?;
                return Ok((answer, Some(format!("{} ({by})", now.handle))));
            }
            if is_over {
                // From now on, a late answer is delivered to the asker.
                self.store.wait_no_longer(id, agent).await?;
                return Err(timed_out(&now, wait)
                    .hint("Call createTicket instead.")
                    .detail("timeout", true)
                    .detail("retryable", false));
            }
            tokio::select! {
                _ = timeout_at(deadline, watch.changed()) => {}
                () = self.ending.cancelled() => return Err(waits::cut_off()),
            }
        }
    }
}
