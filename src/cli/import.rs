//! `provost task import`: adds the tasks of a file, all of them or none.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::project::{ProjectArg, choose_aloud};
use super::table::Column::{Cut, Whole};
use super::text::{harmless, headline};
use super::{Context, Exit, Failure};
use crate::api::commands::{ImportedTask, ImportedTasks};

/// The longest title in a table, in characters.
const TITLE_MAX: usize = 60;

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

pub async fn import(context: &mut Context, args: &ImportArgs) -> Result<Exit, Failure> {
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
        Some("-") => std::io::stdin().read_to_string(&mut text).map(|_| text),
        _ => std::fs::read_to_string(file),
    };
    let text = read.map_err(|error| {
        Failure::Usage(format!("{} can't be read: {error}", harmless(&file.to_string_lossy())))
    })?;
    // Some editors write a byte order mark.
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

/// The format by the file's name, or else by its beginning.
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
