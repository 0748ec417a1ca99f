//! `getImmediateAnswer`: the plan's answer, or else a wait for the inbox's. The tables are the
//! truth: a wait registers, reads, and sleeps until the answer is announced.

use async_trait::async_trait;
use std::time::Duration;

use provost_actors::refusal::Refusal;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::asking::{Asking, timed_out};
use crate::api::Session;
use crate::api::worker::question::{
    GetImmediateAnswerInput, GetImmediateAnswerOutput, ImmediateTools,
};
use crate::api::worker::ticket::Urgency;
use crate::domain::{Domain, waits};
use crate::store::Question;
use crate::work::question::check_length;

#[async_trait]
impl ImmediateTools for Domain {
    async fn get_immediate_answer(
        &self,
        session: &Session,
        input: GetImmediateAnswerInput,
    ) -> Result<GetImmediateAnswerOutput, Refusal> {
        let context = input.context_bundle.clone().map(Value::Object);
        check_length(&input.query, context.as_ref(), self.answers.token_limit)?;
        let project = input.project_id.as_deref();
        let asking = self.asking(session, project, input.task()).await?;
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
            if let Some((answer, by)) = now.answered {
                self.store.take_answer(id, agent).await?;
                return Ok((answer, Some(format!("{} ({by})", now.handle))));
            }
            if is_over {
                // From now on the answer is delivered.
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
