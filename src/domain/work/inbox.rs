//! The inbox, and the way of an answer to those who asked: a waiting call takes it itself;
//! an attempt gets it as a follow-up; all others with their next call.

use crate::api::Refusable;
use crate::api::worker::inbox::InboxTools;
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;

use provost_actors::attempt;
use provost_actors::event::Timestamp;
use provost_actors::gateway::{FollowUpRequest, GatewayMessage};
use provost_actors::ids::QuestionId;
use provost_actors::journal::FollowUpAction;
use provost_actors::payload;
use provost_actors::world::World;
use ractor::ActorRef;
use serde_json::json;

use crate::api::worker::inbox::{
    AnswerQuestionInput, AnswerQuestionOutput, ListQuestionsInput, ListQuestionsOutput,
};
use crate::api::worker::late::LateAnswer;
use crate::api::{Key, Once, Session};
use crate::domain::Domain;
use crate::store::{Sending, Store};

#[async_trait]
impl InboxTools for Domain {
    async fn list_questions(
        &self,
        _: &Session,
        input: ListQuestionsInput,
    ) -> Refusable<ListQuestionsOutput> {
        let page = self.store.inbox(&input).await?;
        let next = page.items.last().filter(|_| page.has_more);
        Ok(ListQuestionsOutput {
            next_cursor: next.map(|question| question.question_id.clone()),
            has_more: page.has_more,
            questions: page.items,
        })
    }

    async fn answer_question(
        &self,
        session: &Session,
        key: Option<Key>,
        input: AnswerQuestionInput,
    ) -> Refusable<Once<AnswerQuestionOutput>> {
        let by = if session.is_person { "person" } else { "orchestrator" };
        let (answer, question) =
            self.store.answer_question(key.as_ref(), &input, by, session.place.attempt()).await?;
        if let Some(question) = question {
            let courier = self.courier();
            tokio::spawn(async move { courier.deliver(question).await });
        }
        Ok(answer)
    }
}

impl Domain {
    pub(super) fn courier(&self) -> Courier {
        Courier {
            store: self.store.clone(),
            gateway: self.gateway.clone(),
            world: Arc::clone(&self.world),
        }
    }

    /// Takes up what an earlier daemon left: answers on their way, executors asked, plans
    /// that were indexed otherwise.
    pub async fn take_up_answers(&self) {
        let courier = self.courier();
        match self.store.untold_questions().await {
            Ok(questions) => {
                for question in questions {
                    courier.clone().deliver(question).await;
                }
            }
            Err(error) => tracing::error!(%error, "answers on their way can't be read"),
        }
        self.take_up_consultations().await;
        match self.store.renew_plans().await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "plans were indexed anew"),
            Err(error) => tracing::error!(%error, "plans can't be indexed anew"),
        }
    }
}

/// Brings answers to the attempts that asked.
#[derive(Clone)]
pub(super) struct Courier {
    store: Store,
    gateway: ActorRef<GatewayMessage>,
    world: Arc<World>,
}

impl Courier {
    /// Sends an answer to the attempts that no call of theirs waits for; to these once they
    /// wait no longer. Exactly once: who is sent one is chosen in the table first, and the
    /// follow-up has a key of its own.
    pub(super) async fn deliver(self, question: QuestionId) {
        loop {
            let outgoing = match self.store.answers_to_send(question).await {
                Ok(outgoing) => outgoing,
                Err(error) => {
                    tracing::error!(%error, %question, "an answer can't be sent");
                    return;
                }
            };
            for sending in outgoing.now {
                let is_sent = self.send(question, &sending).await;
                let noted = self.store.answer_sent(question, sending.attempt_id, is_sent).await;
                if let Err(error) = noted {
                    tracing::error!(%error, %question, "an answer that was sent can't be noted");
                }
            }
            let Some(later) = outgoing.later else { return };
            let wait = (later.millis() - Timestamp::now().millis()).max(0).unsigned_abs();
            // A call that is just ending takes it before.
            tokio::time::sleep(Duration::from_millis(wait) + Duration::from_secs(1)).await;
        }
    }

    async fn send(&self, question: QuestionId, sending: &Sending) -> bool {
        let attempt = sending.attempt_id;
        if attempt::was_collected(&self.world, attempt).await.unwrap_or_default() {
            return false;
        }
        let prompt = prompt(&sending.answer);
        let at = sending.answered_at;
        let key = Key {
            tool: "follow_up",
            request_id: format!("answer:{question}:{attempt}:{}", at.millis()),
            payload_hash: payload::hash(
                &json!({"question": question, "attempt": attempt, "at": at}),
            ),
            resolved_hash: None,
        };
        let request = FollowUpRequest {
            attempt_id: attempt,
            action: FollowUpAction::Queue,
            prompt,
            variant: None,
            unless_stopped: true,
        };
        let asked =
            ractor::call!(self.gateway, |port| GatewayMessage::FollowUp(Some(key), request, port));
        match asked {
            Ok(Ok(_)) => true,
            Ok(Err(refusal)) => {
                tracing::info!(%refusal, %question, %attempt, "an answer waits for the next call");
                false
            }
            Err(error) => {
                tracing::info!(%error, %question, "the daemon ends before an answer is sent");
                false
            }
        }
    }
}

fn prompt(answer: &LateAnswer) -> String {
    let LateAnswer { question_id, question, answer, answered_by } = answer;
    format!(
        "The answer to your question {question_id} ({question}), given by {answered_by}:\n\n{answer}"
    )
}
