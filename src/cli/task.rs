//! `provost task`: the tasks of a project, from their first line to their end.

use provost_actors::ids::TaskId;
use serde_json::{Value, json};

use super::context::{Context, check_piece, not_found, only, text};
use super::exit::{Exit, Failure};
use super::output::harmless;
use super::project::{choose, choose_aloud};
use super::table::{cut, whole};
use super::{brief, import, run};

#[derive(clap::Subcommand, Debug)]
pub enum TaskCommand {
    /// Add a task; prints its handle
    Add(AddArgs),
    /// Start an attempt at a task; prints the attempt's id
    Start(StartArgs),
    /// Set a task to done
    Done(TaskArgs),
    /// Remove a task; its attempts stay readable
    Rm(TaskArgs),
    /// List a project's tasks
    List {
        /// The project's name, or 8 or more characters of its id
        #[arg(long)]
        project: Option<String>,
    },
    /// Show a task with its brief
    Show(TaskArgs),
    /// Add the tasks of a JSON or Markdown file: all of them, or none
    ///
    /// JSON: an array of objects, or {"tasks": [...]}, each with title and, if you like, id,
    /// description, priority, dependencies (ids of the file, or handles) and what create_task
    /// takes as brief. Markdown: "## ID: Title" begins a task; a list of "- Priority: high",
    /// "- Depends on: ID, ID", "- Estimate: 2h", "- Complexity: hard" and "- Skills: A, B" may
    /// follow; "### Acceptance criteria", "### Requirements", "### Files" and "### Context" are
    /// its sections, and all other text is its description.
    Import(import::ImportArgs),
}

#[derive(clap::Args, Debug)]
pub struct AddArgs {
    /// The task's title
    title: String,
    /// What is to be done
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// low, medium, high or critical [default: medium]
    #[arg(long, value_name = "LEVEL", value_parser = ["low", "medium", "high", "critical"],
        hide_possible_values = true)]
    priority: Option<String>,
    /// A task that must be done first, by its handle or id; may be repeated
    #[arg(long, value_name = "TASK")]
    depends_on: Vec<String>,
    /// A project's name or id [default: the one of this repository, or the only one]
    #[arg(long)]
    project: Option<String>,
}

#[derive(clap::Args, Debug)]
pub struct TaskArgs {
    /// The task's handle (TASK-001), its id, or 8 or more characters of that
    task: String,
    /// The project's name, or 8 or more characters of its id
    #[arg(long)]
    project: Option<String>,
}

#[derive(clap::Args, Debug)]
pub struct StartArgs {
    #[command(flatten)]
    task: TaskArgs,
    /// What the agent is told [default: the task's title, description and brief]
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Start even though tasks that it depends on are not done
    #[arg(long)]
    ignore_dependencies: bool,
    #[command(flatten)]
    agent: run::AgentArgs,
}

pub async fn task(context: &mut Context, command: TaskCommand) -> Result<Exit, Failure> {
    match command {
        TaskCommand::List { project } => list(context, project.as_deref()).await,
        TaskCommand::Show(args) => show(context, &args).await,
        TaskCommand::Import(args) => import::import(context, &args).await,
        TaskCommand::Add(args) => add(context, args).await,
        TaskCommand::Start(args) => start(context, args).await,
        TaskCommand::Done(args) => done(context, &args).await,
        TaskCommand::Rm(args) => remove(context, &args).await,
    }
}

async fn add(context: &mut Context, args: AddArgs) -> Result<Exit, Failure> {
    let project = choose_aloud(context, args.project.as_deref()).await?;
    let mut depends_on = Vec::with_capacity(args.depends_on.len());
    for name in &args.depends_on {
        depends_on.push(named(context, name, Some(&project)).await?);
    }
    let task = json!({"project_id": project, "title": args.title,
        "description": args.description, "priority": args.priority, "depends_on": depends_on});
    let task = context.tool("create_task", without_nulls(task)).await?;
    let made = context.read("get_task", &json!({"task_id": task["task_id"]})).await?;
    let handle = text(&made["task"], "handle");
    if context.out.is_json() {
        context.out.json(&json!({"task_id": task["task_id"], "handle": handle}))?;
    } else {
        context.out.line(handle)?;
    }
    Ok(Exit::Done)
}

/// What was not given is left to the tool's defaults.
fn without_nulls(mut arguments: Value) -> Value {
    if let Value::Object(members) = &mut arguments {
        members.retain(|_, value| !value.is_null());
    }
    arguments
}

async fn start(context: &mut Context, args: StartArgs) -> Result<Exit, Failure> {
    let task = named(context, &args.task.task, args.task.project.as_deref()).await?;
    let start = json!({"task_id": task, "prompt": args.prompt,
        "ignore_dependencies": args.ignore_dependencies});
    run::start(context, without_nulls(start), &args.agent).await
}

async fn done(context: &mut Context, args: &TaskArgs) -> Result<Exit, Failure> {
    let task = named(context, &args.task, args.project.as_deref()).await?;
    let changed = context.tool("update_task", json!({"task_id": task, "status": "done"})).await?;
    if context.out.is_json() {
        context.out.json(&changed)?;
    } else {
        let task = &changed["task"];
        let line = format!("{} done: {}", text(task, "handle"), text(task, "title"));
        context.out.line(&harmless(&line))?;
    }
    Ok(Exit::Done)
}

