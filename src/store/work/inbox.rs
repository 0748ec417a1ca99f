//! The inbox of orchestrators and people: open questions and tickets in one list, answered by one call.

use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, ProjectId, QuestionId};
use provost_actors::journal::{Idempotent, Key};

use super::questions;
use crate::api::worker::inbox::{
    AnswerQuestionInput, AnswerQuestionOutput, InboxKind, ListQuestionsInput, QuestionStatus,
    QuestionSummary, QuestionsAsked,
};
use crate::store::{Code, Db, Page, Refusal, Result, RetryBudget, Sql, Store, now, projects};

/// Questions, and the tickets that a person resolves; an investigation's ticket is resolved by its task. An
/// answer of an executor counts as `unruled` until a person or an orchestrator rules.
const INBOX: &str = "SELECT *, id AS question_id, task AS task_id FROM (
    SELECT question_id AS id, handle, project_id, 'question' AS kind,
           CASE WHEN status = 'answered' AND answered_by NOT IN ('person', 'orchestrator')
                THEN 'unruled' ELSE status END AS status, priority, question, context, answer, answered_by, asked_at,
           (SELECT t.handle FROM question_askers a JOIN tasks t USING (task_id)
            WHERE a.question_id = q.question_id LIMIT 1) AS task
    FROM questions q
    UNION ALL
    SELECT ticket_id, handle, project_id, kind,
           CASE status WHEN 'open' THEN 'open' ELSE 'answered' END, priority, title,
           CASE WHEN description IS NULL THEN NULL
                ELSE CAST(json_object('description', description) AS TEXT) END,
           resolution, CASE WHEN resolution IS NULL THEN NULL ELSE coalesce(resolved_by, 'a task') END,
           opened_at,
           (SELECT t.handle FROM tasks t
            WHERE t.task_id = coalesce(k.blocks_task_id, k.task_id,
                (SELECT n.task_id FROM notes n WHERE n.alert = k.ticket_id),
                (SELECT f.task_id FROM failures f WHERE f.alert = k.ticket_id))) AS task
    FROM tickets k WHERE kind <> 'investigation') i";

/// What workers reported and what needs no answer: notes and test failures. A long report is left out here;
/// it is with its task.
const REPORTED: &str = "SELECT *, id AS question_id, task AS task_id FROM (
    SELECT note_id AS id, handle, project_id, kind, 'noted' AS status, severity AS priority,
           text AS question,
           (SELECT body FROM reports r WHERE r.report_id = n.report_id
            AND tool IN ('reportObservation', 'reportIssue') AND length(body) <= 4000) AS context,
           NULL AS answer, NULL AS answered_by, noted_at AS asked_at,
           (SELECT t.handle FROM tasks t WHERE t.task_id = n.task_id) AS task
    FROM notes n
    UNION ALL
    SELECT failure_id, handle, project_id, 'failure', 'noted', 'high',
           test_name || ' (' || test_file || ')',
           (SELECT body FROM reports r WHERE r.report_id = f.report_id AND length(body) <= 4000),
           NULL, NULL, failed_at, (SELECT t.handle FROM tasks t WHERE t.task_id = f.task_id)
    FROM failures f) i";

impl Store {
    /// A page of the inbox, newest first.
    pub async fn inbox(
        &self,
        input: &ListQuestionsInput,
    ) -> Result<Page<QuestionSummary>, Refusal> {
        let list = if input.status == QuestionsAsked::Reports { REPORTED } else { INBOX };
        let sql = sqlx::AssertSqlSafe(format!(
            "{list} WHERE (project_id = $1 OR $1 IS NULL) AND (NOT $2 OR status <> 'answered')
               AND (id < $3 OR $3 IS NULL)
             ORDER BY id DESC LIMIT $4"
        ));
        let (project, limit) = (input.project_id, input.limit);
        let is_open = input.status == QuestionsAsked::Open;
        self.read(async |db| {
            if let Some(project) = project {
                projects::require(db, project).await?;
            }
            let found = db.all(sql, (project, is_open, input.before.as_deref(), limit + 1)).await?;
            Ok(Page::cut(found, limit))
        })
        .await
    }

    /// The open questions and tickets, in any order, each with the time at which it was asked.
    pub async fn open_questions(
        &self,
        project: Option<ProjectId>,
    ) -> Result<Vec<(String, Timestamp)>, Refusal> {
        let sql = sqlx::AssertSqlSafe(format!(
            "SELECT id, asked_at FROM ({INBOX}) o
             WHERE (project_id = $1 OR $1 IS NULL) AND status <> 'answered'"
        ));
        self.read(async |db| {
            if let Some(project) = project {
                projects::require(db, project).await?;
            }
            db.all(sql, (project,)).await
        })
        .await
    }

