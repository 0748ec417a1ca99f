//! `provost gc`: lists worktrees that are no longer needed, and with `--yes` makes the daemon move them to
//! the trash. With a flag, the same for the trash, the cached setups or the references that keep work.

use super::collected::worktrees;
use super::prelude::*;
use super::project::choose;

/// Default ages in days: of things in the trash, and of references that keep work. They are also named
/// in the help text of `--older-than`.
const TRASH_DAYS: u64 = 7;
const KEPT_DAYS: u64 = 30;
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
    /// Only what is older than this, such as 7d, 12h or 0 [default: any; for the trash 7d; with
    /// --kept 30d]
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
    /// Remove the references that keep unmerged work of removed attempts instead, also those of
    /// removed projects: git's own gc then deletes that work
    #[arg(long, conflicts_with_all = ["empty_trash", "empty_cache", "snapshot"])]
    kept: bool,
}

/// `provost gc`: worktrees, or with a flag the trash, the cached setups or the kept references. Without
/// `--yes` the daemon only answers what it would do.
pub async fn gc(context: &mut Context, args: &GcArgs) -> Result<Exit, Failure> {
    if args.empty_trash {
        return empty_trash(context, args).await;
    }
    if args.empty_cache {
        return empty_cache(context, args).await;
    }
    if args.kept {
        return kept(context, args).await;
    }
    let mut params = json!({"yes": args.yes, "snapshot": args.snapshot,
        "older_than_secs": args.older_than.unwrap_or_default()});
    if args.project.is_some() {
        params["project_id"] = json!(choose(context, args.project.as_deref()).await?);
    }
    let found = context.call::<Collected>(params).await?;
    context.show(&found, worktrees)
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

async fn kept(context: &mut Context, args: &GcArgs) -> Result<Exit, Failure> {
    let older_than = args.older_than.unwrap_or(KEPT_DAYS * DAY);
    let mut params = json!({"yes": args.yes, "older_than_secs": older_than});
    if args.project.is_some() {
        params["project_id"] = json!(choose(context, args.project.as_deref()).await?);
    }
    let found = context.call::<KeptWorks>(params).await?;
    context.show(&found, |out, KeptWorks { kept, .. }| {
        let rows = kept.iter().map(|it| {
            let reason = it.reason.clone().unwrap_or_default();
            let project = it.project_name.clone();
            let (title, reference) = (it.task_title.clone(), it.reference.clone());
            vec![it.verdict.clone(), it.since.to_string(), project, title, reference, reason]
        });
        let columns = [
            Whole("VERDICT"),
            Whole("SINCE"),
            Cut("PROJECT"),
            Cut("TASK"),
            Whole("REFERENCE"),
            Whole("WHY"),
        ];
        out.list(&columns, rows, "no reference keeps work of a removed attempt")?;
        if kept.iter().any(|it| it.verdict == "removable") {
            out.line("with --yes, what is removable would be given up for good")?;
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
    // An age larger than the time since 1970 would lead to a moment before it.
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
}
