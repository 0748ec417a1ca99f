//! `provost commit`, `merge`, `apply`, `push`, `pr` and `rm`: ways to finish an attempt's work. Each is
//! one finish, for which the verb waits as long as it takes.

use provost_actors::ids::FinishId;

use super::prelude::*;

/// The longest wait of one call, in milliseconds. The verb repeats the call until the finish has ended.
const WAIT_MS: u64 = 50_000;

#[derive(clap::Args, Debug)]
pub struct CommitArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
    /// The commit's message [default: the task's title and the agent's last words]
    #[arg(short, long)]
    message: Option<String>,
}

#[derive(clap::Args, Debug)]
pub struct MergeArgs {
    #[command(flatten)]
    commit: CommitArgs,
    /// The branch that gets the work [default: the attempt's target branch]
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// How the commits reach it
    #[arg(long, value_enum, default_value = "merge")]
    strategy: MergeHow,
}

#[derive(clap::Args, Debug)]
pub struct ApplyArgs {
    #[command(flatten)]
    commit: CommitArgs,
    /// The attempt whose branch gets the work
    other: String,
    /// How the commits reach it
    #[arg(long, value_enum, default_value = "merge")]
    strategy: MergeHow,
}

#[derive(clap::Args, Debug)]
pub struct PushArgs {
    #[command(flatten)]
    commit: CommitArgs,
    /// The remote to push to [default: origin, or the only one]
    #[arg(long, value_name = "NAME")]
    remote: Option<String>,
    /// The remote's branch [default: the name of the attempt's own]
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Overwrite what that branch has, unless it moves meanwhile
    #[arg(long)]
    force_with_lease: bool,
}

#[derive(clap::Args, Debug)]
pub struct PrArgs {
    #[command(flatten)]
    push: PushArgs,
    /// The branch that it is to be merged into [default: the attempt's target branch]
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
}

#[derive(clap::Args, Debug)]
pub struct RmArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
    /// Delete the attempt's branch too
    #[arg(long)]
    branch: bool,
}

/// How the commits of an attempt reach a branch.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum MergeHow {
    /// A commit with both as parents
    Merge,
    /// One commit with all changes
    Squash,
    /// Each commit again, on top of the branch
    Rebase,
    /// The branch moves to the attempt's own commit
    FastForward,
}

impl MergeHow {
    /// The strategy's name in the tool's arguments.
    fn name(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Squash => "squash",
            Self::Rebase => "rebase",
            Self::FastForward => "fast_forward",
        }
    }
}

pub async fn commit(context: &mut Context, args: &CommitArgs) -> Result<Exit, Failure> {
    let finish = json!({"action": "commit", "message": args.message});
    call(context, &args.attempt, finish).await
}

/// `provost merge`. Exit code 5 for conflicts, and 1 for failed checks.
pub async fn merge(context: &mut Context, args: &MergeArgs) -> Result<Exit, Failure> {
    let finish = json!({"action": "merge", "message": args.commit.message, "into": args.into,
        "strategy": args.strategy.name()});
    call(context, &args.commit.attempt, finish).await
}

/// `provost apply`: a merge into another attempt's branch.
pub async fn apply(context: &mut Context, args: &ApplyArgs) -> Result<Exit, Failure> {
    let other = context.attempt(&args.other).await?;
    let finish = json!({"action": "apply_to", "message": args.commit.message, "into": other,
        "strategy": args.strategy.name()});
    call(context, &args.commit.attempt, finish).await
}

pub async fn push(context: &mut Context, args: &PushArgs) -> Result<Exit, Failure> {
    call(context, &args.commit.attempt, pushing(args, "push")).await
}

pub async fn pr(context: &mut Context, args: &PrArgs) -> Result<Exit, Failure> {
    let mut finish = pushing(&args.push, "create_pr");
    finish["into"] = json!(args.into);
    call(context, &args.push.commit.attempt, finish).await
}

fn pushing(args: &PushArgs, action: &str) -> Value {
    json!({"action": action, "message": args.commit.message, "remote": args.remote,
        "branch": args.branch, "force_with_lease": args.force_with_lease})
}

/// `provost rm`. With `--branch` a method of its own does it: no tool deletes branches.
pub async fn rm(context: &mut Context, args: &RmArgs) -> Result<Exit, Failure> {
    if !args.branch {
        return call(context, &args.attempt, json!({"action": "discard"})).await;
    }
    let discard = json!({"attempt_id": context.attempt(&args.attempt).await?,
        "timeout_ms": WAIT_MS, "request_id": FinishId::new()});
    let done = loop {
        let done = context.call::<Discarded>(discard.clone()).await?;
        if done.0.state != FinishState::Open {
            break done;
        }
        say_why_it_waits(&done.0);
    };
    context.show(&done, |out, done| lines(&done.0).iter().try_for_each(|line| out.line(line)))
}

