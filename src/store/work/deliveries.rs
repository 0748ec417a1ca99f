//! Answers on their way back to those who asked: each asker has a row, whose `delivery` says
//! whether the answer is due, is being sent as a follow-up, or was told.
//!
//! ```text
//!   due ──a call of the asker takes it──────────────▶ told
//!    ▲└──answers_to_send──▶ sending ──answer_sent──▶ told
//!    └──────not sent───────────┘
//! ```
//!
//! A daemon that dies while an answer is `sending` finds the row again at its next start and
//! sends it once more.

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, QuestionId, TaskId};
use provost_actors::journal::{Deliveries, Outgoing, Sending};
use provost_actors::refusal::Refusal;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::api::worker::late::LateAnswer;
use crate::store::codec::{Columns, Text};
use crate::store::write_retry::Patience;
use crate::store::{Result, Store, Writing};
use crate::work::Worker;

fn late(row: &SqliteRow) -> sqlx::Result<LateAnswer> {
    Ok(LateAnswer {
        question_id: row.try_get("handle")?,
        question: row.try_get("question")?,
        answer: row.try_get("answer")?,
        answered_by: row.try_get("answered_by")?,
    })
}

impl Store {
    /// The answers that have not reached a worker yet, to what it asked itself or what was
    /// asked for the task. They are told now and not again.
    pub async fn due_answers(
        &self,
        worker: &Worker,
        task: Option<TaskId>,
    ) -> Result<Vec<LateAnswer>, Refusal> {
        // Most calls find none: only one that finds some is a write.
        if self.read(async |reading| due(reading, worker, task).await).await?.is_empty() {
            return Ok(Vec::new());
        }
        self.write(Patience::Caller, "answers_told", async |writing| {
            tell_due(writing, worker, task).await
        })
        .await
    }

    /// A call takes its answer; it is not told again.
    pub async fn take_answer(&self, question: QuestionId, agent: &str) -> Result<(), Refusal> {
        let is_due: bool = self
            .read(async |reading| {
                Ok(sqlx::query_scalar(
                    "SELECT EXISTS (SELECT 1 FROM question_askers
                                    WHERE question_id = ?1 AND agent = ?2 AND delivery = 'due')",
                )
                .bind(Text(question))
                .bind(agent)
                .fetch_one(reading)
                .await?)
            })
            .await?;
        if is_due { self.set_delivery(question, agent, "told").await } else { Ok(()) }
    }

    /// A call no longer waits for the answer: now it comes by itself.
    pub async fn wait_no_longer(&self, question: QuestionId, agent: &str) -> Result<(), Refusal> {
        self.set_delivery(question, agent, "due").await
    }
}

#[async_trait]
impl Deliveries for Store {
    async fn answers_to_send(&self, question: QuestionId) -> Result<Outgoing, Refusal> {
        let now = Timestamp::now().millis();
        let sending = |row: SqliteRow| {
            Ok(Sending {
                attempt_id: row.text("attempt_id")?,
                handle: row.try_get("handle")?,
                question: row.try_get("question")?,
                answer: row.try_get("answer")?,
                answered_by: row.try_get("answered_by")?,
                answered_at: row.at("answered_at")?,
            })
        };
        self.write(Patience::Owner, "answers_sending", async |writing| {
            sqlx::query(
                "UPDATE question_askers AS asker SET delivery = 'sending'
                 WHERE question_id = ?1 AND delivery = 'due' AND attempt_id IS NOT NULL
                   AND coalesce(waits_until, 0) <= ?2
                   AND EXISTS (SELECT 1 FROM attempts a JOIN tasks t USING (task_id)
                               WHERE a.attempt_id = asker.attempt_id AND a.queue_held = 0
                                 AND t.deleted_at IS NULL
                                 AND t.status NOT IN ('done', 'cancelled'))",
            )
            .bind(Text(question))
            .bind(now)
            .execute(&mut *writing)
            .await?;
            let chosen = sqlx::query(
                "SELECT q.*, a.attempt_id FROM question_askers a JOIN questions q USING (question_id)
                 WHERE question_id = ?1 AND delivery = 'sending' AND status = 'answered'
                   AND a.attempt_id IS NOT NULL",
            )
            .bind(Text(question))
            .try_map(sending)
            .fetch_all(&mut *writing)
            .await?;
            let later: Option<i64> = sqlx::query_scalar(
                "SELECT max(waits_until) FROM question_askers
                 WHERE question_id = ?1 AND delivery = 'due' AND attempt_id IS NOT NULL
                   AND waits_until > ?2",
            )
            .bind(Text(question))
            .bind(now)
            .fetch_one(writing)
            .await?;
            Ok(Outgoing { now: chosen, later: later.map(Timestamp::from_millis) })
        })
        .await
    }

