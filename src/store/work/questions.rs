//! Questions that the plan does not answer: each asked once and answered once.

use std::time::Duration;

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, ProjectId, QuestionId, TaskId};
use provost_actors::journal::{
    AnswerProgress, Consultation, Consultations, Consulted, Phase, Priority, State, TaskStatus,
};
use provost_actors::refusal::{Code, Refusal};
use serde_json::Value;
use sqlx::FromRow;

use super::scope;
use crate::api::worker::ticket::Urgency;
use crate::store::changes::Watch;
use crate::store::handles::{self, Prefix};
use crate::store::tasks::{self, Draft};
use crate::store::{Store, WorkspaceView, Writing, codec, commit, fault};
use crate::work::answer::{Ruling, cite, rulings};
use crate::work::{TaskKind, Worker};

/// Rulings that a question is compared with, newest first.
const RULINGS: i64 = 500;

/// A question for the inbox.
#[derive(Clone, Debug)]
pub struct NewQuestion<'a> {
    pub question: &'a str,
    /// Its words alone: the same question is recognised by them.
    pub normal: &'a str,
    /// The asker's context, as JSON.
    pub context: Option<&'a Value>,
    pub priority: Urgency,
    pub task: Option<TaskId>,
    /// A call waits for the answer until then.
    pub waits_until: Option<Timestamp>,
}

/// A question as it is stored.
#[derive(Clone, Debug)]
pub struct Question {
    pub id: QuestionId,
    pub project_id: ProjectId,
    pub handle: String,
    pub text: String,
    pub context: Option<String>,
    /// The answer, and who gave it.
    pub answered: Option<(String, String)>,
}

impl Question {
    fn consulted(self) -> Consulted {
        let (answer, executor) = self.answered.unwrap_or_default();
        Consulted { answer, executor }
    }

    /// Whether a person or an orchestrator has decided it.
    pub fn is_ruled(&self) -> bool {
        self.answered.as_ref().is_some_and(|(_, by)| rulings::is_ruler(by))
    }
}

/// The task that a question comes up in.
#[derive(Clone, Debug)]
pub struct AskedIn {
    pub task_id: TaskId,
    pub kind: TaskKind,
    /// The sections of the plan that it is about.
    pub sections: Vec<String>,
}

#[derive(FromRow)]
struct Row {
    question_id: String,
    project_id: String,
    handle: String,
    question: String,
    context: Option<String>,
    answer: Option<String>,
    answered_by: Option<String>,
}

impl Row {
    fn question(self) -> Result<Question, Refusal> {
        Ok(Question {
            id: codec::id(&self.question_id)?,
            project_id: codec::id(&self.project_id)?,
            handle: self.handle,
            text: self.question,
            context: self.context,
            answered: self.answer.zip(self.answered_by),
        })
    }
}

impl Store {
    /// Puts a question into the inbox, or joins the same one: one that is still open, that was
    /// ruled on just now, or whose answer is not ruled on yet.
    pub async fn pass_on(
        &self,
        worker: &Worker,
        new: &NewQuestion<'_>,
    ) -> Result<Question, Refusal> {
        let mut writing = self.writing().await?;
        let project = worker.project_id.to_string();
        let there: Option<Row> = sqlx::query_as(
            "SELECT * FROM questions
             WHERE project_id = ?1 AND normal = ?2
             ORDER BY status = 'open' DESC, answered_by IN ('person', 'orchestrator') DESC,
                      question_id DESC LIMIT 1",
        )
        .bind(&project)
        .bind(new.normal)
        .fetch_optional(&mut *writing)
        .await
        .map_err(fault)?;
        let question = match there {
            Some(row) => row.question()?,
            None => insert(&mut writing, worker.project_id, new).await?,
        };
        sqlx::query(
            "INSERT INTO question_askers (question_id, agent, attempt_id, task_id, delivery, waits_until)
             VALUES (?1, ?2, ?3, ?4, ?6, ?5)
             ON CONFLICT (question_id, agent) DO UPDATE SET waits_until = excluded.waits_until",
        )
        .bind(question.id.to_string())
        .bind(&worker.agent)
        .bind(worker.attempt_id.map(|attempt| attempt.to_string()))
        .bind(new.task.map(|task| task.to_string()))
        .bind(new.waits_until.map(Timestamp::millis))
        // This call gives an answer without a ruling itself; a ruling is delivered later.
        .bind(if question.answered.is_some() && !question.is_ruled() { "told" } else { "due" })
        .execute(&mut *writing)
        .await
        .map_err(fault)?;
        commit(writing, "question").await?;
        Ok(question)
    }

