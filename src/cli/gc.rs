//! `provost gc`: shows which worktrees are no longer needed, and with `--yes` has the
//! daemon move them to the trash; or the same for what the trash holds.

use provost_actors::event::Timestamp;
use serde_json::{Value, json};

use super::context::{Context, short_of, text};
use super::exit::{Exit, Failure};
use super::output::harmless;
use super::project;
use super::table::{cut, whole};

/// How long the trash keeps what is put there.
const TRASH_DAYS: u64 = 7;
const DAY: u64 = 24 * 3600;

#[derive(clap::Args, Debug)]
pub struct GcArgs {
    /// Actually do it [default: only show what would be done]
    #[arg(long)]
    yes: bool,
    /// Include worktrees with unmerged and uncommitted work: what no branch holds is first saved
    /// under refs/provost/snapshots/ATTEMPT
    #[arg(long, conflicts_with = "empty_trash")]
    snapshot: bool,
    /// Only what is older than this, such as 7d, 12h or 0 [default: any; for the trash 7d]
    #[arg(long, value_name = "AGE", value_parser = seconds)]
    older_than: Option<u64>,
    /// Only attempts of this project, by its name or id
    #[arg(long, conflicts_with = "empty_trash")]
    project: Option<String>,
    /// Delete what the trash holds instead
    #[arg(long)]
    empty_trash: bool,
}

pub async fn gc(context: &mut Context, args: &GcArgs) -> Result<Exit, Failure> {
    if args.empty_trash {
        return empty_trash(context, args).await;
    }
    let mut params = json!({"yes": args.yes, "snapshot": args.snapshot,
        "older_than_secs": args.older_than.unwrap_or_default()});
    if let Some(project) = &args.project {
        params["project_id"] = json!(project::choose(context, Some(project)).await?);
    }
    let told = context.client().await?.method("provost/gc", params).await?;
    if context.out.is_json() {
        context.out.json(&told)?;
        return Ok(Exit::Done);
    }
    let attempts = list(&told, "attempts");
    let rows: Vec<Vec<String>> = attempts.iter().map(row).collect();
    if !rows.is_empty() {
        context.out.table(&[whole("ID"), whole("WORKTREES"), cut("TASK"), whole("WHY")], &rows)?;
    }
    for saved in attempts.iter().flat_map(|attempt| list(attempt, "snapshots")) {
        let (repo, reference) = (text(saved, "repo"), text(saved, "reference"));
        context.out.line(&harmless(&format!("kept in {repo}: {reference}")))?;
    }
    let count = |verdict| attempts.iter().filter(|it| text(it, "verdict") == verdict).count();
    let collected = if args.yes { count("collected") } else { count("collectable") };
    context.out.line(&summary(args.yes, collected, count("kept")))?;
    Ok(Exit::Done)
}

fn summary(yes: bool, collected: usize, kept: usize) -> String {
    let what = match (yes, collected) {
        (false, 0) => "nothing to collect".to_owned(),
        (false, count) => {
            format!("{count} would go to the trash, with --yes; their branches would stay")
        }
        (true, 0) => "nothing was collected".to_owned(),
        (true, count) => {
            format!(
                "{count} went to the trash; their branches stay, and a follow-up brings one back"
            )
        }
    };
    if kept == 0 { what } else { format!("{kept} kept, {what}") }
}

async fn empty_trash(context: &mut Context, args: &GcArgs) -> Result<Exit, Failure> {
    let older_than = args.older_than.unwrap_or(TRASH_DAYS * DAY);
    let params = json!({"yes": args.yes, "older_than_secs": older_than});
    let told = context.client().await?.method("provost/empty_trash", params).await?;
    if context.out.is_json() {
        context.out.json(&told)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = list(&told, "trash")
        .iter()
        .map(|it| ["verdict", "since", "name", "reason"].map(|key| text(it, key).to_owned()))
        .map(Vec::from)
        .collect();
    let columns = [whole("VERDICT"), whole("SINCE"), cut("NAME"), whole("WHY")];
    context.out.list(&columns, &rows, "the trash is empty")?;
    if !args.yes && rows.iter().any(|row| row[0] == "removable") {
        context.out.line("what is removable would be deleted for good, with --yes")?;
    }
    Ok(Exit::Done)
}

fn row(attempt: &Value) -> Vec<String> {
    let ignored = attempt["ignored"].as_u64().unwrap_or_default();
    let why = match (text(attempt, "reason"), ignored) {
        ("", 0) => String::new(),
        ("", ignored) => format!("{ignored} ignored files in it"),
        (reason, _) => reason.to_owned(),
    };
    vec![
        short_of(attempt, "attempt_id").to_owned(),
        text(attempt, "verdict").to_owned(),
        text(attempt, "task_title").lines().next().unwrap_or_default().to_owned(),
        why,
    ]
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
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
    // Beyond the time that there has been, nothing is that old.
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
            "verdict": "kept", "task_title": "Fix it", "workspace_branch": "provost/456789ab-fix-it",
            "reason": "it has changes that are not committed", "ignored": 3});
        let expected = "456789ab|kept|Fix it|it has changes that are not committed";
        assert_eq!(row(&attempt).join("|"), expected);
    }

    #[test]
    fn a_summary_counts_what_stays_too() {
        assert_eq!(summary(false, 0, 2), "2 kept, nothing to collect");
        assert_eq!(summary(false, 0, 0), "nothing to collect");
        assert!(summary(true, 3, 1).starts_with("1 kept, 3 went to the trash"));
    }
}
