//! Answers to questions: recorded for the person or the orchestrator who gives them, and delivered by the
//! courier.

use std::sync::Arc;
use std::time::Duration;

use provost_actors::answers::Courier;
use provost_actors::ids::QuestionId;
use provost_actors::journal::Deliveries as _;

use crate::api::worker::inbox::{AnswerQuestionInput, AnswerQuestionOutput};
use crate::api::{Caller, Idempotent, Key, Refusable, Refusal};
use crate::domain::Domain;

/// How long changes are collected before they are read together.
const TOGETHER: Duration = Duration::from_millis(50);
/// How many changes are read at once.
const BATCH: usize = 500;

impl Domain {
    /// Records an answer, and has it delivered. It can be a first answer or a ruling that replaces
    /// another one.
    pub(in crate::domain) async fn answer_question(
        &self,
        caller: &Caller,
        key: Option<Key>,
        input: AnswerQuestionInput,
    ) -> Refusable<Idempotent<AnswerQuestionOutput>> {
        let by = if caller.is_person { "person" } else { "orchestrator" };
        let (answer, question) =
            self.store.answer_question(key.as_ref(), &input, by, caller.place.attempt()).await?;
        if let Some(question) = question {
            self.courier().deliver(question);
        }
        Ok(answer)
    }

    /// Continues what an earlier daemon left: answers on their way, executors that were asked, and plans
    /// that an earlier version indexed in another way. The daemon calls this once at its start.
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

    /// Delivers the answers that daemons of other hosts record after change `last`. Runs until the daemon
    /// ends; returns at once if the board is not shared.
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

    /// Delivers what was answered after change `last`, and moves `last` on.
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

    /// A courier holds no state: deliveries are rows, so every courier sees the same ones.
    pub(super) fn courier(&self) -> Courier {
        Courier { world: Arc::clone(&self.world), gateway: self.gateway.clone() }
    }
}
