//! Questions that the plan does not answer. Each is asked once and answered once, except that a ruling
//! replaces the answer of an executor.
//!
//! ```text
//!  open ─executor_answered─▶ answered by an executor ─rule─▶ answered by a person or an orchestrator
//!    └──rule──────────────────────────────────────────────────▶ ▲
//! ```

use std::time::Duration;

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, ProjectId, QuestionId, TaskId};
use provost_actors::journal::{
    AnswerProgress, Consultation, Consultations, Consulted, Priority, State, TaskStatus,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::scope;
use crate::api::attempts::AttemptPhase;
use crate::api::brief::Brief;
use crate::api::commands::AttemptLine;
use crate::api::worker::ticket::Urgency;
use crate::store::changes::ChangeWatch;
use crate::store::tasks::{self, Draft};
use crate::store::{
    Code, Db, Refusal, Result, RetryBudget, Sql, Store, WorkspaceView, handles, now,
};
use crate::work::answer::{EarlierAnswer, cite, earlier, terms};
use crate::work::{TaskKind, Worker};

/// How many earlier answers a question is compared with, newest first.
const EARLIER: i64 = 500;

/// A question to be put into the inbox.
#[derive(Clone, Debug)]
pub struct NewQuestion<'a> {
    pub question: &'a str,
    pub context: Option<&'a Value>,
    pub priority: Urgency,
    pub task: Option<TaskId>,
    /// A call waits for the answer until this time; `None`: no call waits.
    pub waits_until: Option<Timestamp>,
}

/// A stored question.
#[derive(Clone, Debug, Deserialize)]
pub struct Question {
    #[serde(rename = "question_id")]
    pub id: QuestionId,
    pub project_id: ProjectId,
    pub handle: String,
    #[serde(rename = "question")]
    pub text: String,
    /// The asker's context as JSON.
    pub context: Option<String>,
    /// The answer, and who gave it; `None`: the question is open.
    pub answered: Option<Consulted>,
}

macro_rules! questions {
    ($which:literal) => {
        concat!(
            "SELECT q.*, CASE WHEN answer IS NOT NULL AND answered_by IS NOT NULL
                              THEN json_object('answer', answer, 'executor', answered_by)
                         END AS answered
             FROM questions q ",
            $which
        )
    };
}

impl Question {
    /// Whether a person or an orchestrator has answered it.
    pub fn is_ruled(&self) -> bool {
        self.answered.as_ref().is_some_and(|it| earlier::is_ruler(&it.executor))
    }
}

/// Who asks, and about which task.
#[derive(Clone, Debug)]
pub struct Asking {
    pub worker: Worker,
    pub task: Option<TaskId>,
    /// The sections of the plan that the task's brief names; the search begins there.
    pub sections: Vec<String>,
    /// The asker is itself an executor that answers a question.
    pub is_answering: bool,
}

