//! `provost audit`: who changed what, when and from where. It reads the log's files in the home, and
//! needs no daemon.

use std::collections::BTreeMap;
use std::path::PathBuf;

use uuid::Uuid;

use super::prelude::*;
use crate::audit::{self, Line};

#[derive(clap::Args, Debug)]
pub struct AuditArgs {
    /// How many of the newest changes to print
    #[arg(short = 'n', long, default_value_t = 50, value_name = "COUNT")]
    limit: usize,
    /// All changes
    #[arg(short, long)]
    all: bool,
}

/// Prints the newest changes, oldest first. Newer files are read first, and only until there are
/// enough changes, because full files are large.
pub fn audit(context: &mut Context, args: &AuditArgs) -> Result<Exit, Failure> {
    let limit = if args.all { usize::MAX } else { args.limit };
    let (mut changes, mut ends) = (Vec::new(), BTreeMap::new());
    for file in files(context)?.into_iter().rev() {
        read(&std::fs::read_to_string(file)?, &mut ends, &mut changes);
        if changes.len() >= limit {
            break;
        }
    }
    changes.truncate(limit);
    changes.reverse();
    let json: Vec<Value> = changes.iter().map(Change::to_json).collect();
    if context.out.as_json(&json!({"changes": json}))? {
        return Ok(Exit::Done);
    }
    let columns =
        [Whole("AT"), Whole("WHO"), Whole("WHAT"), Whole("OUTCOME"), Cut("FROM"), Cut("OF")];
    let rows = changes.iter().map(Change::row);
    context.out.list(&columns, rows, "nothing has been changed yet")?;
    Ok(Exit::Done)
}

/// The log's files, oldest first: the full ones, then the current one.
fn files(context: &mut Context) -> Result<Vec<PathBuf>, Failure> {
    let dir = context.home()?.data_dir.clone();
    let mut files: Vec<PathBuf> = std::fs::read_dir(&dir)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let stem = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            stem.starts_with("audit-") && path.extension().is_some_and(|it| it == "jsonl")
        })
        .collect();
    // A full file's name has the time at which it was full.
    files.sort();
    files.extend(Some(dir.join(audit::FILE)).filter(|path| path.exists()));
    Ok(files)
}

/// A change: the line of its beginning, and its outcome. `None`: no line of its end was found.
struct Change {
    begin: Line,
    outcome: Option<String>,
}

impl Change {
    fn to_json(&self) -> Value {
        let mut json = json!(self.begin);
        json["outcome"] = json!(self.outcome);
        json
    }

    fn row(&self) -> Vec<String> {
        let Line::Begin { at, who, from, what, of, .. } = &self.begin else { return Vec::new() };
        let of = of.iter().map(|(name, id)| format!("{name}={}", id.as_str().unwrap_or_default()));
        let outcome = self.outcome.as_deref().unwrap_or("cut off");
        let of = of.collect::<Vec<_>>().join(" ");
        [&at.to_string(), who, what, outcome, from, &of].map(str::to_owned).to_vec()
    }
}

/// Adds the changes that begin in a file, newest first. `ends` has the outcomes of changes whose beginning
/// was not read yet: it can be in an older file, because a log is renamed when it is full. Lines that can't
/// be read are skipped: a full disk can cut one.
fn read(text: &str, ends: &mut BTreeMap<Uuid, String>, changes: &mut Vec<Change>) {
    for line in text.lines().rev().filter_map(|line| serde_json::from_str(line).ok()) {
        match line {
            Line::Begin { change, .. } => {
                changes.push(Change { begin: line, outcome: ends.remove(&change) });
            }
            Line::End { change, outcome, .. } => {
                ends.insert(change, outcome);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_its_outcome_or_was_cut_off() {
        let text = r#"{"at":"2026-01-02T03:04:05.000Z","change":"0192f0c1-2345-7abc-8def-0123456789ab","who":"ana","from":"127.0.0.1:9","what":"stop_attempt","of":{"attempt_id":"x"}}
{"at":"2026-01-02T03:04:05.000Z","change":"0192f0c1-2345-7abc-8def-0123456789ac","who":"bo","from":"socket","what":"follow_up","of":{}}
{"at":"2026-01-02T03:04:06.000Z","change":"0192f0c1-2345-7abc-8def-0123456789ab","outcome":"done"}
{"at":"2026-"#;
        let (begun, ended) = text.split_at(text.rfind(r#"{"at":"2026-01-02T03:04:06"#).unwrap());
        // The second time, the log was full before the end of the first change.
        for newest_first in [vec![text], vec![ended, begun]] {
            let (mut changes, mut ends) = (Vec::new(), BTreeMap::new());
            for file in newest_first {
                read(file, &mut ends, &mut changes);
            }
            let rows: Vec<String> = changes.iter().rev().map(|it| it.row().join("|")).collect();
            assert_eq!(
                rows,
                [
                    "2026-01-02T03:04:05.000Z|ana|stop_attempt|done|127.0.0.1:9|attempt_id=x",
                    "2026-01-02T03:04:05.000Z|bo|follow_up|cut off|socket|",
                ]
            );
        }
    }
}
