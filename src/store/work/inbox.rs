//! What waits for the orchestrator or a person: questions and tickets in one list,
//! answered by one call.

use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, ProjectId, QuestionId};
use provost_actors::journal::{Answer, Key};
use provost_actors::refusal::{Code, Refusal};
use sqlx::FromRow;

use super::questions;
use crate::api::worker::inbox::{
    AnswerQuestionInput, AnswerQuestionOutput, ListQuestionsInput, QuestionStatus, QuestionSummary,
    QuestionsAsked,
};
use crate::store::{Page, Store, Writing, codec, commit, fault, projects, requests, rows_for};

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

/// What was reported and waits for nobody. The whole report is with its task.
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

#[derive(FromRow)]
struct Row {
    id: String,
    handle: String,
    project_id: String,
    kind: String,
    status: String,
    priority: String,
    question: String,
    context: Option<String>,
    answer: Option<String>,
    answered_by: Option<String>,
    asked_at: i64,
    task: Option<String>,
}

impl Row {
    fn summary(self) -> Result<QuestionSummary, Refusal> {
        Ok(QuestionSummary {
            question_id: self.id,
            handle: self.handle,
            project_id: self.project_id,
            kind: codec::enumerated(self.kind)?,
            status: codec::enumerated(self.status)?,
            priority: codec::enumerated(self.priority)?,
            question: self.question,
            context: self.context,
            task_id: self.task,
            answer: self.answer,
            answered_by: self.answered_by,
            asked_at: Timestamp::from_millis(self.asked_at),
        })
    }
}

impl Store {
    /// What waits, newest first.
    pub async fn inbox(
        &self,
        input: &ListQuestionsInput,
    ) -> Result<Page<QuestionSummary>, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        if let Some(project) = input.project_id {
            projects::require(&mut reading, project).await?;
        }
        let only_open = input.status == QuestionsAsked::Open;
        let list = if input.status == QuestionsAsked::Reports { REPORTED } else { INBOX };
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
            "{list} WHERE (?1 IS NULL OR project_id = ?1) AND (NOT ?2 OR status <> 'answered')
               AND (?3 IS NULL OR id < ?3)
             ORDER BY id DESC LIMIT ?4"
        )))
        .bind(input.project_id.map(|project| project.to_string()))
        .bind(only_open)
        .bind(input.cursor.as_deref())
        .bind(rows_for(input.limit.get()))
        .fetch_all(&mut *reading)
        .await
        .map_err(fault)?;
        let items = rows.into_iter().map(Row::summary).collect::<Result<_, _>>()?;
        Ok(Page::cut(items, input.limit.get()))
    }

    /// Answers a question, or resolves a ticket. The ruling takes the place of an answer that an
    /// executor gave. `inside` is the attempt that the caller's
    /// process is part of: nobody answers what it asked itself. Gives the question, where
    /// somebody has to be told.
    pub async fn answer_question(
        &self,
        key: Option<&Key>,
        input: &AnswerQuestionInput,
        by: &str,
        inside: Option<AttemptId>,
    ) -> Result<(Answer<AnswerQuestionOutput>, Option<QuestionId>), Refusal> {
        let mut writing = self.writing().await?;
        if let Some(answer) = requests::kept(&mut writing, key).await? {
            return Ok((answer, None));
        }
        let row = find(&mut writing, input.project_id, &input.question_id).await?;
        let is_question = row.kind == "question";
        let found = row.summary()?;
        if let Some(inside) = inside {
            own(&mut writing, &found.question_id, inside).await?;
        }
        if found.status == QuestionStatus::Answered {
            return Err(is_answered(&found));
        }
        let now = Timestamp::now();
        let question: Option<QuestionId> =
            if is_question { Some(codec::id(&found.question_id)?) } else { None };
        match question {
            Some(question) => {
                questions::rule(&mut writing, question, &input.answer, by, now).await?;
            }
            None => resolve(&mut writing, &found.question_id, &input.answer, by, now).await?,
        }
        let output = AnswerQuestionOutput {
            question_id: found.question_id,
            handle: found.handle,
            status: QuestionStatus::Answered,
        };
        let answer = requests::keep(&mut writing, key, output).await?;
        commit(writing, "answer_question").await?;
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
) -> Result<Row, Refusal> {
    let mut rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
        "{INBOX} WHERE (id = lower(?1) OR handle = upper(?1)) AND (?2 IS NULL OR project_id = ?2)
         LIMIT 2"
    )))
    .bind(name.trim())
    .bind(project.map(|project| project.to_string()))
    .fetch_all(&mut *writing)
    .await
    .map_err(fault)?;
    match (rows.pop(), rows.pop()) {
        (Some(row), None) => Ok(row),
        (None, _) => Err(match investigation(writing, project, name).await? {
            Some(task) => Refusal::new(
                Code::InvalidState,
                format!("{} is resolved by its investigation, when that is done", name.trim()),
            )
            .hint(format!("Call get_task with task_id = \"{task}\"."))
            .detail("task_id", task),
            None => questions::not_found(name),
        }),
        (Some(_), Some(row)) => {
            Err(Refusal::new(Code::MissingRequired, format!("several projects have a {name}"))
                .hint(format!("Call the tool again with project_id = \"{}\".", row.project_id))
                .detail("path", "project_id"))
        }
    }
}

/// The task that resolves a ticket which nobody answers.
async fn investigation(
    reading: Writing<'_>,
    project: Option<ProjectId>,
    name: &str,
) -> Result<Option<String>, Refusal> {
    sqlx::query_scalar(
        "SELECT task_id FROM tickets
         WHERE kind = 'investigation' AND (ticket_id = lower(?1) OR handle = upper(?1))
           AND (?2 IS NULL OR project_id = ?2) AND task_id IS NOT NULL LIMIT 1",
    )
    .bind(name.trim())
    .bind(project.map(|project| project.to_string()))
    .fetch_optional(reading)
    .await
    .map_err(fault)
}

/// Refuses the answer of an attempt to its own question or ticket.
async fn own(writing: Writing<'_>, id: &str, inside: AttemptId) -> Result<(), Refusal> {
    let asked: Option<i64> = sqlx::query_scalar(
        "SELECT 1 FROM question_askers WHERE question_id = ?1 AND attempt_id = ?2
         UNION SELECT 1 FROM tickets WHERE ticket_id = ?1 AND attempt_id = ?2",
    )
    .bind(id)
    .bind(inside.to_string())
    .fetch_optional(writing)
    .await
    .map_err(fault)?;
    match asked {
        None => Ok(()),
        Some(_) => {
            Err(Refusal::new(Code::NotPermitted, "an attempt can't answer what it asked itself")
                .hint("Wait: an orchestrator or a person answers it."))
        }
    }
}

async fn resolve(
    writing: Writing<'_>,
    ticket: &str,
    resolution: &str,
    by: &str,
    at: Timestamp,
) -> Result<(), Refusal> {
    sqlx::query(
        "UPDATE tickets SET status = 'resolved', resolution = ?2, resolved_by = ?4, resolved_at = ?3
         WHERE ticket_id = ?1 AND status = 'open'",
    )
    .bind(ticket)
    .bind(resolution)
    .bind(at.millis())
    .bind(by)
    .execute(writing)
    .await
    .map(drop)
    .map_err(fault)
}

fn is_answered(found: &QuestionSummary) -> Refusal {
    let by = found.answered_by.as_deref().unwrap_or("somebody");
    Refusal::new(Code::InvalidState, format!("{} was answered already, by {by}", found.handle))
        .hint("Call list_questions instead.")
        .detail("answer", found.answer.clone())
}
