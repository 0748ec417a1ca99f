//! The refusals of a finish's steps, each with a hint that leads on. Pure.

use std::path::Path;

use crate::journal::AttemptRepo;
use crate::refusal::{Code, Refusal, run_first};
use crate::workspace::commit::CommitError;
use crate::workspace::git::GitError;
use crate::workspace::merge::Strategy;
use crate::workspace::under_way::commands;

/// git could not do `what`. `is_shortage` in the error becomes a code of its own: memory or disk is short.
pub fn git_failed(what: &str, repo: &AttemptRepo, error: &GitError) -> Refusal {
    Refusal::of_git(format!("{what} in {}: {error}", repo.path), error.is_shortage())
}

/// The work in a worktree can't be committed: the hint says what has to end there first.
pub fn not_committed(repo: &AttemptRepo, worktree: &Path, error: &CommitError) -> Refusal {
    let message = format!("the attempt's work in {} can't be committed: {error}", repo.name);
    let is_shortage = matches!(error, CommitError::Snapshot(snapshot) if snapshot.is_shortage());
    let refusal = Refusal::of_git(message, is_shortage);
    let shown = worktree.display().to_string();
    match error {
        // The lock of a killed git was set aside before, so a git holds this one.
        CommitError::Locked => refusal
            .hint(format!("Call the tool again when the git command in `{shown}` has ended.")),
        CommitError::UnderWay(sign) => {
            commands(sign).map(|it| run_first(it, &shown)).into_iter().fold(refusal, Refusal::hint)
        }
        CommitError::OtherBranch { branch, .. } => {
            refusal.hint(run_first(&format!("`git switch {branch}`"), &shown))
        }
        _ => refusal,
    }
}

/// The target branch does not exist, or does not any more.
pub fn branch_gone(repo: &AttemptRepo, into: &str) -> Refusal {
    let message = format!("the repository {} has no branch {into}", repo.path);
    Refusal::new(Code::BranchNotFound, message)
        .hint("Call the tool again with into, a branch that exists.")
        .detail("path", "into")
}

/// Nothing can be merged with the strategy of the call; `strategy` is one that would work.
pub fn other_strategy(why: &str, strategy: Strategy) -> Refusal {
    let other = match strategy {
        Strategy::Rebase => "rebase",
        Strategy::Squash => "squash",
        _ => "merge",
    };
    Refusal::new(Code::InvalidArgument, format!("nothing was merged: {why}"))
        .hint(format!("Call the tool again with strategy = \"{other}\"."))
        .detail("path", "strategy")
}