/// Makes a finish, and waits until it has ended.
async fn call(context: &mut Context, attempt: &str, mut finish: Value) -> Result<Exit, Failure> {
    finish["attempt_id"] = json!(context.attempt(attempt).await?);
    finish["timeout_ms"] = json!(WAIT_MS);
    // The same id in each repeated call: all of them are one finish.
    finish["request_id"] = json!(FinishId::new());
    let done = loop {
        let done = context.call::<FinishAttemptOutput>(finish.clone()).await?;
        if done.state != FinishState::Open {
            break done;
        }
        say_why_it_waits(&done);
    };
    context.show(&done, |out, done| lines(done).iter().try_for_each(|line| out.line(line)))?;
    match done.state {
        FinishState::Conflicts => Ok(Exit::Conflict),
        FinishState::ChecksFailed => Ok(Exit::Refused),
        _ => Ok(Exit::Done),
    }
}

/// Says on standard error what an open finish waits for, such as a running turn.
fn say_why_it_waits(open: &FinishAttemptOutput) {
    if let Some(why) = &open.waits_for {
        anstream::eprintln!("waiting: {}", harmless(why));
    }
}

/// The outcome as a person reads it: what happened in each repository, the checks, the conflicts, and
/// the next step.
fn lines(done: &FinishAttemptOutput) -> Vec<String> {
    let short = |commit: &Option<String>| {
        let commit = commit.as_deref().unwrap_or_default();
        commit.get(..12).unwrap_or(commit).to_owned()
    };
    let mut lines = Vec::new();
    for repo in &done.repos {
        if done.action == FinishAction::Discard {
            let kept = repo
                .snapshot
                .as_ref()
                .map(|_| format!("; commit {} keeps what it had", short(&repo.snapshot)));
            let kept = kept.unwrap_or_default();
            lines.push(format!("{} went to the trash{kept}", repo.repo_name));
            if repo.branch_deleted {
                lines.push(format!("{} has no branch of it any more", repo.repo_name));
            }
            continue;
        }
        let commit = short(&repo.commit);
        lines.push(match (repo.committed, &repo.target_branch) {
            (true, _) => format!("{} committed: {commit}", repo.repo_name),
            (false, None) => format!("{} has nothing to commit: {commit}", repo.repo_name),
            (false, Some(_)) => format!("{} was committed: {commit}", repo.repo_name),
        });
        if let Some(why) = &repo.unsigned {
            lines.push(format!("{} has commits that are not signed: {why}", repo.repo_name));
        }
        if let Some(place) = &repo.pushed_to {
            lines.push(format!("{} pushed to {place}", repo.repo_name));
        }
        if let Some(made) = &repo.pull_request {
            lines.push(format!("{} pull request {}: {}", repo.repo_name, made.number, made.url));
        }
        let Some(into) = repo.target_branch.as_deref().filter(|_| repo.merged) else { continue };
        lines.push(if repo.target_before == repo.target_after {
            format!("{} {into} has all of it", repo.repo_name)
        } else {
            format!("{} {into} is at {}", repo.repo_name, short(&repo.target_after))
        });
    }
    lines.extend(done.checks.iter().map(|receipt| format!("the {receipt}")));
    for conflict in &done.conflicts {
        let by_setup = if conflict.by_setup { ", which the setup had changed" } else { "" };
        lines.push(format!("conflict ({}) in {}{by_setup}", conflict.kind, conflict.path));
        let hunks = conflict.hunks.iter().flat_map(|hunks| hunks.lines());
        lines.extend(hunks.map(|line| format!("    {line}")));
    }
    if matches!(done.state, FinishState::Conflicts | FinishState::ChecksFailed) {
        let id = done.attempt_id.short();
        let has_moved =
            |repo: &FinishedRepo| repo.merged && repo.target_before != repo.target_after;
        let merged = if done.repos.iter().any(has_moved) {
            "not all was merged"
        } else {
            "nothing was merged"
        };
        lines
            .push(format!("{merged}; tell the agent what to fix with `provost queue {id} PROMPT`"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0192f0c1-2345-7abc-8def-0123456789ab";

    fn done(state: &str, merged: bool, more: &Value) -> FinishAttemptOutput {
        let repo = json!({"repo_name": "app", "commit": "0123456789abcdef", "committed": true,
            "target_branch": "main", "target_before": "aaaa", "target_after": "bbbb",
            "merged": merged, "branch_deleted": false});
        let mut done = json!({"attempt_id": ID, "finish_id": ID, "action": "merge",
            "state": state, "repos": [repo], "checks": [], "conflicts": []});
        done.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(done).unwrap()
    }

    #[test]
    fn a_merge_is_shown_with_its_commits_and_conflicts_with_their_lines() {
        let merged = lines(&done("done", true, &json!({})));
        assert_eq!(merged, ["app committed: 0123456789ab", "app main is at bbbb"]);
        let conflict = json!({"path": "app/a", "kind": "contents", "by_setup": true,
            "hunks": "<<<<<<< x\n1\n"});
        let shown = lines(&done("conflicts", false, &json!({"conflicts": [conflict]})));
        assert_eq!(
            shown[1..4],
            ["conflict (contents) in app/a, which the setup had changed", "    <<<<<<< x", "    1"]
        );
        assert!(shown[4].starts_with("nothing was merged; ") && shown[4].contains("provost queue"));
        let left = lines(&done("conflicts", true, &json!({})));
        assert!(left[2].starts_with("not all was merged; "), "{left:?}");
    }
}
