//! `provost task`: the tasks of a project, and tasks from a file.

use std::io::Read;
use std::path::{Path, PathBuf};

use provost_actors::ids::TaskId;
use serde_json::{Value, json};

use super::brief;
use super::context::{Context, check_piece, only, text};
use super::exit::{Exit, Failure};
use super::output::{harmless, headline};
use super::project::choose;

/// The longest title in a table, in characters.
const TITLE_MAX: usize = 60;

#[derive(clap::Subcommand, Debug)]
pub enum TaskCommand {
    /// List a project's tasks
    List {
        /// The project's name, or 8 or more characters of its id
        #[arg(long)]
        project: Option<String>,
    },
    /// Show a task with its brief
    Show {
        /// The task's handle (TASK-001), its id, or 8 or more characters of that
        task: String,
        /// The project's name, or 8 or more characters of its id
        #[arg(long)]
        project: Option<String>,
    },
    /// Put the tasks of a JSON or Markdown file on the board: all of them, or none
    ///
    /// JSON: an array of objects, or {"tasks": [...]}, each with title and, if you like, id,
    /// description, priority, dependencies (ids of the file, or handles) and what create_task
    /// takes as brief. Markdown: "## ID: Title" begins a task; a list of "- Priority: high",
    /// "- Depends on: ID, ID", "- Estimate: 2h", "- Complexity: hard" and "- Skills: A, B" may
    /// follow; "### Acceptance criteria", "### Requirements", "### Files" and "### Context" are
    /// its sections, and all other text is its description.
    Import {
        /// The file; - is standard input
        file: PathBuf,
        /// The project's name, or 8 or more characters of its id
        #[arg(long)]
        project: Option<String>,
        /// Import the tasks even if this very file was imported before
        #[arg(long)]
        again: bool,
    },
}

pub async fn task(context: &mut Context, command: TaskCommand) -> Result<Exit, Failure> {
    match command {
        TaskCommand::List { project } => list(context, project.as_deref()).await,
        TaskCommand::Show { task, project } => show(context, &task, project.as_deref()).await,
        TaskCommand::Import { file, project, again } => {
            import(context, &file, project.as_deref(), again).await
        }
    }
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
        let title = headline(text(task, "title"), TITLE_MAX);
        vec![text(task, "handle").to_owned(), state(task), text(task, "priority").to_owned(), title]
    };
    let rows: Vec<Vec<String>> = tasks.iter().map(row).collect();
    context.out.table(&["TASK", "STATUS", "PRIORITY", "TITLE"], &rows)?;
    Ok(Exit::Done)
}

/// Its status, and what the last report made of it.
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
        Err(_) => Vec::new(),
    };
    only(&ids, &harmless(name), "task")
}

async fn show(context: &mut Context, name: &str, project: Option<&str>) -> Result<Exit, Failure> {
    let tasks = tasks(context, project).await?;
    let id = one_of(&tasks, name)?;
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

async fn import(
    context: &mut Context,
    file: &Path,
    project: Option<&str>,
    again: bool,
) -> Result<Exit, Failure> {
    let text_of_file = read(file)?;
    let format = format_of(file, &text_of_file);
    let project_id = choose(context, project).await?;
    let params = json!({
        "project_id": project_id, "text": text_of_file, "format": format, "again": again,
    });
    let made = context.client().await?.method("provost/import_tasks", params).await?;
    if context.out.is_json() {
        context.out.json(&made)?;
        return Ok(Exit::Done);
    }
    if made["imported_before"] == true {
        let note = "this file was imported before; --again imports it once more";
        context.out.line(note)?;
    }
    let tasks = made["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let row = |task: &Value| {
        let name = headline(text(task, "name"), TITLE_MAX);
        vec![text(task, "handle").to_owned(), name, headline(text(task, "title"), TITLE_MAX)]
    };
    let rows: Vec<Vec<String>> = tasks.iter().map(row).collect();
    context.out.table(&["TASK", "IN THE FILE", "TITLE"], &rows)?;
    Ok(Exit::Done)
}

fn read(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = match file.to_str() {
        Some("-") => std::io::stdin().read_to_string(&mut text).map(|_| text),
        _ => std::fs::read_to_string(file),
    };
    // What some editors begin a file with.
    let read = read.map(|text| text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text));
    read.map_err(|error| {
        Failure::Usage(format!("{} can't be read: {error}", harmless(&file.to_string_lossy())))
    })
}

/// What the file's name says that it is, or else its beginning.
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
    fn a_files_name_says_what_it_is_or_else_its_beginning() {
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
