//! Delivers answers to the attempts that asked, as follow-ups. Exactly once: the store
//! chooses the attempts first, and each follow-up has a key of its own.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use serde_json::json;

use crate::attempt;
use crate::event::Timestamp;
use crate::gateway::{self, GatewayMessage};
use crate::ids::QuestionId;
use crate::journal::{Key, Sending};
use crate::payload;
use crate::refusal::Refusal;
use crate::retry::until_done;
use crate::world::World;

/// Cheap to clone.
#[derive(Clone)]
pub struct Courier {
    pub world: Arc<World>,
    pub gateway: ActorRef<GatewayMessage>,
}

impl Courier {
    /// Delivers, in a task, the answer to a question to every attempt that asked and has no
    /// call that waits for it. Where a call waits, the task looks again when its time is up.
    pub fn deliver(&self, question: QuestionId) {
        let courier = self.clone();
        tokio::spawn(async move {
            let what = format!("question {question}: delivering its answer");
            while let Some(later) = until_done(&what, || courier.deliver_now(question)).await {
                // A call that is just ending takes the answer before.
                let wait = later.since(Timestamp::now()) + Duration::from_secs(1);
                tokio::time::sleep(wait).await;
            }
        });
    }

    /// Resumes the deliveries that an earlier daemon left.
    pub async fn take_up(&self) {
        let journal = &self.world.journal;
        let what = "reading the answers to deliver";
        let questions = until_done(what, || journal.undelivered_questions()).await;
        for question in questions {
            self.deliver(question);
        }
    }

    /// Returns when to look again, if a call still waits for the answer.
    async fn deliver_now(&self, question: QuestionId) -> Result<Option<Timestamp>, Refusal> {
        let journal = &self.world.journal;
        let outgoing = journal.answers_to_send(question).await?;
        for sending in outgoing.now {
            let is_sent = self.send(question, &sending).await?;
            journal.answer_sent(question, sending.attempt_id, is_sent).await?;
        }
        Ok(outgoing.later)
    }

    /// `false`: the attempt takes no follow-up, so the answer comes with its next call.
    async fn send(&self, question: QuestionId, sending: &Sending) -> Result<bool, Refusal> {
        let Sending { attempt_id: attempt, answered_at: at, .. } = *sending;
        if attempt::was_collected(&self.world, attempt).await.unwrap_or_default() {
            return Ok(false);
        }
        let key = Key {
            tool: "follow_up",
            request_id: format!("answer:{question}:{attempt}:{}", at.millis()),
            payload_hash: payload::hash(
                &json!({"question": question, "attempt": attempt, "at": at}),
            ),
            resolved_hash: None,
        };
        let Sending { handle, question, answer, answered_by, .. } = sending;
        let prompt = format!(
            "The answer to your question {handle} ({question}), given by {answered_by}:\n\n{answer}"
        );
        gateway::notify_worker(&self.gateway, key, attempt, prompt).await
    }
}
