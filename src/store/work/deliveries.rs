//! How answers get back to those who asked. Each asker has a row; its `delivery` says whether the answer is
//! due, is being sent as a follow-up, or was delivered (`told`).
//!
//! ```text
//!   due ──a call of the asker takes it──────────────▶ told
//!    ▲└──answers_to_send──▶ sending ──answer_sent──▶ told
//!    └──────not sent───────────┘
//! ```
//!
//! If a daemon dies while an answer is `sending`, the next daemon finds the row and sends the answer again.

use async_trait::async_trait;
use provost_actors::ids::{AttemptId, QuestionId, TaskId};
use provost_actors::journal::{Deliveries, Outgoing};

use crate::api::worker::report::LateAnswer;
use crate::store::{Db, Refusal, Result, RetryBudget, Sql, Store, now};
use crate::work::Worker;

impl Store {
    /// The answers that have not reached a worker yet: to its own questions, and to questions that agents
    /// outside of attempts asked for `task`. They count as delivered by this call.
    pub async fn deliver_answers(
        &self,
        worker: &Worker,
        task: Option<TaskId>,
    ) -> Result<Vec<LateAnswer>, Refusal> {
        // Most calls find no answer, and then nothing is written.
        if self.read(async |db| due(db, worker, task).await).await?.is_empty() {
            return Ok(Vec::new());
        }
        self.write(RetryBudget::Short, "answers_told", async |db| {
            deliver_due(db, worker, task).await
        })
        .await
    }

    /// Notes that a call returns this answer to the agent, so that it is not delivered again. A ruling that
    /// has replaced the answer meanwhile is still delivered.
    pub async fn take_answer(
        &self,
        question: QuestionId,
        agent: &str,
        answer: &str,
    ) -> Result<(), Refusal> {
        let sql = "SELECT EXISTS (SELECT 1 FROM question_askers
                           WHERE question_id = $1 AND agent = $2 AND delivery = 'due')";
        let is_due: bool = self.read(async |db| db.one(sql, (question, agent)).await).await?;
        if !is_due {
            return Ok(());
        }
        let sql = "UPDATE question_askers SET delivery = 'told', waits_until = NULL
             WHERE question_id = $1 AND agent = $2
               AND EXISTS (SELECT 1 FROM questions q
                           WHERE q.question_id = $1 AND q.answer = $3)";
        self.write(RetryBudget::Long, "answer_delivery", async |db| {
            db.run(sql, (question, agent, answer)).await.map(drop)
        })
        .await
    }

    /// Notes that a call has stopped waiting for an answer: the answer is delivered when it comes.
    pub async fn wait_no_longer(&self, question: QuestionId, agent: &str) -> Result<(), Refusal> {
        self.set_delivery(question, agent, "due", None).await
    }

    /// Sets the delivery of an answer to an asker; with `from`, only if the delivery is `from` now.
    async fn set_delivery(
        &self,
        question: QuestionId,
        agent: &str,
        delivery: &str,
        from: Option<&str>,
    ) -> Result<(), Refusal> {
        let sql = "UPDATE question_askers SET delivery = $3, waits_until = NULL
             WHERE question_id = $1 AND agent = $2 AND delivery = coalesce($4, delivery)";
        self.write(RetryBudget::Long, "answer_delivery", async |db| {
            db.run(sql, (question, agent, delivery, from)).await.map(drop)
        })
        .await
    }
}

#[async_trait]
impl Deliveries for Store {
    async fn answers_to_send(&self, question: QuestionId) -> Result<Outgoing, Refusal> {
        let now = now();
        self.write(RetryBudget::Long, "answers_sending", async |db| {
            let sql = "UPDATE question_askers AS asker SET delivery = 'sending'
                 WHERE question_id = $1 AND delivery = 'due' AND attempt_id IS NOT NULL
                   AND coalesce(waits_until, 0) <= $2
                   AND EXISTS (SELECT 1 FROM attempts a JOIN tasks t USING (task_id)
                               WHERE a.attempt_id = asker.attempt_id AND a.queue_held = 0
                                 AND a.host = $3 AND t.deleted_at IS NULL
                                 AND t.status NOT IN ('done', 'cancelled'))";
            db.run(sql, (question, now, &self.host)).await?;
            let sql =
                "SELECT a.attempt_id, q.handle, q.question, q.answer, q.answered_by, q.answered_at
                 FROM question_askers a JOIN questions q USING (question_id)
                 JOIN attempts o ON o.attempt_id = a.attempt_id AND o.host = $2
                 WHERE q.question_id = $1 AND delivery = 'sending' AND status = 'answered'";
            let chosen = db.all(sql, (question, &self.host)).await?;
            let sql = "SELECT max(waits_until) FROM question_askers q
                 JOIN attempts o ON o.attempt_id = q.attempt_id AND o.host = $3
                 WHERE question_id = $1 AND delivery = 'due' AND waits_until > $2";
            Ok((chosen, db.one(sql, (question, now, &self.host)).await?))
        })
        .await
    }