async fn remove(context: &mut Context, args: &TaskArgs) -> Result<Exit, Failure> {
    let task = named(context, &args.task, args.project.as_deref()).await?;
    let removed = context.tool("delete_task", json!({"task_id": task})).await?;
    if context.out.is_json() {
        context.out.json(&removed)?;
    } else {
        context.out.line(&format!("{} removed", harmless(&args.task)))?;
    }
    Ok(Exit::Done)
}

/// A project's tasks, oldest first.
async fn tasks(context: &mut Context, project: Option<&str>) -> Result<Vec<Value>, Failure> {
    let project = choose(context, project).await?;
    let with = json!({"project_id": project});
    let mut tasks = context.all_with("list_tasks", "tasks", &with).await?;
    tasks.reverse();
    Ok(tasks)
}

async fn list(context: &mut Context, project: Option<&str>) -> Result<Exit, Failure> {
    let tasks = tasks(context, project).await?;
    if context.out.is_json() {
        context.out.json(&json!({"tasks": tasks}))?;
        return Ok(Exit::Done);
    }
    let row = |task: &Value| {
        let title = text(task, "title").lines().next().unwrap_or_default().to_owned();
        vec![text(task, "handle").to_owned(), state(task), text(task, "priority").to_owned(), title]
    };
    let rows: Vec<Vec<String>> = tasks.iter().map(row).collect();
    let columns = [whole("TASK"), whole("STATUS"), whole("PRIORITY"), cut("TITLE")];
    context.out.list(&columns, &rows, "there is no task yet; `provost task add TITLE` adds one")?;
    Ok(Exit::Done)
}

/// Its status, and its standing after the last report.
fn state(task: &Value) -> String {
    match text(task, "standing") {
        "" => text(task, "status").to_owned(),
        standing => format!("{}, {standing}", text(task, "status")),
    }
}

/// The id of a project's task, by its handle or a piece of its id.
pub async fn named(
    context: &mut Context,
    name: &str,
    project: Option<&str>,
) -> Result<String, Failure> {
    match name.parse::<TaskId>() {
        Ok(whole) => Ok(whole.to_string()),
        Err(_) => one_of(&tasks(context, project).await?, name).map(str::to_owned),
    }
}

fn one_of<'t>(tasks: &'t [Value], name: &str) -> Result<&'t str, Failure> {
    let ids: Vec<&str> = match check_piece(name) {
        _ if tasks.iter().any(|task| text(task, "handle").eq_ignore_ascii_case(name)) => {
            let is_it = |task: &&Value| text(task, "handle").eq_ignore_ascii_case(name);
            tasks.iter().filter(is_it).map(|task| text(task, "task_id")).collect()
        }
        Ok(piece) => {
            let ids = tasks.iter().map(|task| text(task, "task_id"));
            ids.filter(|id| id.starts_with(&piece) || id.ends_with(&piece)).collect()
        }
        Err(_) => {
            return Err(not_found("task", format!("there is no task {}", harmless(name))));
        }
    };
    only(&ids, &harmless(name), "task")
}

async fn show(context: &mut Context, args: &TaskArgs) -> Result<Exit, Failure> {
    let tasks = tasks(context, args.project.as_deref()).await?;
    let id = one_of(&tasks, &args.task)?;
    let shown = context.read("get_task", &json!({"task_id": id})).await?;
    if context.out.is_json() {
        context.out.json(&shown)?;
        return Ok(Exit::Done);
    }
    let task = &shown["task"];
    let heading = format!("{}: {}", text(task, "handle"), text(task, "title"));
    context.out.line(&harmless(&heading))?;
    let handle = |id: &Value| {
        let known = tasks.iter().find(|task| task["task_id"] == *id);
        known.map_or_else(|| id.to_string(), |task| text(task, "handle").to_owned())
    };
    let on = task["depends_on"].as_array().into_iter().flatten().map(handle);
    let on = on.collect::<Vec<_>>().join(", ");
    let mut facts = vec![state(task), format!("priority {}", text(task, "priority"))];
    facts.extend((!on.is_empty()).then(|| format!("depends on {on}")));
    context.out.line(&facts.join("; "))?;
    let why = text(task, "reason");
    if !why.is_empty() {
        context.out.line(&harmless(&format!("Why: {why}")))?;
    }
    for line in text(task, "description").lines() {
        context.out.line(&harmless(line))?;
    }
    for line in brief::lines(&task["brief"]).into_iter().chain(reports(task)) {
        context.out.line(&harmless(&line))?;
    }
    Ok(Exit::Done)
}

/// What was reported on a task, newest first, as lines.
fn reports(task: &Value) -> Vec<String> {
    let shown = task["reports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut lines = Vec::new();
    if !shown.is_empty() {
        let total = &task["reports_total"];
        lines.push(format!("Reports, newest first ({} of {total}):", shown.len()));
    }
    for report in shown {
        let mut parts = vec![text(report, "tool").to_owned()];
        if report["task_id"] != task["handle"] {
            parts.push(format!("of {}", text(report, "task_id")));
        }
        let handles = report["handles"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let handles = handles.collect::<Vec<_>>().join(", ");
        parts.extend(Some(handles).filter(|handles| !handles.is_empty()));
        parts.push(format!("by {}", text(report, "by")));
        let shortened = if report["truncated"] == true { " (shortened)" } else { "" };
        lines.push(format!("- {} {}{shortened}", text(report, "at"), parts.join(" ")));
        lines.extend(brief::lines(&report["report"]).into_iter().map(|line| format!("    {line}")));
        let warnings = report["warnings"].as_array().into_iter().flatten();
        let warnings = warnings.filter_map(Value::as_str);
        lines.extend(warnings.map(|warning| format!("    Warning: {warning}")));
    }
    lines
}
