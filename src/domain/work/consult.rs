//! Questions to the executor that answers. It runs as an attempt of a task of its own, so
//! that its log, limits, stop and restart are those of any other, and in worktrees of its
//! own, so that it can't change the asker's files.

use crate::api::worker::consult::ConsultTools;
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;

use provost_actors::event::Timestamp;
use provost_actors::gateway::{GatewayMessage, StartRequest};
use provost_actors::ids::{AttemptId, RepoId};
use provost_actors::journal::{Phase, State};
use provost_actors::payload;
use provost_actors::refusal::{Code, Refusal};
use provost_actors::world::World;
use ractor::ActorRef;
use serde_json::json;

use super::asking::{Asking, after};
use super::inbox::Courier;
use crate::api::worker::consult::{CallCoeAgentInput, CallCoeAgentOutput};
use crate::api::worker::ticket::Urgency;
use crate::api::{Key, Session};
use crate::domain::{Answers, Domain};
use crate::store::{NewQuestion, Question, Store};
use crate::work::answer::{cite, terms};
use crate::work::question::{check_tokens, tokens};

/// Variants that only read, by the names that executors have for them.
const READ_ONLY: [&str; 3] = ["plan", "read-only", "readonly"];

/// After how many seconds a caller may try again.
const RETRY_AFTER_SECS: u64 = 10;

/// The answer of an executor, or the ruling that came first.
#[derive(Clone, Debug)]
pub(super) struct Consulted {
    pub answer: String,
    /// Who answered.
    pub executor: String,
}

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
        let mut run = tokio::spawn(consultant.run(question.clone(), asked_from));
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

    /// Resumes waiting for the executors that an earlier daemon asked.
    pub(super) async fn take_up_consultations(&self) {
        let Some(consultant) = self.consultant() else { return };
        match self.store.questions_with_executors().await {
            Ok(questions) => {
                for question in questions {
                    tokio::spawn(consultant.clone().run(question, None));
                }
            }
            Err(error) => tracing::error!(%error, "questions under way can't be read"),
        }
    }

    fn consultant(&self) -> Option<Consultant> {
        self.answers.is_configured().then(|| Consultant {
            store: self.store.clone(),
            gateway: self.gateway.clone(),
            world: Arc::clone(&self.world),
            answers: self.answers.clone(),
            courier: self.courier(),
        })
    }
}

/// Asks an executor and records its answer.
#[derive(Clone)]
struct Consultant {
    store: Store,
    gateway: ActorRef<GatewayMessage>,
    world: Arc<World>,
    answers: Answers,
    courier: Courier,
}

impl Consultant {
    /// Each step can be repeated: after a restart, or for another asker. A ruling that comes
    /// meanwhile is the answer, and stops the executor.
    async fn run(
        self,
        question: Question,
        asked_from: Option<AttemptId>,
    ) -> Result<Consulted, Refusal> {
        let outcome = self.answered(&question, asked_from).await;
        match &outcome {
            Ok(Some(Consulted { answer, executor })) => {
                if !self.store.executor_answered(question.id, answer, executor).await? {
                    return self.ruling(&question).await;
                }
            }
            Ok(None) => return self.ruling(&question).await,
            Err(refusal) => {
                tracing::warn!(%refusal, question = question.handle, "the executor did not answer");
                self.store.executor_failed(question.id).await?;
            }
        }
        // Calls that wait here take the answer themselves.
        tokio::spawn(self.courier.deliver(question.id));
        let none = || Refusal::internal(format!("there is no answer to {}", question.handle));
        outcome?.ok_or_else(none)
    }

    async fn ruling(&self, question: &Question) -> Result<Consulted, Refusal> {
        let (answer, executor) =
            self.store.question(question.id).await?.answered.unwrap_or_default();
        Ok(Consulted { answer, executor })
    }