impl Store {
    /// Puts a question into the inbox, or joins the asker to a question with the same words: an open one
    /// first, then one with a ruling, then the newest.
    pub async fn pass_on(
        &self,
        worker: &Worker,
        new: &NewQuestion<'_>,
    ) -> Result<Question, Refusal> {
        let same = questions!(
            "WHERE project_id = $1 AND normal = $2
             ORDER BY status = 'open' DESC,
                      coalesce(answered_by, '') IN ('person', 'orchestrator') DESC,
                      question_id DESC LIMIT 1"
        );
        let normal = terms::normal(new.question);
        self.write(RetryBudget::Short, "question", async |db| {
            let question: Question = match db.find(same, (worker.project_id, &normal)).await? {
                Some(there) => there,
                None => insert(db, worker.project_id, new, &normal, &self.host).await?,
            };
            // This call itself returns an answer that no ruling confirms; a ruling is delivered later.
            let is_given = question.answered.is_some() && !question.is_ruled();
            let delivery = if is_given { "told" } else { "due" };
            let sql = "INSERT INTO question_askers (question_id, agent, attempt_id, task_id,
                                         waits_until, delivery)
                 VALUES ($1, $2, $3, $4, $5, $6)
                 ON CONFLICT (question_id, agent) DO UPDATE SET waits_until = excluded.waits_until";
            let (attempt, until) = (worker.attempt_id, new.waits_until.map(Timestamp::millis));
            let values = (question.id, &worker.agent, attempt, new.task, until, delivery);
            db.run(sql, values).await?;
            Ok(question)
        })
        .await
    }

    /// A watch that wakes when the question is answered.
    pub fn watch_question(&self, question: QuestionId) -> ChangeWatch {
        self.changes.watch(&[question])
    }

    /// A question by its id; refused if it is unknown.
    pub async fn question(&self, question: QuestionId) -> Result<Question, Refusal> {
        let sql = questions!("WHERE question_id = $1");
        let found = self.read(async |db| db.find(sql, (question,)).await).await?;
        found.ok_or_else(|| not_found(&question.to_string()))
    }

    /// The answered questions of a project, the last answered first.
    pub async fn earlier_answers(&self, project: ProjectId) -> Result<Vec<EarlierAnswer>, Refusal> {
        let sql = "SELECT question_id, json_object('questionId', handle, 'question', question,
                        'answer', answer, 'answeredBy', answered_by) AS said FROM questions
             WHERE project_id = $1 AND status = 'answered' ORDER BY answered_at DESC LIMIT $2";
        self.read(async |db| db.all(sql, (project, EARLIER)).await).await
    }

    /// The task by which an executor gets the question; made once.
    async fn answer_task(
        &self,
        question: &Question,
        title: &str,
        description: &str,
    ) -> Result<TaskId, Refusal> {
        self.write(RetryBudget::Short, "answer_task", async |db| {
            let sql = "SELECT answer_task FROM questions WHERE question_id = $1";
            if let Some(task) = db.one(sql, (question.id,)).await? {
                return Ok(task);
            }
            let draft = Draft {
                description: Some(description),
                kind: TaskKind::Answer,
                ..Draft::new(question.project_id, title, Priority::High)
            };
            let (task, _) = tasks::insert(db, &draft).await?;
            let sql = "UPDATE questions SET answer_task = $2 WHERE question_id = $1";
            db.run(sql, (question.id, task)).await?;
            Ok(task)
        })
        .await
    }

    /// Until when an executor may answer: `timeout` after its start, or until the last call stops waiting,
    /// whichever is later, and `grace` on top.
    async fn answering_until(
        &self,
        question: QuestionId,
        attempt: AttemptId,
        timeout: Duration,
        grace: Duration,
    ) -> Result<Timestamp, Refusal> {
        let sql = "SELECT created_at,
                    (SELECT max(waits_until) FROM question_askers WHERE question_id = $1)
             FROM attempts WHERE attempt_id = $2";
        let (started, waits_until): (Timestamp, Option<Timestamp>) =
            self.read(async |db| db.one(sql, (question, attempt)).await).await?;
        let until = started.plus(timeout).millis().max(waits_until.map_or(0, Timestamp::millis));
        Ok(Timestamp::from_millis(until).plus(grace))
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
            // The repositories as the last commits of the asker left them.
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
        let watch = self.changes.watch(&[attempt.to_string(), question.to_string()]);
        loop {
            let status = self.status(attempt).await?;
            let AttemptLine { phase, state, executor, .. } = status.overview.line;
            if matches!(phase, AttemptPhase::Settled | AttemptPhase::Idle) {
                let answer = status.final_message.filter(|answer| !answer.trim().is_empty());
                return Ok(match (state, answer) {
                    (State::Completed, Some(answer)) => {
                        AnswerProgress::Answered(Consulted { answer, executor })
                    }
                    _ => AnswerProgress::Failed(status.failure_summary),
                });
            }
            let now = self.question(question).await?;
            if now.is_ruled() {
                return Ok(AnswerProgress::Ruled(now.answered.unwrap_or_default()));
            }
            let until = self.answering_until(question, attempt, timeout, grace).await?;
            let left = until.since(Timestamp::now());
            if left.is_zero() {
                return Ok(AnswerProgress::OutOfTime);
            }
            tokio::select! {
                () = watch.changed() => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }

    async fn consultations(&self) -> Result<Vec<QuestionId>, Refusal> {
        let sql = "SELECT question_id FROM questions q JOIN tasks t ON t.task_id = q.answer_task
              WHERE (q.status = 'open' AND t.status NOT IN ('done', 'cancelled')
                     OR EXISTS (SELECT 1 FROM attempts a WHERE a.task_id = answer_task
                                AND a.phase IN ('queued', 'preparing', 'running', 'stopping')))
                AND $1 = coalesce((SELECT a.host FROM attempts a WHERE a.task_id = answer_task
                                   ORDER BY a.attempt_id DESC LIMIT 1), q.host)";
        self.read(async |db| db.all(sql, (&self.host,)).await).await
    }

    async fn executor_answered(
        &self,
        question: QuestionId,
        consulted: &Consulted,
    ) -> Result<Consulted, Refusal> {
        let sql = "UPDATE questions
              SET status = 'answered', answer = $2, answered_by = $3, answered_at = $4
              WHERE question_id = $1 AND status = 'open'";
        let Consulted { answer, executor } = consulted;
        self.write(RetryBudget::Long, "executor_answer", async |db| {
            let answer = db.dialect().storable(answer);
            db.run(sql, (question, answer, executor, now())).await?;
            end_answer_task(db, question, TaskStatus::Done).await
        })
        .await?;
        self.changes.announce(question);
        Ok(self.question(question).await?.answered.unwrap_or_default())
    }

    async fn executor_failed(&self, question: QuestionId) -> Result<(), Refusal> {
        self.write(RetryBudget::Long, "executor_failed", async |db| {
            end_answer_task(db, question, TaskStatus::Cancelled).await
        })
        .await
    }
}

impl Store {
    /// Finds the task that a worker asks about: the one that it names, or that of its attempt.
    pub async fn asking(&self, worker: Worker, name: Option<&str>) -> Result<Asking, Refusal> {
        self.read(async |db| {
            let own = if let Some(name) = name {
                Some(name.to_owned())
            } else {
                let sql = "SELECT task_id FROM attempts WHERE attempt_id = $1";
                db.find(sql, (worker.attempt_id,)).await?
            };
            let task = match own {
                Some(own) => scope::task(db, &worker, &own).await.map(Some),
                None => Ok(None),
            };
            // A named task must exist. The task of an attempt may have been deleted; then there is none.
            let task = if name.is_some() { task? } else { task.unwrap_or_default() };
            let brief = task.as_ref().and_then(|task| Brief::kept(task.brief.as_deref()?));
            let plan = brief.and_then(|brief| brief.plan_reference).unwrap_or_default();
            Ok(Asking {
                task: task.as_ref().map(|task| task.task_id),
                sections: plan.affected_sections,
                is_answering: task.is_some_and(|task| task.kind == TaskKind::Answer),
                worker,
            })
        })
        .await
    }
}

/// Writes a new question. `normal` holds the words of the question alone, by which the same question is found
/// again. `host` is the host whose daemon took the call.
async fn insert(
    db: Db<'_>,
    project: ProjectId,
    new: &NewQuestion<'_>,
    normal: &str,
    host: &str,
) -> Result<Question> {
    let question = Question {
        id: QuestionId::new(),
        project_id: project,
        handle: handles::next(db, project, handles::QUESTION).await?,
        text: new.question.to_owned(),
        context: new.context.map(Value::to_string),
        answered: None,
    };
    let row = json!({
        "question_id": question.id, "project_id": project, "handle": question.handle,
        "question": question.text, "normal": normal, "context": question.context,
        "priority": new.priority, "status": "open", "asked_at": now(),
        "host": host,
    });
    db.insert("INTO questions", row).await?;
    Ok(question)
}

/// Closes the task by which an executor got the question, unless it is closed.
async fn end_answer_task(db: Db<'_>, question: QuestionId, status: TaskStatus) -> Result<()> {
    let sql = "UPDATE tasks SET status = $2, updated_at = $3
         WHERE task_id = (SELECT answer_task FROM questions WHERE question_id = $1)
           AND status NOT IN ('done', 'cancelled')";
    db.run(sql, (question, status, now())).await.map(drop)
}

/// Records the ruling of a person or an orchestrator. It replaces the answer of an executor, and is delivered
/// to all who asked, also to those who got the other answer. The task of an executor that still works on the
/// question is cancelled.
pub async fn rule(db: Db<'_>, question: QuestionId, answer: &str, by: &str) -> Result<()> {
    let sql = "UPDATE question_askers SET delivery = 'due', waits_until = NULL
         WHERE question_id = $1 AND EXISTS (SELECT 1 FROM questions q WHERE q.question_id = $1
                                            AND q.status = 'answered' AND q.answer <> $2)";
    db.run(sql, (question, answer)).await?;
    let sql = "UPDATE questions
         SET status = 'answered', answer = $2, answered_by = $3, answered_at = $4
         WHERE question_id = $1";
    db.run(sql, (question, answer, by, now())).await?;
    end_answer_task(db, question, TaskStatus::Cancelled).await
}

/// The refusal of a name that no question or ticket of the inbox has.
pub fn not_found(name: &str) -> Refusal {
    Refusal::new(Code::QuestionNotFound, format!("there is no question or ticket {name}"))
        .hint("Call the tool again with question_id from list_inbox.")
        .detail("question_id", name)
}
