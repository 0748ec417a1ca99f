//! `provost inbox` and `provost answer`: what waits for a decision. Approvals are listed here too, and
//! decided with `provost approve`.

use provost_actors::ids::QuestionId;

use super::approvals;
use super::prelude::*;
use super::project::{ProjectArg, choose};

/// The longest piece of a question in the table, in characters.
const QUESTION: usize = 200;

#[derive(clap::Args, Debug)]
pub struct InboxArgs {
    /// Only this project's: its name or id
    #[arg(long)]
    project: Option<String>,
    /// Include answered ones
    #[arg(long)]
    all: bool,
    /// Instead, the observations, issues and test failures that workers reported
    #[arg(long, conflicts_with = "all")]
    reports: bool,
}

#[derive(clap::Args, Debug)]
pub struct AnswerArgs {
    /// The question or ticket: Q-001, TK-001, or its id; the id of an agent's own question
    id: String,
    /// The answer; for a ticket, how it was resolved
    answer: String,
    #[command(flatten)]
    project: ProjectArg,
}

/// `provost inbox`. Approvals are listed only without `--project` and `--reports`: they name no project.
pub async fn inbox(context: &mut Context, args: &InboxArgs) -> Result<Exit, Failure> {
    let project = named(context, args.project.as_deref()).await?;
    let status = match (args.reports, args.all) {
        (true, _) => "reports",
        (_, true) => "all",
        _ => "open",
    };
    let asked = json!({"project_id": project, "status": status});
    let questions = context.all::<QuestionSummary>(asked).await?;
    let approvals = match (&project, args.reports) {
        (None, false) => {
            let status = if args.all { "all" } else { "open" };
            context.all::<ApprovalSummary>(json!({"status": status})).await?
        }
        _ => Vec::new(),
    };
    if context.out.as_json(&json!({ "approvals": approvals, "questions": questions }))? {
        return Ok(Exit::Done);
    }
    let projects = match project {
        Some(_) => Vec::new(),
        None => context.all::<ProjectSummary>(json!({})).await?,
    };
    let mut columns = vec!["ID", "KIND", "STATUS", "PRIORITY", "TASK", "WHAT"];
    if projects.len() > 1 {
        columns.insert(0, "PROJECT");
    }
    let none = if args.all { "the inbox is empty" } else { "nothing in the inbox is open" };
    let permissions = approvals.iter().map(|it| permission(it, projects.len() > 1));
    let rows = permissions.chain(questions.iter().map(|it| row(it, &projects)));
    context.out.list(&columns, rows, none)?;
    Ok(Exit::Done)
}

/// The row of an approval; its project's cell is empty.
fn permission(approval: &ApprovalSummary, has_project: bool) -> Vec<String> {
    let mut row = if has_project { vec![String::new()] } else { Vec::new() };
    row.extend([
        approval.approval_id.short(),
        if approval.question.is_some() { "question" } else { "approval" }.to_owned(),
        word(&approval.status),
        String::new(),
        String::new(),
        headline(&one_line(&approval.text), QUESTION),
    ]);
    row
}

/// The row of a question or ticket; it begins with the project if there are several.
fn row(question: &QuestionSummary, projects: &[Answer<ProjectSummary>]) -> Vec<String> {
    let mut row = Vec::new();
    if projects.len() > 1 {
        let its = projects.iter().find(|it| it.project_id.to_string() == question.project_id);
        row.push(its.map(|project| project.name.clone()).unwrap_or_default());
    }
    let status = match (question.status, &question.answered_by) {
        (QuestionStatus::Unruled, Some(by)) => format!("answered by {by}, unruled"),
        (status, _) => word(&status),
    };
    row.extend([
        question.handle.clone(),
        word(&question.kind),
        status,
        word(&question.priority),
        question.task_id.clone().unwrap_or_default(),
        headline(&one_line(&question.question), QUESTION),
    ]);
    row
}

/// `provost answer`: of an agent's own question, of a worker's question, or of a ticket. Usage error if
/// several projects have the handle.
pub async fn answer(context: &mut Context, args: &AnswerArgs) -> Result<Exit, Failure> {
    // An agent's own question is an approval, and its id is not that of a worker's question.
    if let Some(id) = approvals::question(context, &args.id).await? {
        let answer = json!({"approval_id": id, "answer": args.answer});
        let done = context.call::<RespondApprovalOutput>(answer).await?;
        return context.show(&done, |out, _| out.line(&format!("{} answered", id.short())));
    }
    let project = match named(context, args.project.name()).await? {
        // A handle is looked up in the project of the working directory, if there is one.
        None if args.id.parse::<QuestionId>().is_err() => choose(context, None).await.ok(),
        named => named,
    };
    let answer = json!({"question_id": args.id, "answer": args.answer, "project_id": project});
    let answered = context.call::<AnswerQuestionOutput>(answer).await.map_err(|failure| {
        // The tool's hint names a field; a person needs the flag.
        match failure {
            Failure::Client(ClientError::Refused(refusal))
                if refusal.code == Some(Code::MissingRequired) =>
            {
                let id = harmless(&args.id);
                Failure::Usage(format!("several projects have a {id}; name one with --project"))
            }
            failure => failure,
        }
    })?;
    context.show(&answered, |out, it| out.line(&format!("{} answered", it.handle)))
}

/// The given project; `None` for all projects, also inside of a repository.
async fn named(context: &mut Context, given: Option<&str>) -> Result<Option<ProjectId>, Failure> {
    match given {
        Some(_) => choose(context, given).await.map(Some),
        None => Ok(None),
    }
}