    /// Its answer; `None` if a ruling came first.
    async fn answered(
        &self,
        question: &Question,
        asked_from: Option<AttemptId>,
    ) -> Result<Option<Consulted>, Refusal> {
        let attempt = self.start(question, asked_from).await?;
        let watch = self.store.watch(&[attempt]);
        let ruled = self.store.watch_question(question.id);
        let [timeout, grace] =
            [self.answers.timeout_secs, self.answers.grace_secs].map(Duration::from_secs);
        loop {
            let status = self.store.status(attempt).await?;
            if matches!(status.overview.phase, Phase::Settled | Phase::Idle) {
                let executor = status.overview.executor;
                let answer = status.final_message.filter(|answer| !answer.trim().is_empty());
                return match (status.overview.state, answer) {
                    (State::Completed, Some(answer)) => Ok(Some(Consulted { answer, executor })),
                    _ => Err(gave_no_answer(question, attempt, status.failure_summary)),
                };
            }
            if self.store.question(question.id).await?.is_ruled() {
                self.end(attempt);
                return Ok(None);
            }
            let until =
                self.store.answering_until(question.id, attempt, timeout, grace).await?.millis();
            let left = until - Timestamp::now().millis();
            if left <= 0 {
                self.end(attempt);
                let why = "it was stopped because it did not answer in time".to_owned();
                return Err(gave_no_answer(question, attempt, Some(why)));
            }
            tokio::select! {
                () = watch.changed() => {}
                () = ruled.changed() => {}
                () = tokio::time::sleep(Duration::from_millis(left.unsigned_abs())) => {}
            }
        }
    }

    /// Stops an executor whose answer is not needed any more.
    fn end(&self, attempt: AttemptId) {
        let gateway = self.gateway.clone();
        tokio::spawn(async move {
            let stopped =
                ractor::call!(gateway, |port| GatewayMessage::Stop(None, attempt, false, port));
            if let Ok(Err(refusal)) = stopped {
                tracing::warn!(%refusal, %attempt, "an executor that answers could not be stopped");
            }
        });
    }

    async fn start(
        &self,
        question: &Question,
        asked_from: Option<AttemptId>,
    ) -> Result<AttemptId, Refusal> {
        let title = format!("Answer {}", question.handle);
        let passages =
            self.store.search_plans(question.project_id, &question.text, &[], &[]).await?;
        let prompt = prompt(question, &cite::prompt(&passages.best(cite::GIVEN)));
        let task_id = self.store.answer_task(question, &title, &prompt).await?;
        let request = StartRequest {
            task_id,
            executor: self.answers.executor.clone(),
            variant: self.variant(),
            repos: match asked_from {
                Some(attempt) => Some(self.repos(attempt).await?),
                None => None,
            },
            prompt: Some(prompt),
            ignore_dependencies: true,
            parent: None,
        };
        let key = Key {
            tool: "start_task_attempt",
            request_id: format!("consult:{}", question.id),
            payload_hash: payload::hash(&json!({"question": question.id})),
            resolved_hash: None,
        };
        let started =
            ractor::call!(self.gateway, |port| GatewayMessage::Start(Some(key), request, port))
                .unwrap_or_else(|_| {
                    Err(Refusal::new(Code::ShuttingDown, "the daemon is ending"))
                })?;
        Ok(started.value.attempt_id)
    }

    /// The asker's repositories, as its last commits left them.
    async fn repos(&self, attempt: AttemptId) -> Result<Vec<(RepoId, Option<String>)>, Refusal> {
        let workspace = self.store.workspace(attempt).await?;
        let branch = workspace.branch;
        let repos = workspace.repos.into_iter();
        Ok(repos.map(|repo| (repo.repo_id, Some(branch.clone()))).collect())
    }

    /// The configured variant, or else one that only reads, if the executor has any.
    fn variant(&self) -> Option<String> {
        if !self.answers.variant.is_empty() {
            return Some(self.answers.variant.clone());
        }
        let executor = self.world.executors.get(&self.answers.executor)?;
        let variants = executor.describe().variants;
        READ_ONLY.iter().find_map(|name| variants.iter().find(|variant| variant == name).cloned())
    }
}

fn prompt(question: &Question, passages: &str) -> String {
    let context = match &question.context {
        Some(context) => format!("\n\nThe asker's context, as JSON:\n{context}"),
        None => String::new(),
    };
    format!(
        "Another agent works on this code and asks:\n\n{}{context}{passages}\n\nLook at the code \
         where that helps, and change nothing: this is a copy, and your changes are thrown away. \
         Your last message is the answer: short, with the files and lines that support it. If you \
         find no answer, say so.",
        question.text
    )
}

fn gave_no_answer(question: &Question, attempt: AttemptId, why: Option<String>) -> Refusal {
    let why = why.unwrap_or_else(|| "it ended without a message".to_owned());
    Refusal::new(
        Code::SpawnFailed,
        format!(
            "the executor gave no answer to {}: {why}. The question is in the inbox",
            question.handle
        ),
    )
    .hint("Call createTicket instead, or continue with other work: the answer is delivered later.")
    .detail("question_id", question.handle.as_str())
    .detail("attempt_id", attempt.to_string())
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
