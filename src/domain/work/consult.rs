//! `callCOEAgent`: a question to the executor that `[answers]` names, and the wait for its answer.

use std::time::Duration;

use async_trait::async_trait;
use provost_actors::answers::Answerer;
use provost_actors::gateway::left_to_person;
pub(super) use provost_actors::journal::Consulted;
use serde_json::json;

use super::asking::timed_out;
use crate::api::worker::question::{CallCoeAgentInput, CallCoeAgentOutput, ConsultTools};
use crate::api::worker::ticket::Urgency;
use crate::api::{Caller, Code, Refusal};
use crate::config::Answers;
use crate::domain::Domain;
use crate::store::{Asking, Question};
use crate::work::question::check_length;

/// When a call that got no answer may be repeated, as its refusal says.
const RETRY_AFTER_SECS: u64 = 10;

#[async_trait]
impl ConsultTools for Domain {
    async fn call_coe_agent(
        &self,
        caller: &Caller,
        input: CallCoeAgentInput,
    ) -> Result<CallCoeAgentOutput, Refusal> {
        let context = input.context.as_ref().map(|context| json!(context));
        check_length(&input.query, context.as_ref(), self.answers.token_limit)?;
        let asking = self.asking(caller, input.project_id.as_deref(), input.task()).await?;
        let known = self.known(&asking, &input.query, &[]).await?;
        if let Some((answer, source)) = known.ruled() {
            return Ok(CallCoeAgentOutput { success: true, answer, source, question_id: None });
        }
        if self.answers.executor.is_empty() {
            return Err(Refusal::new(
                Code::ExecutorNotFound,
                "no executor answers questions here: config.toml names none as `[answers] executor`",
            )
            .hint("Call askQuestion instead. Or createTicket.")
            .detail("setting", "answers.executor"));
        }
        let seconds =
            input.max_wait_seconds.map(|wait| u64::try_from(wait.get()).unwrap_or(u64::MAX));
        let wait = Duration::from_secs(seconds.unwrap_or(self.answers.timeout_secs));
        let (query, context) = (&input.query, context.as_ref());
        let question = self.pass_on(&asking, query, context, Urgency::Medium, Some(wait)).await?;
        let consulted = match question.answered.clone() {
            Some(answered) => Ok(answered),
            None => self.consult(caller, &asking, &question, wait).await,
        };
        let Consulted { answer, executor: source } =
            consulted.map_err(|refusal| known.shown_with(refusal))?;
        let question_id = Some(question.handle);
        Ok(CallCoeAgentOutput { success: true, answer, source, question_id })
    }
}

impl Domain {
    /// Asks the executor, and waits for its answer. The run is a task of its own: an answer after the
    /// wait is recorded all the same, and delivered to the asker.
    ///
    /// # Errors
    /// No executor answers; the asker answers questions itself, or runs in an unknown attempt; the
    /// executor failed; or the wait is over.
    pub(super) async fn consult(
        &self,
        caller: &Caller,
        asking: &Asking,
        question: &Question,
        wait: Duration,
    ) -> Result<Consulted, Refusal> {
        let Some(consultant) = self.consultant() else {
            return Err(Refusal::internal("no executor answers questions"));
        };
        if asking.is_answering {
            return Err(Refusal::new(
                Code::NotPermitted,
                "an executor that answers questions can't ask one",
            )
            .hint("Answer by what you can see."));
        }
        let id = question.id;
        let asked_from = asking.worker.attempt_id;
        if caller.place.is_inside() && asked_from.is_none() {
            // The caller may be an agent in a sandbox, of any attempt. The answerer could do what that
            // sandbox forbids, so a person answers.
            self.store.wait_no_longer(id, &asking.worker.agent).await?;
            return Err(left_to_person("it is not known which attempt asks"));
        }
        let mut run = tokio::spawn(consultant.run(id, asked_from));
        let outcome = tokio::select! {
            ended = tokio::time::timeout(wait, &mut run) => ended,
            () = self.ending.cancelled() => return Err(crate::domain::waits::cut_off()),
        };
        match outcome {
            Ok(Ok(Ok(consulted))) => {
                self.store.take_answer(id, &asking.worker.agent, &consulted.answer).await?;
                Ok(consulted)
            }
            Ok(Ok(Err(refusal))) => {
                // From now on, a person's answer is delivered to the asker.
                self.store.wait_no_longer(id, &asking.worker.agent).await?;
                Err(refusal)
            }
            Ok(Err(fault)) => Err(Refusal::internal(fault.to_string())),
            Err(_) => {
                // From now on, a late answer is delivered to the asker.
                self.store.wait_no_longer(id, &asking.worker.agent).await?;
                Err(timed_out(question, wait)
                    .hint("Call createTicket instead, or the tool again later.")
                    .detail("retry_after_seconds", RETRY_AFTER_SECS))
            }
        }
    }

    /// The executor that answers questions. `None`: the configuration names none.
    pub(super) fn consultant(&self) -> Option<Answerer> {
        let Answers { executor, variant, timeout_secs, grace_secs, .. } = self.answers.clone();
        (!executor.is_empty()).then(|| Answerer {
            courier: self.courier(),
            executor,
            variant,
            timeout: Duration::from_secs(timeout_secs),
            grace: Duration::from_secs(grace_secs),
        })
    }
}
