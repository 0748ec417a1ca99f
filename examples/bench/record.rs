//! Keeps a run: its table in `docs/performance.md`, and a line of JSON in the history.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use chrono::{SecondsFormat, Utc};
use serde::Serialize;

use crate::Result;
use crate::scratch::command;
use crate::table::{Row, table};

const PAGE: &str = "performance.md";
const HISTORY: &str = "performance/history.jsonl";
/// What the table stands between in the page.
const MARKS: [&str; 2] = ["<!-- measured -->\n", "<!-- end of measured -->"];

/// A line of the history.
#[derive(Serialize)]
struct Run<'a> {
    at: String,
    /// The commit that was measured, with `-dirty` if files differ from it.
    commit: String,
    cores: usize,
    rows: &'a [Row],
}

/// Writes the rows into the page and the history in the folder `docs`.
pub fn keep(docs: &Path, rows: &[Row]) -> Result<()> {
    let page = docs.join(PAGE);
    let text = fs::read_to_string(&page)?;
    let commit = command("git").args(["describe", "--always", "--dirty"]).output()?.stdout;
    let run = Run {
        at: Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true),
        commit: String::from_utf8(commit)?.trim().to_owned(),
        cores: std::thread::available_parallelism()?.get(),
        rows,
    };
    let mut history = File::options().append(true).create(true).open(docs.join(HISTORY))?;
    writeln!(history, "{}", serde_json::to_string(&run)?)?;
    let Run { at, commit, cores, .. } = &run;
    let results = format!("Measured at {at} on {cores} cores, commit {commit}.\n\n{}", table(rows));
    Ok(fs::write(&page, between(&text, &results).ok_or("the page has lost its marks")?)?)
}

/// The text with something else between the marks.
fn between(text: &str, new: &str) -> Option<String> {
    let (before, rest) = text.split_once(MARKS[0])?;
    let (_, after) = rest.split_once(MARKS[1])?;
    Some([before, MARKS[0], new, MARKS[1], after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_takes_the_place_of_the_former() {
        let page = |table: &str| ["before\n", MARKS[0], table, MARKS[1], "\nafter"].concat();
        assert_eq!(between(&page("| old |\n"), "| new |\n"), Some(page("| new |\n")));
        assert_eq!(between("no marks", "| new |\n"), None);
    }
}
