//! `provost gc`: lists worktrees that are no longer needed, and with `--yes` makes the
//! daemon move them to the trash; with `--empty-trash` the same for the trash.

use std::io;

use provost_actors::attempt::CollectVerdict;

use super::prelude::*;
use super::project::choose;

/// How long the trash keeps things by default.
const TRASH_DAYS: u64 = 7;
const DAY: u64 = 24 * 3600;

#[derive(clap::Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct GcArgs {
    /// Actually do it [default: only show what would be done]
    #[arg(long)]
    yes: bool,
    /// Include worktrees with unmerged and uncommitted work: work that is on no branch is saved
    /// under refs/provost/snapshots/ATTEMPT first
    #[arg(long, conflicts_with = "empty_trash")]
    snapshot: bool,
    /// Only what is older than this, such as 7d, 12h or 0 [default: any; for the trash 7d]
    #[arg(long, value_name = "AGE", value_parser = seconds)]
    older_than: Option<u64>,
    /// Only attempts of this project, by its name or id
    #[arg(long, conflicts_with = "empty_trash")]
    project: Option<String>,
    /// Delete the contents of the trash instead
    #[arg(long)]
    empty_trash: bool,
    /// Delete the cached results of setups instead
    #[arg(long, conflicts_with_all = ["empty_trash", "snapshot", "project"])]
    empty_cache: bool,
}

pub async fn gc(context: &mut Context, args: &GcArgs) -> Result<Exit, Failure> {
    if args.empty_trash {
        return empty_trash(context, args).await;
    }
    if args.empty_cache {
        return empty_cache(context, args).await;
    }
    let mut params = json!({"yes": args.yes, "snapshot": args.snapshot,
        "older_than_secs": args.older_than.unwrap_or_default()});
    if args.project.is_some() {
        params["project_id"] = json!(choose(context, args.project.as_deref()).await?);
    }
    let found = context.call::<Collected>(params).await?;
    context.show(&found, worktrees)
}

/// What became of worktrees, or would.
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

async fn empty_trash(context: &mut Context, args: &GcArgs) -> Result<Exit, Failure> {
    let older_than = args.older_than.unwrap_or(TRASH_DAYS * DAY);
    let params = json!({"yes": args.yes, "older_than_secs": older_than});
    let found = context.call::<Trash>(params).await?;
    context.show(&found, |out, Trash { trash, .. }| {
        let rows = trash.iter().map(|it| {
            let reason = it.reason.clone().unwrap_or_default();
            vec![it.verdict.clone(), it.since.to_string(), it.name.clone(), reason]
        });
        let columns = [Whole("VERDICT"), Whole("SINCE"), Cut("NAME"), Whole("WHY")];
        out.list(&columns, rows, "the trash is empty")?;
        if trash.iter().any(|it| it.verdict == "removable") {
            out.line("with --yes, what is removable would be deleted for good")?;
        }
        Ok(())
    })
}

async fn empty_cache(context: &mut Context, args: &GcArgs) -> Result<Exit, Failure> {
    let params = json!({"yes": args.yes, "older_than_secs": args.older_than.unwrap_or_default()});
    let found = context.call::<CachedSetups>(params).await?;
    context.show(&found, |out, CachedSetups { entries, .. }| {
        let rows = entries.iter().map(|it| {
            let reason = it.reason.clone().unwrap_or_default();
            let mib = format!("{} MiB", it.bytes.div_ceil(1 << 20));
            vec![it.verdict.clone(), it.used.to_string(), mib, it.name.clone(), reason]
        });
        let columns = [Whole("VERDICT"), Whole("USED"), Whole("SIZE"), Cut("NAME"), Whole("WHY")];
        out.list(&columns, rows, "no setup is cached")?;
        if entries.iter().any(|it| it.verdict == "removable") {
            out.line("with --yes, what is removable would be deleted; the next setups run again")?;
        }
        Ok(())
    })
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

/// `7d`, `12h`, `30m`, `45s`, or a number of days.
fn seconds(age: &str) -> Result<u64, String> {
    let digits = age.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &age[digits.len()..] {
        "d" | "" => DAY,
        "h" => 3600,
        "m" => 60,
        "s" => 1,
        _ => return Err("must be such as 7d, 12h, 30m or 45s".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "must begin with a whole number".to_owned())?;
    // No age is longer than the time since 1970.
    let most = Timestamp::now().millis().unsigned_abs() / 1000;
    Ok(number.saturating_mul(unit).min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_a_unit_or_is_in_days() {
        assert_eq!(
            ["0", "7d", "2", "12h", "30m", "45s"].map(seconds),
            [0, 604_800, 172_800, 43_200, 1800, 45].map(Ok)
        );
        assert!(seconds("99999999999999d").unwrap() > 0);
        for wrong in ["", "d", "-1d", "1w", "soon", "1.5h"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

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