    /// Wakes when a question is answered.
    pub fn watch_question(&self, question: QuestionId) -> Watch {
        self.changes.watch(&[question])
    }

    /// A question by its id.
    pub async fn question(&self, question: QuestionId) -> Result<Question, Refusal> {
        let row: Option<Row> = sqlx::query_as("SELECT * FROM questions WHERE question_id = ?1")
            .bind(question.to_string())
            .fetch_optional(&self.reader)
            .await
            .map_err(fault)?;
        row.ok_or_else(|| not_found(&question.to_string()))?.question()
    }

    /// The answered questions of a project, newest first.
    pub async fn rulings(&self, project: ProjectId) -> Result<Vec<Ruling>, Refusal> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT * FROM questions WHERE project_id = ?1 AND status = 'answered'
             ORDER BY answered_at DESC LIMIT ?2",
        )
        .bind(project.to_string())
        .bind(RULINGS)
        .fetch_all(&self.reader)
        .await
        .map_err(fault)?;
        let ruling = |row: Row| {
            let Question { id, handle, text, answered, .. } = row.question()?;
            let (answer, by) = answered.unwrap_or_default();
            Ok(Ruling { question_id: id, handle, question: text, answer, by })
        };
        rows.into_iter().map(ruling).collect()
    }

    /// The task of the executor that answers; created at the first call.
    async fn answer_task(
        &self,
        question: &Question,
        title: &str,
        description: &str,
    ) -> Result<TaskId, Refusal> {
        let mut writing = self.writing().await?;
        let id = question.id.to_string();
        let there: Option<String> =
            sqlx::query_scalar("SELECT answer_task FROM questions WHERE question_id = ?1")
                .bind(&id)
                .fetch_one(&mut *writing)
                .await
                .map_err(fault)?;
        if let Some(task) = there {
            return codec::id(&task);
        }
        let draft = Draft {
            description: Some(description),
            kind: TaskKind::Answer,
            ..Draft::new(question.project_id, title, Priority::High)
        };
        let (task, _) = tasks::insert(&mut writing, &draft).await?;
        sqlx::query("UPDATE questions SET answer_task = ?2 WHERE question_id = ?1")
            .bind(&id)
            .bind(task.to_string())
            .execute(&mut *writing)
            .await
            .map_err(fault)?;
        commit(writing, "answer_task").await?;
        Ok(task)
    }

    /// When an executor's time to answer ends: `timeout` after its start or when the last call
    /// stops waiting, whichever is later, and `grace` on top.
    async fn answering_until(
        &self,
        question: QuestionId,
        attempt: AttemptId,
        timeout: Duration,
        grace: Duration,
    ) -> Result<Timestamp, Refusal> {
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let until: i64 = sqlx::query_scalar(
            "SELECT max(created_at + ?3,
                        coalesce((SELECT max(waits_until) FROM question_askers
                                  WHERE question_id = ?1), 0)) + ?4
             FROM attempts WHERE attempt_id = ?2",
        )
        .bind(question.to_string())
        .bind(attempt.to_string())
        .bind(millis(timeout))
        .bind(millis(grace))
        .fetch_one(&self.reader)
        .await
        .map_err(fault)?;
        Ok(Timestamp::from_millis(until))
    }
}

