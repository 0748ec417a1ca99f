//! Answers on their way back to those who asked: each asker has a row, which says whether
//! the answer is due, is being sent as a follow-up, or was told.

use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, QuestionId, TaskId};
use provost_actors::refusal::Refusal;
use sqlx::FromRow;

use crate::store::{Store, Writing, codec, commit, fault};
use crate::work::Worker;
use crate::work::late::LateAnswer;

/// An answer on its way to a worker, as a follow-up.
#[derive(Clone, Debug)]
pub struct Sending {
    pub attempt_id: AttemptId,
    pub answer: LateAnswer,
    /// When it was given: a later ruling is another answer.
    pub answered_at: Timestamp,
}

/// The answers to be sent.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub now: Vec<Sending>,
    /// When to look again: until then calls wait for the answer.
    pub later: Option<Timestamp>,
}

#[derive(FromRow)]
struct AnswerRow {
    question_id: String,
    handle: String,
    question: String,
    answer: String,
    answered_by: String,
    answered_at: i64,
    attempt_id: Option<String>,
}

impl AnswerRow {
    fn late(self) -> LateAnswer {
        LateAnswer {
            question_id: self.handle,
            question: self.question,
            answer: self.answer,
            answered_by: self.answered_by,
        }
    }
}

impl Store {
    /// The answers that have not come to a worker yet, told now and not again: to what it
    /// asked itself, or what was asked for the task.
    pub async fn due_answers(
        &self,
        worker: &Worker,
        task: Option<TaskId>,
    ) -> Result<Vec<LateAnswer>, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        if due(&mut reading, worker, task).await?.is_empty() {
            return Ok(Vec::new());
        }
        drop(reading);
        let mut writing = self.writing().await?;
        let told = tell_due(&mut writing, worker, task).await?;
        commit(writing, "answers_told").await?;
        Ok(told)
    }

    /// A call takes its answer; it is not told again.
    pub async fn take_answer(&self, question: QuestionId, agent: &str) -> Result<(), Refusal> {
        let is_due: Option<i64> = sqlx::query_scalar(
            "SELECT 1 FROM question_askers
             WHERE question_id = ?1 AND agent = ?2 AND delivery = 'due'",
        )
        .bind(question.to_string())
        .bind(agent)
        .fetch_optional(&self.reader)
        .await
        .map_err(fault)?;
        match is_due {
            Some(_) => self.set_delivery(question, agent, "told").await,
            None => Ok(()),
        }
    }

    /// The answers to be sent to the attempts that asked: chosen now, so that no call of
    /// theirs is told them as well. Left out are those that a call waits for, and attempts
    /// that a follow-up can't or must not reach.
    pub async fn answers_to_send(&self, question: QuestionId) -> Result<Outgoing, Refusal> {
        let now = Timestamp::now().millis();
        let mut writing = self.writing_patiently().await?;
        sqlx::query(
            "UPDATE question_askers AS asker SET delivery = 'sending'
             WHERE question_id = ?1 AND delivery = 'due' AND attempt_id IS NOT NULL
               AND coalesce(waits_until, 0) <= ?2
               AND EXISTS (SELECT 1 FROM attempts a JOIN tasks t USING (task_id)
                           WHERE a.attempt_id = asker.attempt_id AND a.queue_held = 0
                             AND t.deleted_at IS NULL AND t.status NOT IN ('done', 'cancelled'))",
        )
        .bind(question.to_string())
        .bind(now)
        .execute(&mut *writing)
        .await
        .map_err(fault)?;
        let rows: Vec<AnswerRow> = sqlx::query_as(
            "SELECT q.question_id, q.handle, q.question, q.answer, q.answered_by, q.answered_at,
                    a.attempt_id
             FROM question_askers a JOIN questions q USING (question_id)
             WHERE question_id = ?1 AND delivery = 'sending' AND status = 'answered'",
        )
        .bind(question.to_string())
        .fetch_all(&mut *writing)
        .await
        .map_err(fault)?;
        commit(writing, "answers_sending").await?;
        let sending = rows.into_iter().filter_map(|mut row| {
            let attempt = row.attempt_id.take()?;
            let answered_at = Timestamp::from_millis(row.answered_at);
            Some(codec::id(&attempt).map(|attempt_id| Sending {
                attempt_id,
                answer: row.late(),
                answered_at,
            }))
        });
        let later: Option<i64> = sqlx::query_scalar(
            "SELECT max(waits_until) FROM question_askers
             WHERE question_id = ?1 AND delivery = 'due' AND attempt_id IS NOT NULL
               AND waits_until > ?2",
        )
        .bind(question.to_string())
        .bind(now)
        .fetch_one(&self.reader)
        .await
        .map_err(fault)?;
        Ok(Outgoing {
            now: sending.collect::<Result<_, _>>()?,
            later: later.map(Timestamp::from_millis),
        })
    }

    /// A call no longer waits for the answer: now it comes by itself.
    pub async fn wait_no_longer(&self, question: QuestionId, agent: &str) -> Result<(), Refusal> {
        self.set_delivery(question, agent, "due").await
    }

    /// A follow-up carries the answer, or could not: then it waits for the next call. A
    /// ruling that came meanwhile is still due.
    pub async fn answer_sent(
        &self,
        question: QuestionId,
        attempt: AttemptId,
        is_sent: bool,
    ) -> Result<(), Refusal> {
        let mut writing = self.writing_patiently().await?;
        sqlx::query(
            "UPDATE question_askers SET delivery = ?3, waits_until = NULL
             WHERE question_id = ?1 AND agent = ?2 AND delivery = 'sending'",
        )
        .bind(question.to_string())
        .bind(attempt.to_string())
        .bind(if is_sent { "told" } else { "due" })
        .execute(&mut *writing)
        .await
        .map_err(fault)?;
        commit(writing, "answer_delivery").await
    }

    /// The answered questions of which somebody may still have to be told by a follow-up.
    pub async fn untold_questions(&self) -> Result<Vec<QuestionId>, Refusal> {
        let ids: Vec<String> = sqlx::query_scalar(
            "SELECT DISTINCT question_id FROM question_askers JOIN questions USING (question_id)
             WHERE delivery <> 'told' AND attempt_id IS NOT NULL AND status = 'answered'",
        )
        .fetch_all(&self.reader)
        .await
        .map_err(fault)?;
        ids.iter().map(|id| codec::id(id)).collect()
    }

    async fn set_delivery(
        &self,
        question: QuestionId,
        agent: &str,
        delivery: &str,
    ) -> Result<(), Refusal> {
        let mut writing = self.writing_patiently().await?;
        sqlx::query(
            "UPDATE question_askers SET delivery = ?3, waits_until = NULL
             WHERE question_id = ?1 AND agent = ?2",
        )
        .bind(question.to_string())
        .bind(agent)
        .bind(delivery)
        .execute(&mut *writing)
        .await
        .map_err(fault)?;
        commit(writing, "answer_delivery").await
    }
}

