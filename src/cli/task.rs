//! `provost task`: the tasks of a project, one by one or as a file.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::prelude::*;
use super::project::{ProjectArg, choose, choose_aloud};
use super::{brief, run};
use crate::api::worker::report::Reported;

/// The longest title in the table of an import, in characters.
const TITLE_MAX: usize = 60;

#[derive(clap::Subcommand, Debug)]
pub enum TaskCommand {
    /// Add a task; prints its handle
    Add(AddArgs),
    /// Start an attempt at a task; prints the attempt's id
    Start(StartArgs),
    /// Set a task to done
    Done(TaskArgs),
    /// Change a task's title, description, priority, status or dependencies
    Edit(EditArgs),
    /// Remove a task; its attempts stay readable
    Rm(TaskArgs),
    /// List a project's tasks
    List(ProjectArg),
    /// Show a task with its brief
    Show(TaskArgs),
    /// Add the tasks of a JSON or Markdown file: all of them, or none
    ///
    /// JSON: an array of objects, or {"tasks": [...]}. Each has a title, and optionally id,
    /// description, priority, dependencies (ids in the file, or handles) and the members of
    /// create_task's brief. Markdown: "## ID: Title" begins a task. A list of "- Priority: high",
    /// "- Depends on: ID, ID", "- Estimate: 2h", "- Complexity: hard" and "- Skills: A, B" may
    /// follow, and the sections "### Acceptance criteria", "### Requirements", "### Files" and
    /// "### Context". All other text is the description.
    Import(ImportArgs),
}

#[derive(clap::Args, Debug)]
pub struct AddArgs {
    /// The task's title
    title: String,
    /// What to do
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// low, medium, high or critical [default: medium]
    #[arg(long, value_name = "LEVEL", value_parser = ["low", "medium", "high", "critical"],
        hide_possible_values = true)]
    priority: Option<String>,
    /// A task that must be done first, by its handle or id; may be repeated
    #[arg(long, value_name = "TASK")]
    depends_on: Vec<String>,
    #[command(flatten)]
    project: ProjectArg,
}

#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true)
    .args(["title", "description", "priority", "status", "depends_on", "no_dependencies"]))]
pub struct EditArgs {
    #[command(flatten)]
    task: TaskArgs,
    /// The new title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The new description; an empty one removes it
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// low, medium, high or critical
    #[arg(long, value_name = "LEVEL", value_parser = ["low", "medium", "high", "critical"],
        hide_possible_values = true)]
    priority: Option<String>,
    /// todo, inprogress, inreview, done or cancelled
    #[arg(long, value_name = "STATUS", hide_possible_values = true,
        value_parser = ["todo", "inprogress", "inreview", "done", "cancelled"])]
    status: Option<String>,
    /// A task that must be done first, instead of the earlier ones; may be repeated
    #[arg(long, value_name = "TASK")]
    depends_on: Vec<String>,
    /// Depend on no task
    #[arg(long, conflicts_with = "depends_on")]
    no_dependencies: bool,
}

#[derive(clap::Args, Debug)]
pub struct TaskArgs {
    /// The task's handle (TASK-001), its id, or 8 or more characters of that
    task: String,
    #[command(flatten)]
    project: ProjectArg,
}

#[derive(clap::Args, Debug)]
pub struct StartArgs {
    #[command(flatten)]
    task: TaskArgs,
    /// The prompt for the agent [default: the task's title, description and brief]
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Start even if tasks that it depends on are not done
    #[arg(long)]
    ignore_dependencies: bool,
    #[command(flatten)]
    agent: run::AgentArgs,
}

#[derive(clap::Args, Debug)]
pub struct ImportArgs {
    /// The file; - is standard input
    file: PathBuf,
    #[command(flatten)]
    project: ProjectArg,
    /// Import the tasks again, even if the same file was imported before
    #[arg(long)]
    again: bool,
}

pub async fn task(context: &mut Context, command: TaskCommand) -> Result<Exit, Failure> {
    match command {
        TaskCommand::List(project) => list(context, project.name()).await,
        TaskCommand::Show(args) => show(context, &args).await,
        TaskCommand::Import(args) => import(context, &args).await,
        TaskCommand::Add(args) => add(context, args).await,
        TaskCommand::Start(args) => start(context, args).await,
        TaskCommand::Done(args) => done(context, &args).await,
        TaskCommand::Edit(args) => edit(context, &args).await,
        TaskCommand::Rm(args) => remove(context, &args).await,
    }
}