    /// A ruling that came meanwhile has made the row `due` again, and it stays so.
    async fn answer_sent(
        &self,
        question: QuestionId,
        attempt: AttemptId,
        is_sent: bool,
    ) -> Result<(), Refusal> {
        self.write(Patience::Owner, "answer_delivery", async |writing| {
            sqlx::query(
                "UPDATE question_askers SET delivery = ?3, waits_until = NULL
                 WHERE question_id = ?1 AND agent = ?2 AND delivery = 'sending'",
            )
            .bind(Text(question))
            .bind(Text(attempt))
            .bind(if is_sent { "told" } else { "due" })
            .execute(writing)
            .await?;
            Ok(())
        })
        .await
    }

    async fn undelivered_questions(&self) -> Result<Vec<QuestionId>, Refusal> {
        self.read(async |reading| {
            let ids: Vec<Text<QuestionId>> = sqlx::query_scalar(
                "SELECT DISTINCT question_id
                 FROM question_askers JOIN questions USING (question_id)
                 WHERE delivery <> 'told' AND attempt_id IS NOT NULL AND status = 'answered'",
            )
            .fetch_all(reading)
            .await?;
            Ok(ids.into_iter().map(|Text(id)| id).collect())
        })
        .await
    }
}

impl Store {
    async fn set_delivery(
        &self,
        question: QuestionId,
        agent: &str,
        delivery: &str,
    ) -> Result<(), Refusal> {
        self.write(Patience::Owner, "answer_delivery", async |writing| {
            sqlx::query(
                "UPDATE question_askers SET delivery = ?3, waits_until = NULL
                 WHERE question_id = ?1 AND agent = ?2",
            )
            .bind(Text(question))
            .bind(agent)
            .bind(delivery)
            .execute(writing)
            .await?;
            Ok(())
        })
        .await
    }
}

/// The answers that a worker has not been told: to its own questions, and to those that were
/// asked for its task by agents outside of attempts. With the ids of the questions.
async fn due(
    reading: Writing<'_>,
    worker: &Worker,
    task: Option<TaskId>,
) -> Result<Vec<(QuestionId, LateAnswer)>> {
    Ok(sqlx::query(
        "SELECT q.* FROM question_askers a JOIN questions q USING (question_id)
         WHERE project_id = ?1 AND status = 'answered' AND delivery = 'due'
           AND (agent = ?2 OR (attempt_id IS NULL AND task_id = ?3))
         ORDER BY q.question_id",
    )
    .bind(Text(worker.project_id))
    .bind(&worker.agent)
    .bind(task.map(Text))
    .try_map(|row: SqliteRow| Ok((row.text("question_id")?, late(&row)?)))
    .fetch_all(reading)
    .await?)
}

/// The same, marked as told. Part of a transaction.
pub async fn tell_due(
    writing: Writing<'_>,
    worker: &Worker,
    task: Option<TaskId>,
) -> Result<Vec<LateAnswer>> {
    let due = due(writing, worker, task).await?;
    for (question, _) in &due {
        sqlx::query(
            "UPDATE question_askers SET delivery = 'told' WHERE question_id = ?1
             AND delivery = 'due' AND (agent = ?2 OR (attempt_id IS NULL AND task_id = ?3))",
        )
        .bind(Text(question))
        .bind(&worker.agent)
        .bind(task.map(Text))
        .execute(&mut *writing)
        .await?;
    }
    Ok(due.into_iter().map(|(_, answer)| answer).collect())
}
