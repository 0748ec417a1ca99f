//! The inbox of the orchestrator and of people: open questions and tickets in one list,
//! answered by one call.

use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, ProjectId, QuestionId};
use provost_actors::journal::{Key, Once};
use provost_actors::refusal::{Code, Refusal};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::questions;
use crate::api::worker::inbox::{
    AnswerQuestionInput, AnswerQuestionOutput, InboxKind, ListQuestionsInput, QuestionStatus,
    QuestionSummary, QuestionsAsked,
};
use crate::store::codec::{self, Columns, Text};
use crate::store::write_retry::Patience;
use crate::store::{Page, Result, Store, Writing, projects, rows_for};

/// Questions, and the tickets that no task resolves.
const INBOX: &str = "SELECT * FROM (
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
                ELSE json_object('description', description) END,
           resolution, CASE WHEN resolution IS NULL THEN NULL ELSE coalesce(resolved_by, 'a task') END,
           opened_at,
           (SELECT t.handle FROM tasks t
            WHERE t.task_id = coalesce(k.blocks_task_id, k.task_id,
                (SELECT n.task_id FROM notes n WHERE n.alert = k.ticket_id),
                (SELECT f.task_id FROM failures f WHERE f.alert = k.ticket_id))) AS task
    FROM tickets k WHERE kind <> 'investigation')";

/// What was reported and needs no answer. The whole report is with its task.
const REPORTED: &str = "SELECT * FROM (
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
    FROM failures f)";

/// A question, ticket, note or failure from a row of one of these lists.
fn summary(row: &SqliteRow) -> sqlx::Result<QuestionSummary> {
    Ok(QuestionSummary {
        question_id: row.try_get("id")?,
        handle: row.try_get("handle")?,
        project_id: row.try_get("project_id")?,
        kind: row.text("kind")?,
        status: row.text("status")?,
        priority: row.text("priority")?,
        question: row.try_get("question")?,
        context: row.try_get("context")?,
        task_id: row.try_get("task")?,
        answer: row.try_get("answer")?,
        answered_by: row.try_get("answered_by")?,
        asked_at: row.at("asked_at")?,
    })
}

impl Store {
    /// What waits, newest first.
    pub async fn inbox(
        &self,
        input: &ListQuestionsInput,
    ) -> Result<Page<QuestionSummary>, Refusal> {
        self.read(async |reading| {
            if let Some(project) = input.project_id {
                projects::require(reading, project).await?;
            }
            let list = if input.status == QuestionsAsked::Reports { REPORTED } else { INBOX };
            let items = sqlx::query(sqlx::AssertSqlSafe(format!(
                "{list} WHERE (?1 IS NULL OR project_id = ?1) AND (NOT ?2 OR status <> 'answered')
                   AND (?3 IS NULL OR id < ?3)
                 ORDER BY id DESC LIMIT ?4"
            )))
            .bind(input.project_id.map(Text))
            .bind(input.status == QuestionsAsked::Open)
            .bind(input.cursor.as_deref())
            .bind(rows_for(input.limit.get()))
            .try_map(|row| summary(&row))
            .fetch_all(reading)
            .await?;
            Ok(Page::cut(items, input.limit.get()))
        })
        .await
    }

    /// Answers a question, or resolves a ticket. The ruling replaces the answer of an
    /// executor. `inside` is the attempt that the caller's process is part of: an attempt
    /// can't answer its own question. Gives the question too, where askers wait for it.
    pub async fn answer_question(
        &self,
        key: Option<&Key>,
        input: &AnswerQuestionInput,
        by: &str,
        inside: Option<AttemptId>,
    ) -> Result<(Once<AnswerQuestionOutput>, Option<QuestionId>), Refusal> {
        let mut question: Option<QuestionId> = None;
        let answer = self
            .keyed(Patience::Caller, key, "answer_question", async |writing| {
                let found = find(writing, input.project_id, &input.question_id).await?;
                if let Some(inside) = inside {
                    own(writing, &found.question_id, inside).await?;
                }
                if found.status == QuestionStatus::Answered {
                    return Err(is_answered(&found).into());
                }
                let now = Timestamp::now();
                if found.kind == InboxKind::Question {
                    let id = codec::id(&found.question_id)?;
                    questions::rule(writing, id, &input.answer, by, now).await?;
                    question = Some(id);
                } else {
                    resolve(writing, &found.question_id, &input.answer, by, now).await?;
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

/// By UUID; by handle where only one project has it, or the project is named.
async fn find(
    writing: Writing<'_>,
    project: Option<ProjectId>,
    name: &str,
) -> Result<QuestionSummary> {
    let mut rows = sqlx::query(sqlx::AssertSqlSafe(format!(
        "{INBOX} WHERE (id = lower(?1) OR handle = upper(?1)) AND (?2 IS NULL OR project_id = ?2)
         LIMIT 2"
    )))
    .bind(name.trim())
    .bind(project.map(Text))
    .try_map(|row| summary(&row))
    .fetch_all(&mut *writing)
    .await?;
    match (rows.pop(), rows.pop()) {
        (Some(row), None) => Ok(row),
        (None, _) => Err(match investigation(writing, project, name).await? {
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

/// The investigation that resolves a ticket, which no caller can answer.
async fn investigation(
    reading: Writing<'_>,
    project: Option<ProjectId>,
    name: &str,
) -> Result<Option<String>> {
    Ok(sqlx::query_scalar(
        "SELECT task_id FROM tickets
         WHERE kind = 'investigation' AND (ticket_id = lower(?1) OR handle = upper(?1))
           AND (?2 IS NULL OR project_id = ?2) AND task_id IS NOT NULL LIMIT 1",
    )
    .bind(name.trim())
    .bind(project.map(Text))
    .fetch_optional(reading)
    .await?)
}

/// Refuses the answer of an attempt to its own question or ticket.
async fn own(writing: Writing<'_>, id: &str, inside: AttemptId) -> Result<()> {
    let asked: Option<i64> = sqlx::query_scalar(
        "SELECT 1 FROM question_askers WHERE question_id = ?1 AND attempt_id = ?2
         UNION SELECT 1 FROM tickets WHERE ticket_id = ?1 AND attempt_id = ?2",
    )
    .bind(id)
    .bind(Text(inside))
    .fetch_optional(writing)
    .await?;
    match asked {
        None => Ok(()),
        Some(_) => {
            Err(Refusal::new(Code::NotPermitted, "an attempt can't answer what it asked itself")
                .hint("Wait: an orchestrator or a person answers it.")
                .into())
        }
    }
}

async fn resolve(
    writing: Writing<'_>,
    ticket: &str,
    resolution: &str,
    by: &str,
    at: Timestamp,
) -> Result<()> {
    sqlx::query(
        "UPDATE tickets SET status = 'resolved', resolution = ?2, resolved_by = ?4, resolved_at = ?3
         WHERE ticket_id = ?1 AND status = 'open'",
    )
    .bind(ticket)
    .bind(resolution)
    .bind(at.millis())
    .bind(by)
    .execute(writing)
    .await?;
    Ok(())
}

fn is_answered(found: &QuestionSummary) -> Refusal {
    let by = found.answered_by.as_deref().unwrap_or("somebody");
    Refusal::new(Code::InvalidState, format!("{} was answered already, by {by}", found.handle))
        .hint("Call list_questions instead.")
        .detail("answer", found.answer.clone())
}