async fn add(context: &mut Context, args: AddArgs) -> Result<Exit, Failure> {
    let project = choose_aloud(context, args.project.name()).await?;
    let mut depends_on = Vec::with_capacity(args.depends_on.len());
    for name in &args.depends_on {
        depends_on.push(named(context, name, Some(&project.to_string())).await?);
    }
    let task = json!({"project_id": project, "title": args.title,
        "description": args.description, "priority": args.priority, "depends_on": depends_on});
    let task = context.call::<CreateTaskOutput>(task).await?;
    if !context.out.as_json(&json!({"task_id": task.task_id, "handle": task.handle}))? {
        context.out.line(&task.handle)?;
    }
    Ok(Exit::Done)
}

async fn start(context: &mut Context, args: StartArgs) -> Result<Exit, Failure> {
    let task = named(context, &args.task.task, args.task.project.name()).await?;
    let start = json!({"task_id": task, "prompt": args.prompt,
        "ignore_dependencies": args.ignore_dependencies});
    run::start(context, start, &args.agent).await
}

async fn done(context: &mut Context, args: &TaskArgs) -> Result<Exit, Failure> {
    let task = named(context, &args.task, args.project.name()).await?;
    let changed = context.call::<TaskOutput>(json!({"task_id": task, "status": "done"})).await?;
    context.show(&changed, |out, changed| {
        let TaskSummary { handle, title, .. } = &changed.task.summary;
        out.line(&format!("{handle} done: {title}"))
    })
}

/// `provost task edit`: changes only what is given. New dependencies replace all earlier ones.
async fn edit(context: &mut Context, args: &EditArgs) -> Result<Exit, Failure> {
    let project = args.task.project.name();
    let task = named(context, &args.task.task, project).await?;
    let mut change = json!({"task_id": task, "title": args.title,
        "description": args.description, "priority": args.priority, "status": args.status});
    if args.no_dependencies || !args.depends_on.is_empty() {
        let mut on = Vec::with_capacity(args.depends_on.len());
        for name in &args.depends_on {
            on.push(named(context, name, project).await?);
        }
        change["depends_on"] = json!(on);
    }
    let changed = context.call::<TaskOutput>(change).await?;
    context.show(&changed, |out, changed| {
        let TaskSummary { handle, title, .. } = &changed.task.summary;
        out.line(&format!("{handle} changed: {title}"))
    })
}

async fn remove(context: &mut Context, args: &TaskArgs) -> Result<Exit, Failure> {
    let task = named(context, &args.task, args.project.name()).await?;
    let removed = context.call::<DeleteTaskOutput>(json!({"task_id": task})).await?;
    context.show(&removed, |out, _| out.line(&format!("{} removed", args.task)))
}

/// A project's tasks, oldest first.
async fn tasks(
    context: &mut Context,
    project: ProjectId,
) -> Result<Vec<Answer<TaskSummary>>, Failure> {
    let mut tasks = context.all(json!({"project_id": project})).await?;
    tasks.reverse();
    Ok(tasks)
}

async fn list(context: &mut Context, project: Option<&str>) -> Result<Exit, Failure> {
    let project = choose(context, project).await?;
    let tasks = tasks(context, project).await?;
    let rows = tasks.iter().map(|task| {
        let title = headline(&task.title, usize::MAX);
        vec![task.handle.clone(), state(task), word(&task.priority), title]
    });
    let columns = [Whole("TASK"), Whole("STATUS"), Whole("PRIORITY"), Cut("TITLE")];
    let none = "there is no task yet; `provost task add TITLE` adds one";
    context.list(&json!({ "tasks": tasks }), &columns, rows, none)
}

/// A task's status, and after a report its review state.
fn state(task: &TaskSummary) -> String {
    let status = word(&task.status);
    task.standing.map_or_else(|| status.clone(), |review| format!("{status}, {}", word(&review)))
}

/// A task by its whole id, or in a project by its handle or a piece of its id. The project is chosen as
/// by [`choose`].
pub async fn named(
    context: &mut Context,
    name: &str,
    project: Option<&str>,
) -> Result<TaskId, Failure> {
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    let project = choose(context, project).await?;
    one_of(&tasks(context, project).await?, name)
}

fn one_of(tasks: &[Answer<TaskSummary>], name: &str) -> Result<TaskId, Failure> {
    let by_handle = tasks.iter().filter(|task| task.handle.eq_ignore_ascii_case(name));
    let id = |task: &Answer<TaskSummary>| task.task_id;
    by_name_or_id(by_handle.map(id), tasks.iter().map(id), name, "task")
}

