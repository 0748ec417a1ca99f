//! `provost inbox` and `answer`: open questions, tickets and alerts.

use provost_actors::ids::QuestionId;
use provost_actors::refusal::Code;
use serde_json::{Value, json};

use super::context::{Context, text};
use super::exit::{Exit, Failure};
use super::output::{harmless, headline};
use super::project;
use crate::client::ClientError;

/// The longest piece of a question that is shown, in characters.
const QUESTION: usize = 200;

#[derive(clap::Args, Debug)]
pub struct InboxArgs {
    /// Only this project's: its name or id
    #[arg(long)]
    project: Option<String>,
    /// Also answered ones
    #[arg(long)]
    all: bool,
    /// Observations, issues and test failures that workers reported, which wait for nobody
    #[arg(long, conflicts_with = "all")]
    reports: bool,
}

#[derive(clap::Args, Debug)]
pub struct AnswerArgs {
    /// The question or ticket: Q-001, TK-001, or its id
    id: String,
    /// The answer; of a ticket, how it was resolved
    answer: String,
    /// The project's name or id [default: the one of this repository, or the only one]
    #[arg(long)]
    project: Option<String>,
}

pub async fn inbox(context: &mut Context, args: &InboxArgs) -> Result<Exit, Failure> {
    let project = named(context, args.project.as_deref()).await?;
    let status = match (args.reports, args.all) {
        (true, _) => "reports",
        (_, true) => "all",
        _ => "open",
    };
    let arguments = json!({"project_id": project, "status": status});
    let questions = context.all_with("list_questions", "questions", &arguments).await?;
    if context.out.is_json() {
        context.out.json(&json!({"questions": questions}))?;
        return Ok(Exit::Done);
    }
    let projects: Vec<Value> = match project {
        Some(_) => Vec::new(),
        None => context.all("list_projects", "projects").await?,
    };
    let rows: Vec<Vec<String>> =
        questions.iter().map(|question| row(question, &projects)).collect();
    let mut columns = vec!["ID", "KIND", "STATUS", "PRIORITY", "TASK", "WHAT"];
    if projects.len() > 1 {
        columns.insert(0, "PROJECT");
    }
    let none = if args.all { "the inbox is empty" } else { "nothing in the inbox is open" };
    context.out.list(&columns, &rows, none)?;
    Ok(Exit::Done)
}

/// A row of the table; it begins with the project where there are several.
fn row(question: &Value, projects: &[Value]) -> Vec<String> {
    let mut row = Vec::new();
    if projects.len() > 1 {
        let its = projects.iter().find(|project| project["project_id"] == question["project_id"]);
        row.push(its.map_or("", |project| text(project, "name")).to_owned());
    }
    let status = match text(question, "status") {
        "unruled" => format!("answered by {}, unruled", text(question, "answered_by")),
        status => status.to_owned(),
    };
    let field = |field: &str| text(question, field).to_owned();
    row.extend([field("handle"), field("kind"), status, field("priority"), field("task_id")]);
    // One line, cut where it is seen to be cut.
    row.push(headline(&text(question, "question").replace('\n', " ⏎ "), QUESTION));
    row
}

pub async fn answer(context: &mut Context, args: &AnswerArgs) -> Result<Exit, Failure> {
    let project = match named(context, args.project.as_deref()).await? {
        // A handle is of the project in which it is typed, if it is typed in one.
        None if args.id.parse::<QuestionId>().is_err() => project::choose(context, None).await.ok(),
        named => named,
    };
    let arguments = json!({"question_id": args.id, "answer": args.answer, "project_id": project});
    let answered = match context.tool("answer_question", arguments).await {
        // The tool's own way out is for those who call it.
        Err(Failure::Client(ClientError::Refused(refusal)))
            if refusal.code == Some(Code::MissingRequired) =>
        {
            let id = harmless(&args.id);
            return Err(Failure::Usage(format!(
                "several projects have a {id}; name one with --project"
            )));
        }
        answered => answered?,
    };
    if context.out.is_json() {
        context.out.json(&answered)?;
    } else {
        context.out.line(&format!("{} answered", text(&answered, "handle")))?;
    }
    Ok(Exit::Done)
}

/// The project that was named, if one was: the inbox is of all.
async fn named(context: &mut Context, given: Option<&str>) -> Result<Option<String>, Failure> {
    match given {
        Some(given) => project::choose(context, Some(given)).await.map(Some),
        None => Ok(None),
    }
}