    /// Those of these questions and tickets that are open, in any order.
    pub async fn open_questions_by_id(
        &self,
        ids: &[String],
    ) -> Result<Vec<QuestionSummary>, Refusal> {
        let sql = sqlx::AssertSqlSafe(format!(
            "{INBOX} WHERE id IN (SELECT value FROM json_each($1)) AND status <> 'answered'"
        ));
        self.read(async |db| db.all(sql, (ids,)).await).await
    }

    /// Answers a question, or resolves a ticket. The answer of a question is a ruling: it replaces the answer
    /// of an executor. `inside` is the attempt that the caller's process is part of; an attempt can't answer
    /// its own question. Returns the question's id too, because its askers wait for the answer; `None` for a
    /// ticket.
    pub async fn answer_question(
        &self,
        key: Option<&Key>,
        input: &AnswerQuestionInput,
        by: &str,
        inside: Option<AttemptId>,
    ) -> Result<(Idempotent<AnswerQuestionOutput>, Option<QuestionId>), Refusal> {
        let mut question: Option<QuestionId> = None;
        let answer = self
            .keyed(RetryBudget::Short, key, "answer", async |db| {
                let found = find(db, input.project_id, &input.question_id).await?;
                if let Some(inside) = inside {
                    refuse_own(db, &found.question_id, inside).await?;
                }
                if found.status == QuestionStatus::Answered {
                    return Err(is_answered(&found).into());
                }
                if found.kind == InboxKind::Question {
                    let id = found
                        .question_id
                        .parse()
                        .map_err(|_| questions::not_found(&found.question_id))?;
                    questions::rule(db, id, &input.answer, by).await?;
                    question = Some(id);
                } else {
                    let sql = "UPDATE tickets SET status = 'resolved', resolution = $2,
                                resolved_by = $3, resolved_at = $4
                         WHERE ticket_id = $1 AND status = 'open'";
                    db.run(sql, (&found.question_id, &*input.answer, by, now())).await?;
                }
                Ok(AnswerQuestionOutput {
                    question_id: found.question_id,
                    handle: found.handle,
                    status: QuestionStatus::Answered,
                })
            })
            .await?;
        if let Some(question) = question {
            self.changes.announce(question);
        }
        Ok((answer, question))
    }
}

/// Finds an item by UUID, or by handle where the handle is unique or the project is named.
async fn find(db: Db<'_>, project: Option<ProjectId>, name: &str) -> Result<QuestionSummary> {
    let sql = sqlx::AssertSqlSafe(format!(
        "{INBOX} WHERE (id = lower($1) OR handle = upper($1)) AND (project_id = $2 OR $2 IS NULL)
         LIMIT 2"
    ));
    let mut rows: Vec<QuestionSummary> = db.all(sql, (name.trim(), project)).await?;
    match (rows.pop(), rows.pop()) {
        (Some(row), None) => Ok(row),
        (None, _) => Err(match investigation(db, project, name).await? {
            Some(task) => Refusal::new(
                Code::InvalidState,
                format!("{} is resolved by its investigation, when that is done", name.trim()),
            )
            .hint(format!("Call get_task with task_id = \"{task}\"."))
            .detail("task_id", task)
            .into(),
            None => questions::not_found(name).into(),
        }),
        (Some(_), Some(row)) => {
            Err(Refusal::new(Code::MissingRequired, format!("several projects have a {name}"))
                .hint(format!("Call the tool again with project_id = \"{}\".", row.project_id))
                .detail("path", "project_id")
                .into())
        }
    }
}

/// The investigation that resolves a ticket; no caller can answer such a ticket.
async fn investigation(
    db: Db<'_>,
    project: Option<ProjectId>,
    name: &str,
) -> Result<Option<String>> {
    let sql = "SELECT task_id FROM tickets
         WHERE kind = 'investigation' AND (ticket_id = lower($1) OR handle = upper($1))
           AND (project_id = $2 OR $2 IS NULL) AND task_id IS NOT NULL LIMIT 1";
    db.find(sql, (name.trim(), project)).await
}

async fn refuse_own(db: Db<'_>, id: &str, inside: AttemptId) -> Result<()> {
    let sql = "SELECT EXISTS (
             SELECT 1 FROM question_askers WHERE question_id = $1 AND attempt_id = $2
             UNION SELECT 1 FROM tickets WHERE ticket_id = $1 AND attempt_id = $2)";
    if !db.one(sql, (id, inside)).await? {
        return Ok(());
    }
    Err(Refusal::new(Code::NotPermitted, "an attempt can't answer what it asked itself")
        .hint("Wait: an orchestrator or a person answers it.")
        .into())
}

fn is_answered(found: &QuestionSummary) -> Refusal {
    let by = found.answered_by.as_deref().unwrap_or("an unknown agent");
    Refusal::new(Code::InvalidState, format!("{} was answered already, by {by}", found.handle))
        .hint("Call list_inbox instead.")
        .detail("answer", found.answer.clone())
}