async fn show(context: &mut Context, args: &TaskArgs) -> Result<Exit, Failure> {
    let project = choose(context, args.project.name()).await?;
    let tasks = tasks(context, project).await?;
    let id = one_of(&tasks, &args.task)?;
    let shown = context.call::<GetTaskOutput>(json!({"task_id": id})).await?;
    let brief = brief::lines(&shown.json["task"]["brief"]);
    context.show(&shown, |out, shown| {
        let (task, reported) = (&shown.task.task, &shown.task.reported);
        let summary = &task.summary;
        out.line(&format!("{}: {}", summary.handle, summary.title))?;
        let handle = |id: &TaskId| {
            let known = tasks.iter().find(|task| task.task_id == *id);
            known.map_or_else(|| id.to_string(), |task| task.handle.clone())
        };
        let on: Vec<String> = task.depends_on.iter().map(handle).collect();
        let mut facts = vec![state(summary), format!("priority {}", word(&summary.priority))];
        facts.extend((!on.is_empty()).then(|| format!("depends on {}", on.join(", "))));
        out.line(&facts.join("; "))?;
        if let Some(why) = &reported.reason {
            out.line(&format!("Why: {why}"))?;
        }
        let description = task.description.as_deref().unwrap_or_default();
        description.lines().try_for_each(|line| out.line(line))?;
        brief.iter().try_for_each(|line| out.line(line))?;
        show_reports(out, &summary.handle, reported)
    })
}

/// Prints the reports on a task, newest first; also those of verifications, which name another task.
fn show_reports(out: &mut Output, handle: &str, reported: &Reported) -> io::Result<()> {
    let Reported { reports, reports_total, .. } = reported;
    if !reports.is_empty() {
        out.line(&format!("Reports, newest first ({} of {reports_total}):", reports.len()))?;
    }
    for report in reports {
        let mut parts = vec![report.tool.clone()];
        parts.extend((report.task_id != handle).then(|| format!("of {}", report.task_id)));
        parts.extend((!report.handles.is_empty()).then(|| report.handles.join(", ")));
        let shortened = if report.truncated { " (shortened)" } else { "" };
        let parts = parts.join(" ");
        out.line(&format!("- {} {parts} by {}{shortened}", report.at, report.by))?;
        for line in brief::lines(&report.report) {
            out.line(&format!("    {line}"))?;
        }
        for warning in &report.warnings {
            out.line(&format!("    Warning: {warning}"))?;
        }
    }
    Ok(())
}

/// `provost task import`: the daemon reads the text, and adds all tasks or none.
async fn import(context: &mut Context, args: &ImportArgs) -> Result<Exit, Failure> {
    let text = read(&args.file)?;
    let format = format_of(&args.file, &text);
    let project_id = choose_aloud(context, args.project.name()).await?;
    let file =
        json!({"project_id": project_id, "text": text, "format": format, "again": args.again});
    let made = context.call::<ImportedTasks>(file).await?;
    context.show(&made, |out, made| {
        if made.imported_before {
            out.line("this file was imported before; --again imports it once more")?;
        }
        let row = |task: &ImportedTask| {
            let name = headline(task.name.as_deref().unwrap_or_default(), TITLE_MAX);
            vec![task.handle.clone(), name, headline(&task.title, TITLE_MAX)]
        };
        let columns = [Whole("TASK"), Cut("IN THE FILE"), Cut("TITLE")];
        out.list(&columns, made.tasks.iter().map(row), "the file holds no task")
    })
}

fn read(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = match file.to_str() {
        Some("-") => io::stdin().read_to_string(&mut text).map(|_| text),
        _ => std::fs::read_to_string(file),
    };
    let text = read.map_err(|error| {
        Failure::Usage(format!("{} can't be read: {error}", harmless(&file.to_string_lossy())))
    })?;
    // Some editors begin a file with a byte order mark.
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

/// The format by the file's ending; without a known one, by the first character.
fn format_of(file: &Path, text: &str) -> &'static str {
    let is_named = |name: &str| file.extension().is_some_and(|it| it.eq_ignore_ascii_case(name));
    let looks_like_json = text.trim_start().starts_with(['[', '{']);
    let is_json = is_named("json") || (looks_like_json && !is_named("md"));
    if is_json { "json" } else { "markdown" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_or_else_the_beginning_decides_the_format() {
        for (name, text, expected) in [
            ("a.json", "", "json"),
            ("a.JSON", "# x", "json"),
            ("a.md", "[x] y", "markdown"),
            ("-", " {\"tasks\": []}", "json"),
            ("-", "# Plan", "markdown"),
            ("plan.txt", "[]", "json"),
        ] {
            assert_eq!(format_of(Path::new(name), text), expected, "{name}");
        }
    }
}
