//! `provost diff`: what an attempt changed, as a patch while that is short enough to
//! read, else as a table of the files.

use anstyle::{AnsiColor, Style};
use provost_actors::workspace::quote;
use serde_json::{Value, json};

use super::context::{Context, text};
use super::exit::{Exit, Failure};
use super::hints;
use super::output::{Output, harmless};

/// The most paths that one patch is asked for.
const PATHS_MAX: usize = 100;

/// Bytes of patch to ask for: what the daemon gives unless it was told otherwise.
const PATCH_BYTES: u64 = 2_097_152;

#[derive(clap::Args, Debug)]
pub struct DiffArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
    /// Only these files, as --stat lists them; a path that git would quote may be quoted
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
    /// Print the table of changed files, even if the patch is short
    #[arg(long, conflicts_with = "paths")]
    stat: bool,
}

/// With `--json`: the patch where paths are given, else the changes.
pub async fn diff(context: &mut Context, args: &DiffArgs) -> Result<Exit, Failure> {
    let attempt = context.attempt(&args.attempt).await?;
    if !args.paths.is_empty() {
        let patch = patch(context, &attempt, &args.paths).await?;
        return show_patch(&mut context.out, &patch);
    }
    let changes = json!({"attempt_id": attempt, "force": true});
    let changes = context.read("get_attempt_changes", &changes).await?;
    if context.out.is_json() {
        context.out.json(&changes)?;
        return Ok(Exit::Done);
    }
    let files = changes["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !args.stat && (1..=PATHS_MAX).contains(&files.len()) {
        let paths: Vec<String> = files.iter().map(|file| text(file, "path").to_owned()).collect();
        let patch = patch(context, &attempt, &paths).await?;
        if patch["blocked"] == false && patch["truncated"] == false {
            return show_patch(&mut context.out, &patch);
        }
    }
    if !files.is_empty() {
        let rows: Vec<Vec<String>> = files.iter().map(row).collect();
        context.out.table(&["STATUS", "ADDED", "DELETED", "FILE"], &rows)?;
    }
    context.out.line(&total(&changes["summary"]))?;
    show_hint(&changes);
    Ok(Exit::Done)
}

async fn patch(context: &mut Context, attempt: &str, paths: &[String]) -> Result<Value, Failure> {
    let mut arguments = json!({"attempt_id": attempt, "paths": paths, "max_bytes": PATCH_BYTES});
    let patch = context.read("get_attempt_patch", &arguments).await?;
    if text(&patch, "blocked_reason") != "size_exceeded" {
        return Ok(patch);
    }
    // The daemon's limit is lower: as much as it gives unasked.
    arguments["max_bytes"] = Value::Null;
    context.read("get_attempt_patch", &arguments).await
}

fn show_patch(out: &mut Output, patch: &Value) -> Result<Exit, Failure> {
    if out.is_json() {
        out.json(patch)?;
    } else if out.is_terminal() {
        for line in text(patch, "patch").lines() {
            let painted = out.paint(style(line), &harmless(line));
            out.line(&painted)?;
        }
    } else {
        out.raw(text(patch, "patch"))?;
    }
    show_hint(patch);
    Ok(if patch["blocked"] == true { Exit::Refused } else { Exit::Done })
}

/// What is missing from an answer is told beside it.
fn show_hint(answer: &Value) {
    let hint = hints::for_person(text(answer, "hint"), "diff");
    if !hint.is_empty() {
        anstream::eprintln!("hint: {}", harmless(&hint));
    }
}

fn row(file: &Value) -> Vec<String> {
    let count = |key: &str| file[key].as_u64().unwrap_or_default().to_string();
    vec![
        text(file, "status").to_owned(),
        count("added"),
        count("deleted"),
        shown(text(file, "path")),
    ]
}

/// A path that stays on its line and can be given as PATH: as git quotes it, where
/// it is not harmless as it is.
fn shown(path: &str) -> String {
    let is_plain = harmless(path) == path && !path.contains('\t');
    if is_plain { path.to_owned() } else { quote::quoted(path.as_bytes()) }
}

fn total(summary: &Value) -> String {
    let count = |key: &str| summary[key].as_u64().unwrap_or_default();
    let files = count("file_count");
    let plural = if files == 1 { "" } else { "s" };
    let (added, deleted, bytes) = (count("added"), count("deleted"), count("total_bytes"));
    format!("{files} file{plural} changed, {added} lines added, {deleted} deleted, {bytes} bytes")
}

fn style(line: &str) -> Style {
    let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    let is_head =
        ["diff --git ", "index ", "--- ", "+++ "].iter().any(|head| line.starts_with(head));
    match line.as_bytes().first() {
        _ if is_head => Style::new().bold(),
        Some(b'+') => colour(AnsiColor::Green),
        Some(b'-') => colour(AnsiColor::Red),
        Some(b'@') => colour(AnsiColor::Cyan),
        _ => Style::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_a_line() {
        let summary = json!({"file_count": 1, "added": 2, "deleted": 3, "total_bytes": 4});
        assert_eq!(total(&summary), "1 file changed, 2 lines added, 3 deleted, 4 bytes");
    }

    #[test]
    fn a_path_is_quoted_where_a_line_can_not_bear_it() {
        assert_eq!(shown("app/ä b"), "app/ä b");
        assert_eq!(shown("app/a\tb"), r#""app/a\011b""#);
        assert_eq!(shown("app/\u{1b}[31m\n"), r#""app/\033[31m\012""#);
    }

    #[test]
    fn each_kind_of_line_has_its_colour() {
        let same = |one, other| style(one) == style(other);
        assert!(same("+++ b/x", "diff --git a/x b/x") && !same("+++ b/x", "+x"));
        assert!(!same("+x", "-x") && !same("-x", " x") && !same("@@ -1 +1 @@", " x"));
    }
}
