//! The inbox, and the answers that come out of it.

use std::sync::Arc;
use std::time::Duration;

use provost_actors::answers::Courier;
use provost_actors::ids::QuestionId;
use provost_actors::journal::Deliveries as _;

use crate::api::worker::inbox::{AnswerQuestionInput, AnswerQuestionOutput};
use crate::api::{Caller, Key, Once, Refusable, Refusal};
use crate::domain::Domain;

/// Changes within this time are looked at together.
const TOGETHER: Duration = Duration::from_millis(50);
/// Changes that are read at once.
const BATCH: usize = 500;

impl Domain {
    pub(in crate::domain) async fn answer_question(
        &self,
        caller: &Caller,
        key: Option<Key>,
        input: AnswerQuestionInput,
    ) -> Refusable<Once<AnswerQuestionOutput>> {
        let by = if caller.is_person { "person" } else { "orchestrator" };
        let (answer, question) =
            self.store.answer_question(key.as_ref(), &input, by, caller.place.attempt()).await?;
        if let Some(question) = question {
            self.courier().deliver(question);
        }
        Ok(answer)
    }

    /// Takes up what an earlier daemon left: answers on their way, executors asked, plans
    /// that were indexed otherwise.
    pub async fn take_up_answers(&self) {
        self.courier().take_up().await;
        if let Some(consultant) = self.consultant() {
            consultant.take_up().await;
        }
        match self.store.renew_plans().await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "plans were indexed anew"),
            Err(error) => tracing::error!(%error, "plans can't be indexed anew"),
        }
    }

    /// Delivers the answers that daemons of other hosts record from a change on. Ends at once where
    /// there are none.
    pub async fn follow_answers(&self, mut last: u64) {
        if !self.world.host.has_lease {
            return;
        }
        let mut commits = self.store.commits();
        while commits.changed().await.is_ok() {
            tokio::time::sleep(TOGETHER).await;
            if let Err(refusal) = self.deliver_after(&mut last).await {
                tracing::warn!(%refusal, "answers that other hosts have recorded are not known");
            }
        }
    }

    async fn deliver_after(&self, last: &mut u64) -> Result<(), Refusal> {
        loop {
            let changes = self.store.changes_after(*last, BATCH).await?;
            let Some(newest) = changes.last() else { return Ok(()) };
            let is_answered = |id: &QuestionId| {
                let id = id.to_string();
                changes.iter().any(|change| change.topic == "inbox" && change.id == id)
            };
            if changes.iter().any(|change| change.topic == "inbox") {
                let undelivered = self.store.undelivered_questions().await?;
                for question in undelivered.into_iter().filter(is_answered) {
                    self.courier().deliver(question);
                }
            }
            *last = newest.number;
        }
    }

    pub(super) fn courier(&self) -> Courier {
        Courier { world: Arc::clone(&self.world), gateway: self.gateway.clone() }
    }
}