    /// A ruling that came meanwhile has made the row `due` again; then it stays `due`.
    async fn answer_sent(
        &self,
        question: QuestionId,
        attempt: AttemptId,
        is_sent: bool,
    ) -> Result<(), Refusal> {
        let delivery = if is_sent { "told" } else { "due" };
        self.set_delivery(question, &attempt.to_string(), delivery, Some("sending")).await
    }

    async fn undelivered_questions(&self) -> Result<Vec<QuestionId>, Refusal> {
        let sql = "SELECT DISTINCT question_id
             FROM question_askers q JOIN questions USING (question_id)
             JOIN attempts o ON o.attempt_id = q.attempt_id AND o.host = $1
             WHERE delivery <> 'told' AND status = 'answered'";
        self.read(async |db| db.all(sql, (&self.host,)).await).await
    }
}

/// The answers that have not reached a worker yet: to its own questions, and to questions that agents outside
/// of attempts asked for `task`.
async fn due(db: Db<'_>, worker: &Worker, task: Option<TaskId>) -> Result<Vec<LateAnswer>> {
    // PostgreSQL makes small letters of a name without quotes.
    let sql = r#"SELECT q.handle AS "questionId", q.question, q.answer, q.answered_by AS "answeredBy"
         FROM question_askers a JOIN questions q USING (question_id)
         WHERE project_id = $1 AND status = 'answered' AND delivery = 'due'
           AND (agent = $2 OR (attempt_id IS NULL AND task_id = $3))
         ORDER BY q.question_id"#;
    db.all(sql, (worker.project_id, &worker.agent, task)).await
}

/// The answers of [`due`], which count as delivered from now on. Part of a transaction.
pub async fn deliver_due(
    db: Db<'_>,
    worker: &Worker,
    task: Option<TaskId>,
) -> Result<Vec<LateAnswer>> {
    let answers = due(db, worker, task).await?;
    if !answers.is_empty() {
        let sql = "UPDATE question_askers SET delivery = 'told'
             WHERE delivery = 'due' AND (agent = $2 OR (attempt_id IS NULL AND task_id = $3))
               AND question_id IN (SELECT question_id FROM questions
                                   WHERE project_id = $1 AND status = 'answered')";
        db.run(sql, (worker.project_id, &worker.agent, task)).await?;
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use provost_actors::gateway::NewRepo;

    use super::*;
    use crate::api::worker::ticket::Urgency;
    use crate::store::work::questions;
    use crate::store::{NewQuestion, scratch};

    #[tokio::test]
    async fn a_ruling_that_replaced_the_taken_answer_is_still_delivered() {
        let folder = tempfile::tempdir().unwrap();
        let store = scratch::open(folder.path()).await;
        let repo = NewRepo {
            name: "app".to_owned(),
            path: "/src/app".to_owned(),
            default_target_branch: "main".to_owned(),
            remotes: std::collections::BTreeMap::new(),
        };
        let project_id = store.create_project(None, "app", &[repo]).await.unwrap().value.project_id;
        let agent = "an-agent".to_owned();
        let worker = Worker { agent, attempt_id: None, project_id, may_write: true };
        let new = NewQuestion {
            question: "Which colour has the logo?",
            context: None,
            priority: Urgency::Medium,
            task: None,
            waits_until: None,
        };
        let id = store.pass_on(&worker, &new).await.unwrap().id;
        for answer in ["blue", "green"] {
            let rule = async |db: Db<'_>| questions::rule(db, id, answer, "person").await;
            store.write(RetryBudget::Short, "test", rule).await.unwrap();
        }
        let due = async || store.deliver_answers(&worker, None).await.unwrap();
        store.take_answer(id, &worker.agent, "blue").await.unwrap();
        assert_eq!(due().await[0].answer, "green");
        store.wait_no_longer(id, &worker.agent).await.unwrap();
        store.take_answer(id, &worker.agent, "green").await.unwrap();
        assert!(due().await.is_empty());
    }
}
