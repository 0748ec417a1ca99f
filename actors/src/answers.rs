//! Answers to workers' questions: by the configured executor ([`Answerer`]), and on their way to the
//! attempts that asked ([`Courier`]). Their tasks outlive the calls that begin them. After a restart they
//! continue with the questions that the store lists as open.
//!
//! ```text
//!  run ─▶ is its sandbox as strict as the asker's? ─no─▶ refused: left to a person
//!          │ yes
//!          ▼
//!        start, as an attempt of a task of its own ─▶ await_answer
//!            Answered ─▶ recorded ─────┐
//!            Ruled ────▶ it is stopped ┴─▶ the answer ─▶ Courier: deliver to all who asked
//!            OutOfTime ▶ it is stopped ┬─▶ refused: the question stays in the inbox
//!            Failed ───────────────────┘
//! ```

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use serde_json::json;

use crate::attempt;
use crate::event::Timestamp;
use crate::gateway::{self, GatewayMessage, StartRequest};
use crate::ids::{AttemptId, QuestionId};
use crate::journal::{AnswerProgress, Consulted, Key, Sending};
use crate::refusal::{Code, Refusal};
use crate::retry::{until_done, while_store_fails};
use crate::world::World;

/// The names that executors have for a variant that only reads, the best first.
const READ_ONLY: [&str; 3] = ["plan", "read-only", "readonly"];

/// Has the configured executor answer questions. It runs as an attempt of a task of its own, so it has the
/// log, the limits, the stop and the restart of any other, and worktrees of its own: it can't change the
/// asker's files. Cheap to clone.
#[derive(Clone)]
pub struct Answerer {
    pub courier: Courier,
    pub executor: String,
    /// The variant; empty: one that only reads, if the executor has one.
    pub variant: String,
    /// How long the executor may take.
    pub timeout: Duration,
    /// How much longer than `timeout` a late answer is accepted. Then the executor is stopped.
    pub grace: Duration,
}

impl Answerer {
    /// Asks the executor and records its answer. A person's ruling that comes first is the answer, and
    /// stops the executor. Each step can be repeated: after a restart, and for another asker of the same
    /// question.
    ///
    /// # Errors
    /// The executor may not be asked, can't start, or ended without an answer.
    pub async fn run(
        self,
        question: QuestionId,
        asked_from: Option<AttemptId>,
    ) -> Result<Consulted, Refusal> {
        // Checked before anything begins: the executor may be at work for another asker, who may have its
        // answer.
        if let Some(asker) = asked_from {
            let (executor, variant) = (&self.executor, self.variant());
            let held =
                gateway::held_as_its_asker(self.world(), asker, executor, variant.as_deref());
            held.await.inspect_err(|refusal| {
                tracing::warn!(%refusal, %question, "a question is left to a person");
            })?;
        }
        let answered = self.answered(question, asked_from).await;
        if let Err(refusal) = &answered {
            tracing::warn!(%refusal, %question, "the executor did not answer");
            let what = format!("question {question}: recording that nothing answers it");
            let journal = &self.world().journal;
            while_store_fails(what, || journal.executor_failed(question)).await?;
        }
        // Calls that wait for the answer take it themselves; the others get a follow-up.
        self.courier.deliver(question);
        answered
    }

    /// Resumes the consultations that an earlier daemon left.
    pub async fn take_up(&self) {
        let journal = &self.world().journal;
        let open = while_store_fails("reading the open questions", || journal.consultations());
        let open = open.await.inspect_err(|refusal| {
            tracing::error!(%refusal, "the open questions can't be read");
        });
        for question in open.unwrap_or_default() {
            tokio::spawn(self.clone().run(question, None));
        }
    }

    /// Starts the executor and waits for its answer, whatever restarts or the store do meanwhile.
    async fn answered(
        &self,
        question: QuestionId,
        asked_from: Option<AttemptId>,
    ) -> Result<Consulted, Refusal> {
        let journal = &self.world().journal;
        let what = format!("question {question}: asking the executor");
        let (handle, attempt) =
            while_store_fails(&what, || Box::pin(self.start(question, asked_from))).await?;
        let (timeout, grace) = (self.timeout, self.grace);
        let progress =
            while_store_fails(&what, || journal.await_answer(question, attempt, timeout, grace));
        let why = match progress.await? {
            AnswerProgress::Answered(answer) => {
                let what = format!("question {question}: recording its answer");
                let record = || journal.executor_answered(question, &answer);
                return while_store_fails(what, record).await;
            }
            AnswerProgress::Ruled(answer) => {
                self.stop(attempt);
                return Ok(answer);
            }
            AnswerProgress::OutOfTime => {
                self.stop(attempt);
                "it was stopped because it did not answer in time".to_owned()
            }
            AnswerProgress::Failed(why) => {
                why.unwrap_or_else(|| "it ended without a message".to_owned())
            }
        };
        Err(Refusal::new(
            Code::SpawnFailed,
            format!("the executor gave no answer to {handle}: {why}. The question is in the inbox"),
        )
        .hint(
            "Call createTicket instead, or continue with other work: the answer is delivered later.",
        )
        .detail("question_id", handle)
        .detail("attempt_id", attempt.to_string()))
    }

