//! What happens to an attempt's work: it is committed, merged, pushed, proposed or discarded.

use provost_actors::journal::Receipt;
pub use provost_actors::journal::{FinishAction, FinishState};
use provost_actors::workspace::merge::Strategy as MergeStrategy;

use crate::api::prelude::*;

/// The description of `finish_attempt`, by which a model decides whether to call it.
pub const FINISH_ATTEMPT: &str = "\
Use when: an attempt's work is accepted (committed, merged, pushed) or rejected.
Next: follow_up with what failed, unless state is done; the same call again while it is open.
Avoid: merging or pushing what you have not read.";

/// The actions that push to a remote.
const REMOTE: &[&str] = &["push", "create_pr"];

/// Which fields each action of `finish_attempt` takes and needs.
pub const FINISH_RULES: &[FieldRule] = &[
    FieldRule::Only(&["strategy"], "action", &["merge", "apply_to"]),
    FieldRule::Only(&["into"], "action", &["merge", "apply_to", "create_pr"]),
    FieldRule::Only(&["message"], "action", &["commit", "merge", "apply_to", "push", "create_pr"]),
    FieldRule::Only(&["remote", "branch", "force_with_lease"], "action", REMOTE),
    FieldRule::Needs("action", &["apply_to"], &["into"]),
];

#[apply(input)]
pub struct FinishAttemptInput {
    pub attempt_id: AttemptId,
    /// commit: on the attempt's branch; all others but discard do it first. merge: check the result, move
    /// the target. apply_to: onto another attempt's branch, unchecked. push: to a remote. create_pr:
    /// push, open a pull request. discard: worktree to the trash.
    pub action: FinishAction,
    /// merge if left out.
    #[schemars(with = "Option<crate::api::args::Strategies>")]
    pub strategy: Option<MergeStrategy>,
    /// merge, create_pr: branch that gets the work, its target branch if left out. apply_to: id of the
    /// other attempt.
    pub into: Option<Text<1, 255>>,
    /// Commit message, made of the task and the last message if left out. create_pr: title and text.
    pub message: Option<Text<1, 20_000>>,
    /// origin if left out.
    pub remote: Option<Text<1, 255>>,
    /// Branch of the remote; the attempt's own name if left out.
    pub branch: Option<Text<1, 255>>,
    /// Overwrite what that branch has.
    pub force_with_lease: bool,
    /// Longest wait in milliseconds; 600000 at most.
    pub timeout_ms: Limit<50_000, 600_000>,
}

#[apply(output)]
pub struct FinishAttemptOutput {
    pub attempt_id: AttemptId,
    /// Id of this finish, a UUID.
    pub finish_id: FinishId,
    pub action: FinishAction,
    /// open (not ended yet: call again with the same request_id), done, conflicts or checks_failed
    /// (nothing was merged).
    pub state: FinishState,
    /// Each repository, with its commits.
    pub repos: Vec<FinishedRepo>,
    /// Receipts of the checks on the result.
    #[schemars(with = "Vec<CheckReceipt>")]
    pub checks: Vec<Receipt>,
    /// What can't be merged; empty unless state is conflicts.
    pub conflicts: Vec<MergeConflict>,
    /// Why an open finish waits; it is tried again.
    pub waits_for: Option<String>,
    pub hint: Option<String>,
}

/// The schema of a [`Receipt`].
#[apply(output)]
pub struct CheckReceipt {
    /// Its name in the settings.
    pub name: String,
    /// What was run.
    pub command: String,
    /// passed, failed, timed_out or not_run.
    pub outcome: String,
    /// Why it was not run, or which limit it exceeded; null if nothing.
    pub reason: Option<String>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// How long it took.
    pub duration_ms: u64,
    /// The folder of its output; null if it was not run.
    pub log: Option<String>,
    /// What held it; left out if nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Map<String, Value>")]
    pub sandbox: Option<Value>,
    /// When it ended.
    pub at: Timestamp,
}

#[apply(output)]
pub struct FinishedRepo {
    pub repo_name: String,
    /// The commit that the attempt's branch is at; null until that is known.
    pub commit: Option<String>,
    /// Whether this finish made it.
    pub committed: bool,
    /// Branch that gets the work; null if none does.
    pub target_branch: Option<String>,
    /// The target's commit before; null until the merge is computed.
    pub target_before: Option<String>,
    /// The merge's result, which is the target's commit if merged.
    pub target_after: Option<String>,
    /// The result's tree, on which the checks ran; null if nothing is to be merged.
    pub tree: Option<String>,
    /// Whether the target has the work.
    pub merged: bool,
    /// Commit that keeps what a discarded worktree had; null if all of that was merged.
    pub snapshot: Option<String>,
    /// Whether its branch was deleted.
    pub branch_deleted: bool,
    /// Remote and branch that have the commit: origin/BRANCH; null if none were asked for.
    pub pushed_to: Option<String>,
    pub pull_request: Option<PullRequest>,
    /// Why commits are unsigned despite commit.gpgSign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsigned: Option<String>,
}

/// A finish, as the status of its attempt has it.
#[apply(output)]
pub struct LastFinish {
    pub action: FinishAction,
    pub state: FinishState,
    /// Why an open finish waits; it is tried again.
    pub waits_for: Option<String>,
}

/// Open; the same call finds it again.
#[apply(output)]
pub struct PullRequest {
    /// Its page.
    pub url: String,
    /// Its number.
    pub number: u64,
}

/// A path that git can't merge.
#[apply(output)]
pub struct MergeConflict {
    /// Path, after its repository's name.
    pub path: String,
    /// git's word, such as contents or modify/delete.
    pub kind: String,
    /// File mode and object id at the merge base; null if it is not there.
    pub base: Option<String>,
    /// The same of the target's side.
    pub ours: Option<String>,
    /// The same of the attempt's side.
    pub theirs: Option<String>,
    /// The lines in conflict with git's markers; null if they are not text or too long.
    pub hunks: Option<String>,
    /// The setup had changed it. Else left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_setup: bool,
}

tools! { FinishTools: change finish_attempt(FinishAttemptInput) -> FinishAttemptOutput; }
