//! `callCOEAgent`: a question to the executor that answers.

use std::time::Duration;

use async_trait::async_trait;
use provost_actors::answers::Consultant;
pub(super) use provost_actors::journal::Consulted;
use provost_actors::refusal::{Code, Refusal};
use serde_json::json;

use super::asking::{Asking, after};
use crate::api::Session;
use crate::api::worker::question::{CallCoeAgentInput, CallCoeAgentOutput, ConsultTools};
use crate::api::worker::ticket::Urgency;
use crate::domain::{Answers, Domain};
use crate::store::{NewQuestion, Question};
use crate::work::answer::terms;
use crate::work::question::{check_tokens, tokens};

/// After how many seconds a caller may try again.
const RETRY_AFTER_SECS: u64 = 10;

#[async_trait]
impl ConsultTools for Domain {
    async fn call_coe_agent(
        &self,
        session: &Session,
        input: CallCoeAgentInput,
    ) -> Result<CallCoeAgentOutput, Refusal> {
        let context = input.context.as_ref().map(|context| json!(context));
        let beside = context.as_ref().map_or(0, |context| context.to_string().chars().count());
        check_tokens(tokens(input.query.chars().count() + beside), self.answers.token_limit)?;
        let asking = self.asking(session, input.project_id.as_deref(), input.task()).await?;
        let known = self.known(&asking, &input.query, &[]).await?;
        if let Some((answer, source)) = known.ruled() {
            return Ok(CallCoeAgentOutput { success: true, answer, source, question_id: None });
        }
        if !self.answers.is_configured() {
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
        let new = NewQuestion {
            question: &input.query,
            normal: &terms::normal(&input.query),
            context: context.as_ref(),
            priority: Urgency::Medium,
            task: asking.task,
            waits_until: Some(after(wait)),
        };
        let question = self.store.pass_on(&asking.worker, &new).await?;
        let answered = if let Some((answer, executor)) = question.answered.clone() {
            Consulted { answer, executor }
        } else {
            let consulted = self.consult(&asking, &question, wait).await;
            consulted.map_err(|refusal| known.shown_with(refusal))?
        };
        let Consulted { answer, executor } = answered;
        let question_id = Some(question.handle);
        Ok(CallCoeAgentOutput { success: true, answer, source: executor, question_id })
    }
}

impl Domain {
    /// Asks the executor, and waits for so long. A later answer is recorded all the same and
    /// delivered to the asker.
    pub(super) async fn consult(
        &self,
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
        let mut run = tokio::spawn(consultant.run(id, asked_from));
        let outcome = tokio::select! {
            ended = tokio::time::timeout(wait, &mut run) => ended,
            () = self.ending.cancelled() => return Err(crate::domain::waits::cut_off()),
        };
        match outcome {
            Ok(Ok(Ok(consulted))) => {
                self.store.take_answer(id, &asking.worker.agent).await?;
                Ok(consulted)
            }
            Ok(Ok(Err(refusal))) => Err(refusal),
            Ok(Err(fault)) => Err(Refusal::internal(fault.to_string())),
            Err(_) => {
                // From now on the answer is delivered.
                self.store.wait_no_longer(id, &asking.worker.agent).await?;
                Err(timed_out(question, wait))
            }
        }
    }

    pub(super) fn consultant(&self) -> Option<Consultant> {
        let Answers { executor, variant, timeout_secs, grace_secs, .. } = self.answers.clone();
        self.answers.is_configured().then(|| Consultant {
            courier: self.courier(),
            executor,
            variant,
            timeout: Duration::from_secs(timeout_secs),
            grace: Duration::from_secs(grace_secs),
        })
    }
}

fn timed_out(question: &Question, waited: Duration) -> Refusal {
    let handle = &question.handle;
    Refusal::new(
        Code::Timeout,
        format!(
            "no answer to {handle} within {} s. Create ticket or continue with other work: the \
             question is in the inbox, and the answer is delivered later",
            waited.as_secs()
        ),
    )
    .hint("Call createTicket instead, or the tool again later.")
    .detail("question_id", handle.as_str())
    .detail("retry_after_seconds", RETRY_AFTER_SECS)
}
