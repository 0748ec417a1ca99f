//! Prints what a collection of worktrees did, or would do, for `provost gc` and `provost project rm`.

use std::io;

use provost_actors::attempt::CollectVerdict;

use super::prelude::*;

/// Prints a collection: each worktree with its verdict, failures, references that save work, forgotten
/// snapshots, and a summary. In a dry run, all of it is what would happen.
pub fn worktrees(out: &mut Output, found: &Collected) -> io::Result<()> {
    let Collected { dry_run, attempts, turns } = found;
    if !attempts.is_empty() {
        let columns = [Whole("ID"), Whole("WORKTREES"), Cut("TASK"), Whole("WHY")];
        out.table(&columns, attempts.iter().map(row))?;
    }
    for why in attempts.iter().flat_map(|attempt| &attempt.collection.cleanup_failures) {
        out.line(why)?;
    }
    for saved in attempts.iter().flat_map(|attempt| &attempt.collection.snapshots) {
        out.line(&format!("saved in {}: {}", saved.repo, saved.reference))?;
    }
    for line in turns.iter().map(|turns| forgotten(!dry_run, turns)) {
        out.line(&line)?;
    }
    let count = |verdict| attempts.iter().filter(|it| it.collection.verdict == verdict).count();
    let goal = if *dry_run { CollectVerdict::Collectable } else { CollectVerdict::Collected };
    out.line(&summary(!dry_run, count(goal), count(CollectVerdict::Kept)))
}

fn forgotten(yes: bool, of: &ForgottenTurns) -> String {
    let (id, count) = (of.attempt_id.short(), of.turns.len());
    let snapshots = if count == 1 { "snapshot of a turn" } else { "snapshots of turns" };
    match &of.kept {
        Some(why) => format!("{id}: {count} {snapshots} kept: {why}"),
        None if yes => format!("{id}: {count} old {snapshots} removed"),
        None => format!("{id}: {count} old {snapshots} would be removed with --yes"),
    }
}

fn summary(yes: bool, collected: usize, kept: usize) -> String {
    let what = match (yes, collected) {
        (false, 0) => "nothing to collect".to_owned(),
        (false, count) => {
            format!("{count} would be moved to the trash with --yes; their branches would stay")
        }
        (true, 0) => "nothing was collected".to_owned(),
        (true, count) => format!(
            "{count} moved to the trash; their branches stay, and a follow-up brings one back"
        ),
    };
    if kept == 0 { what } else { format!("{kept} kept, {what}") }
}

fn row(attempt: &CollectedAttempt) -> Vec<String> {
    let collection = &attempt.collection;
    let why = match (&collection.reason, collection.ignored) {
        (Some(reason), _) => reason.clone(),
        (None, 0) => String::new(),
        (None, ignored) => format!("it holds {ignored} ignored files"),
    };
    let title = headline(&attempt.task_title, usize::MAX);
    vec![attempt.attempt_id.short(), word(&collection.verdict), title, why]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_why_a_worktree_stays() {
        let attempt = json!({"attempt_id": "0192f0c1-2345-7abc-8def-0123456789ab",
            "verdict": "kept", "task_title": "Fix it", "snapshots": [], "folder": "/w",
            "project_name": "app", "workspace_branch": "provost/fix-it",
            "reason": "it has changes that are not committed", "ignored": 3});
        let expected = "456789ab|kept|Fix it|it has changes that are not committed";
        assert_eq!(row(&serde_json::from_value(attempt).unwrap()).join("|"), expected);
    }

    #[test]
    fn a_summary_counts_what_stays_too() {
        assert_eq!(summary(false, 0, 2), "2 kept, nothing to collect");
        assert_eq!(summary(false, 0, 0), "nothing to collect");
        assert!(summary(true, 3, 1).starts_with("1 kept, 3 moved to the trash"));
    }
}
