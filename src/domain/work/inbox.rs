//! The inbox, and the answers that come out of it.

use std::sync::Arc;

use async_trait::async_trait;
use provost_actors::answers::Courier;

use crate::api::worker::inbox::{
    AnswerQuestionInput, AnswerQuestionOutput, InboxTools, ListQuestionsInput, ListQuestionsOutput,
};
use crate::api::{Caller, Key, Once, Refusable};
use crate::domain::Domain;

#[async_trait]
impl InboxTools for Domain {
    async fn list_questions(
        &self,
        _: &Caller,
        input: ListQuestionsInput,
    ) -> Refusable<ListQuestionsOutput> {
        let page = self.store.inbox(&input).await?;
        Ok(ListQuestionsOutput {
            next_cursor: page.next(|question| question.question_id.clone()),
            has_more: page.has_more,
            questions: page.items,
        })
    }

    async fn answer_question(
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
}

impl Domain {
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

    pub(super) fn courier(&self) -> Courier {
        Courier { world: Arc::clone(&self.world), gateway: self.gateway.clone() }
    }
}