/// What has been answered of what a worker asked, or was asked for its task, and not been
/// told.
async fn due(
    reading: Writing<'_>,
    worker: &Worker,
    task: Option<TaskId>,
) -> Result<Vec<AnswerRow>, Refusal> {
    sqlx::query_as(
        "SELECT q.question_id, q.handle, q.question, q.answer, q.answered_by, q.answered_at,
                a.attempt_id
         FROM question_askers a JOIN questions q USING (question_id)
         WHERE project_id = ?1 AND status = 'answered' AND delivery = 'due'
           AND (agent = ?2 OR (attempt_id IS NULL AND task_id = ?3))
         ORDER BY q.question_id",
    )
    .bind(worker.project_id.to_string())
    .bind(&worker.agent)
    .bind(task.map(|task| task.to_string()))
    .fetch_all(reading)
    .await
    .map_err(fault)
}

/// Tells it, now and not again. Part of a transaction.
pub async fn tell_due(
    writing: Writing<'_>,
    worker: &Worker,
    task: Option<TaskId>,
) -> Result<Vec<LateAnswer>, Refusal> {
    let rows = due(writing, worker, task).await?;
    for row in &rows {
        sqlx::query(
            "UPDATE question_askers SET delivery = 'told' WHERE question_id = ?1
             AND delivery = 'due' AND (agent = ?2 OR (attempt_id IS NULL AND task_id = ?3))",
        )
        .bind(&row.question_id)
        .bind(&worker.agent)
        .bind(task.map(|task| task.to_string()))
        .execute(&mut *writing)
        .await
        .map_err(fault)?;
    }
    Ok(rows.into_iter().map(AnswerRow::late).collect())
}