    /// Starts the executor, unless an earlier call did: the key is made of the question. Also returns the
    /// question's handle.
    async fn start(
        &self,
        question: QuestionId,
        asked_from: Option<AttemptId>,
    ) -> Result<(String, AttemptId), Refusal> {
        let plan = self.world().journal.consultation(question, asked_from).await?;
        let request = StartRequest {
            task_id: plan.task_id,
            executor: self.executor.clone(),
            variant: self.variant(),
            repos: plan.repos,
            prompt: Some(plan.prompt),
            fork: None,
            ignore_dependencies: true,
            parent: None,
            is_carried: false,
        };
        let (tool, id) = ("start_task_attempt", format!("consult:{question}"));
        let key = Key::new(tool, id, &json!({"question": question}));
        let Courier { world, gateway } = &self.courier;
        let started = gateway::start(gateway, world, Some(key), request).await?;
        Ok((plan.handle, started.value.attempt_id))
    }

    /// Stops, in a task, an executor whose answer is no longer needed.
    fn stop(&self, attempt: AttemptId) {
        let gateway = self.courier.gateway.clone();
        tokio::spawn(async move {
            let stop = |port| GatewayMessage::Stop(None, attempt, false, port);
            if let Err(refusal) = gateway::ask(&gateway, stop).await {
                tracing::warn!(%refusal, %attempt, "an executor that answers could not be stopped");
            }
        });
    }

    /// The configured variant; else one that only reads, if the executor has one; else its default.
    fn variant(&self) -> Option<String> {
        if !self.variant.is_empty() {
            return Some(self.variant.clone());
        }
        let variants = self.world().executors.get(&self.executor)?.describe().variants;
        READ_ONLY.iter().find_map(|name| variants.iter().find(|variant| variant == name).cloned())
    }

    fn world(&self) -> &World {
        &self.courier.world
    }
}

/// Delivers answers to the attempts that asked, as follow-ups. Each attempt gets an answer once: the store
/// marks the attempts first, and each follow-up has a key of its own. Cheap to clone.
#[derive(Clone)]
pub struct Courier {
    pub world: Arc<World>,
    pub gateway: ActorRef<GatewayMessage>,
}

impl Courier {
    /// Delivers, in a task, the answer to a question to every attempt that asked and has no call that waits
    /// for it. Where a call waits, the task looks again when that call's time is over.
    pub fn deliver(&self, question: QuestionId) {
        let courier = self.clone();
        tokio::spawn(async move {
            let what = format!("question {question}: delivering its answer");
            while let Some(later) = until_done(&what, || courier.deliver_now(question)).await {
                // A call that is about to end may still take the answer: look a second later.
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

    /// Delivers what can be delivered now. Returns when to look again, if a call still waits for the answer.
    async fn deliver_now(&self, question: QuestionId) -> Result<Option<Timestamp>, Refusal> {
        let journal = &self.world.journal;
        let (now, later) = journal.answers_to_send(question).await?;
        for sending in now {
            let is_sent = self.send(question, &sending).await?;
            journal.answer_sent(question, sending.attempt_id, is_sent).await?;
        }
        Ok(later)
    }

    /// `false`: the attempt takes no follow-up, as it was stopped or collected; it gets the answer by its
    /// next call.
    async fn send(&self, question: QuestionId, sending: &Sending) -> Result<bool, Refusal> {
        let Sending { attempt_id: attempt, answered_at: at, .. } = *sending;
        if attempt::was_collected(&self.world, attempt).await.unwrap_or_default() {
            return Ok(false);
        }
        let id = format!("answer:{question}:{attempt}:{}", at.millis());
        let payload = json!({"question": question, "attempt": attempt, "at": at});
        let key = Key::new("follow_up", id, &payload);
        let Sending { handle, question, answer, answered_by, .. } = sending;
        let prompt = format!(
            "The answer to your question {handle} ({question}), given by {answered_by}:\n\n{answer}"
        );
        gateway::notify_worker(&self.gateway, &self.world, key, attempt, prompt).await
    }
}
