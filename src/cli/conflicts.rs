//! `provost conflicts`: which attempts conflict, in an order in which they can be merged.

use super::prelude::*;
use super::project::choose;

#[derive(clap::Args, Debug)]
pub struct ConflictsArgs {
    /// Only attempts of this project, by its name or id
    #[arg(long)]
    project: Option<String>,
}

/// `provost conflicts`: the order of the rows is the daemon's.
pub async fn conflicts(context: &mut Context, args: &ConflictsArgs) -> Result<Exit, Failure> {
    let mut params = json!({});
    if args.project.is_some() {
        params["project_id"] = json!(choose(context, args.project.as_deref()).await?);
    }
    let found = context.call::<Conflicts>(params).await?;
    context.show(&found, |out, Conflicts { attempts }| {
        let columns =
            [Whole("ID"), Cut("TASK"), Whole("MERGES"), Whole("CONFLICTS WITH"), Cut("IN")];
        let rows = attempts.iter().flat_map(rows);
        out.list(&columns, rows, "no attempt has work that is still to be merged")
    })
}

/// A row for each conflict of an attempt; one row with `-` for an attempt without conflicts.
fn rows(attempt: &AttemptConflicts) -> Vec<Vec<String>> {
    let (id, title) = (attempt.attempt_id.short(), headline(&attempt.task_title, usize::MAX));
    let merges = if attempt.is_clean { "as it is" } else { "once resolved" };
    let row = |with: String, paths: String| {
        vec![id.clone(), title.clone(), merges.to_owned(), with, paths]
    };
    if attempt.conflicts_with.is_empty() {
        return vec![row("-".to_owned(), String::new())];
    }
    attempt.conflicts_with.iter().map(|conflict| row(with(conflict), paths(conflict))).collect()
}

/// The conflicts in `provost status`, one in each line.
pub fn lines(conflicts: &[ConflictWith]) -> String {
    let line = |conflict: &ConflictWith| format!("{}: {}", with(conflict), paths(conflict));
    conflicts.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The other attempt, or the target branch.
fn with(conflict: &ConflictWith) -> String {
    let target = || conflict.target_branch.clone().unwrap_or_default();
    conflict.attempt_id.map_or_else(target, |id| id.short())
}

fn paths(conflict: &ConflictWith) -> String {
    let shown = conflict.paths.join(", ");
    match conflict.path_count.saturating_sub(conflict.paths.len() as u64) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_conflict_has_a_row() {
        let id = "0192f0c1-2345-7abc-8def-0123456789ab";
        let conflict = |attempt: Option<&str>, target: Option<&str>| {
            json!({"attempt_id": attempt,
            "target_branch": target, "repo_name": "app", "paths": ["a", "b"], "path_count": 3,
            "tree_id": "t"})
        };
        let with = |is_clean: bool, conflicts: Value| {
            let attempt = json!({"attempt_id": id, "task_title": "Fix it", "project_name": "app",
                "workspace_branch": "x", "is_clean": is_clean, "conflicts_with": conflicts});
            let rows = rows(&serde_json::from_value(attempt).unwrap());
            rows.iter().map(|row| row.join("|")).collect::<Vec<_>>()
        };
        assert_eq!(with(true, json!([])), ["456789ab|Fix it|as it is|-|"]);
        let both = json!([conflict(Some(id), None), conflict(None, Some("main"))]);
        let expected = ["456789ab", "main"]
            .map(|with| format!("456789ab|Fix it|once resolved|{with}|a, b and 1 more"));
        assert_eq!(with(false, both), expected);
    }
}