#[async_trait]
impl Consultations for Store {
    async fn consultation(
        &self,
        question: QuestionId,
        asked_from: Option<AttemptId>,
    ) -> Result<Consultation, Refusal> {
        let question = self.question(question).await?;
        let title = format!("Answer {}", question.handle);
        let passages = self.search_plans(question.project_id, &question.text, &[], &[]).await?;
        let passages = cite::prompt(&passages.best(cite::GIVEN));
        let prompt = cite::consultation(&question.text, question.context.as_deref(), &passages);
        let task_id = self.answer_task(&question, &title, &prompt).await?;
        let repos = match asked_from {
            // As the asker's last commits left them.
            Some(attempt) => {
                let WorkspaceView { branch, repos, .. } = self.workspace(attempt).await?;
                Some(repos.into_iter().map(|it| (it.repo_id, Some(branch.clone()))).collect())
            }
            None => None,
        };
        Ok(Consultation { handle: question.handle, task_id, prompt, repos })
    }

    async fn await_answer(
        &self,
        question: QuestionId,
        attempt: AttemptId,
        timeout: Duration,
        grace: Duration,
    ) -> Result<AnswerProgress, Refusal> {
        let (watch, ruled) = (self.watch(&[attempt]), self.watch_question(question));
        loop {
            let status = self.status(attempt).await?;
            let (phase, executor) = (status.overview.phase, status.overview.executor);
            if matches!(phase, Phase::Settled | Phase::Idle) {
                let answer = status.final_message.filter(|answer| !answer.trim().is_empty());
                return Ok(match (status.overview.state, answer) {
                    (State::Completed, Some(answer)) => {
                        AnswerProgress::Answered(Consulted { answer, executor })
                    }
                    _ => AnswerProgress::Failed(status.failure_summary),
                });
            }
            let now = self.question(question).await?;
            if now.is_ruled() {
                return Ok(AnswerProgress::Ruled(now.consulted()));
            }
            let until = self.answering_until(question, attempt, timeout, grace).await?;
            let left = until.since(Timestamp::now());
            if left.is_zero() {
                return Ok(AnswerProgress::OutOfTime);
            }
            tokio::select! {
                () = watch.changed() => {}
                () = ruled.changed() => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }

    async fn consultations(&self) -> Result<Vec<QuestionId>, Refusal> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT questions.* FROM questions JOIN tasks ON task_id = answer_task
             WHERE (questions.status = 'open' AND tasks.status NOT IN ('done', 'cancelled'))
                OR EXISTS (SELECT 1 FROM attempts a WHERE a.task_id = answer_task
                           AND a.phase IN ('queued', 'preparing', 'running', 'stopping'))",
        )
        .fetch_all(&self.reader)
        .await
        .map_err(fault)?;
        rows.into_iter().map(|row| Ok(row.question()?.id)).collect()
    }

    async fn executor_answered(
        &self,
        question: QuestionId,
        consulted: &Consulted,
    ) -> Result<Consulted, Refusal> {
        let mut writing = self.writing_patiently().await?;
        sqlx::query(
            "UPDATE questions
             SET status = 'answered', answer = ?2, answered_by = ?3, answered_at = ?4
             WHERE question_id = ?1 AND status = 'open'",
        )
        .bind(question.to_string())
        .bind(&consulted.answer)
        .bind(&consulted.executor)
        .bind(Timestamp::now().millis())
        .execute(&mut *writing)
        .await
        .map_err(fault)?;
        end_answer_task(&mut writing, question, TaskStatus::Done).await?;
        commit(writing, "executor_answer").await?;
        self.changes.announce(question);
        Ok(self.question(question).await?.consulted())
    }

    async fn executor_failed(&self, question: QuestionId) -> Result<(), Refusal> {
        let mut writing = self.writing_patiently().await?;
        end_answer_task(&mut writing, question, TaskStatus::Cancelled).await?;
        commit(writing, "executor_failed").await
    }
}

