//! `provost task import`: the tasks of a file, all of them or none.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::context::{Context, text};
use super::exit::{Exit, Failure};
use super::output::{harmless, headline};
use super::project::choose_aloud;
use super::table::{cut, whole};

/// The longest title in a table, in characters.
const TITLE_MAX: usize = 60;

#[derive(clap::Args, Debug)]
pub struct ImportArgs {
    /// The file; - is standard input
    file: PathBuf,
    /// The project's name, or 8 or more characters of its id
    #[arg(long)]
    project: Option<String>,
    /// Import the tasks even if this very file was imported before
    #[arg(long)]
    again: bool,
}

pub async fn import(context: &mut Context, args: &ImportArgs) -> Result<Exit, Failure> {
    let text_of_file = read(&args.file)?;
    let format = format_of(&args.file, &text_of_file);
    let project_id = choose_aloud(context, args.project.as_deref()).await?;
    let params = json!({
        "project_id": project_id, "text": text_of_file, "format": format, "again": args.again,
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
    let columns = [whole("TASK"), cut("IN THE FILE"), cut("TITLE")];
    context.out.list(&columns, &rows, "the file holds no task")?;
    Ok(Exit::Done)
}

fn read(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = match file.to_str() {
        Some("-") => std::io::stdin().read_to_string(&mut text).map(|_| text),
        _ => std::fs::read_to_string(file),
    };
    // The byte order mark that some editors write.
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