impl Store {
    /// The task that a worker names, or that of its attempt, and the sections of the plan
    /// that its brief names.
    pub async fn task_of(
        &self,
        worker: &Worker,
        name: Option<&str>,
    ) -> Result<Option<AskedIn>, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        let own: Option<String> = match (name, worker.attempt_id) {
            (Some(name), _) => Some(name.to_owned()),
            (None, Some(attempt)) => {
                sqlx::query_scalar("SELECT task_id FROM attempts WHERE attempt_id = ?1")
                    .bind(attempt.to_string())
                    .fetch_optional(&mut *reading)
                    .await
                    .map_err(fault)?
            }
            (None, None) => None,
        };
        let Some(own) = own else { return Ok(None) };
        match scope::task(&mut reading, worker, &own).await {
            Ok(task) => Ok(Some(AskedIn {
                task_id: task.task_id,
                kind: task.kind,
                sections: affected_sections(task.brief.as_deref()),
            })),
            // An attempt's task may have been deleted; only one that was named must be there.
            Err(error) if name.is_some() => Err(error.into()),
            Err(_) => Ok(None),
        }
    }
}

/// `planReference.affectedSections` of a brief.
fn affected_sections(brief: Option<&str>) -> Vec<String> {
    let brief: Option<Value> = brief.and_then(|brief| serde_json::from_str(brief).ok());
    let sections =
        brief.as_ref().and_then(|brief| brief.pointer("/planReference/affectedSections"));
    let sections = sections.and_then(Value::as_array).into_iter().flatten();
    sections.filter_map(Value::as_str).map(str::to_owned).collect()
}

async fn insert(
    writing: Writing<'_>,
    project: ProjectId,
    new: &NewQuestion<'_>,
) -> Result<Question, Refusal> {
    let handle = handles::next(writing, project, Prefix::Question).await?;
    let question = Question {
        id: QuestionId::new(),
        project_id: project,
        handle,
        text: new.question.to_owned(),
        context: new.context.map(Value::to_string),
        answered: None,
    };
    sqlx::query(
        "INSERT INTO questions (question_id, project_id, handle, question, normal, context, priority,
                                status, asked_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'open', ?8)",
    )
    .bind(question.id.to_string())
    .bind(project.to_string())
    .bind(&question.handle)
    .bind(&question.text)
    .bind(new.normal)
    .bind(&question.context)
    .bind(codec::word(&new.priority))
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await
    .map_err(fault)?;
    Ok(question)
}

async fn end_answer_task(
    writing: Writing<'_>,
    question: QuestionId,
    status: TaskStatus,
) -> Result<(), Refusal> {
    sqlx::query(
        "UPDATE tasks SET status = ?2, updated_at = ?3
         WHERE task_id = (SELECT answer_task FROM questions WHERE question_id = ?1)
           AND status NOT IN ('done', 'cancelled')",
    )
    .bind(question.to_string())
    .bind(codec::word(&status))
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await
    .map(drop)
    .map_err(fault)
}

/// Records the ruling of a person or an orchestrator. It replaces an executor's answer and is
/// delivered to everyone who asked, also to those who got the other answer. An executor that
/// still works on the question is not needed any more.
pub async fn rule(
    writing: Writing<'_>,
    question: QuestionId,
    answer: &str,
    by: &str,
    at: Timestamp,
) -> Result<(), Refusal> {
    sqlx::query(
        "UPDATE question_askers SET delivery = 'due', waits_until = NULL
         WHERE question_id = ?1 AND EXISTS (SELECT 1 FROM questions q WHERE q.question_id = ?1
                                            AND q.status = 'answered' AND q.answer <> ?2)",
    )
    .bind(question.to_string())
    .bind(answer)
    .execute(&mut *writing)
    .await
    .map_err(fault)?;
    sqlx::query(
        "UPDATE questions SET status = 'answered', answer = ?2, answered_by = ?3, answered_at = ?4
         WHERE question_id = ?1",
    )
    .bind(question.to_string())
    .bind(answer)
    .bind(by)
    .bind(at.millis())
    .execute(&mut *writing)
    .await
    .map_err(fault)?;
    end_answer_task(writing, question, TaskStatus::Cancelled).await
}

pub fn not_found(name: &str) -> Refusal {
    Refusal::new(Code::QuestionNotFound, format!("there is no question or ticket {name}"))
        .hint("Call the tool again with question_id from list_questions.")
        .detail("question_id", name)
}
