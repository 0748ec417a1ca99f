//! What becomes of an attempt's work: which step is next, and what follows from its result. Pure;
//! `task` carries the steps out.
//!
//! ```text
//!  each repository         all of them           each repository
//!  Commit ─▶ Compute ───▶ Plan ─▶ Await ──────▶ Move ─────────────▶ End
//!             │    ▲                │ failed     │  │ in the way      ▲
//!             │    └────────────────┼─ elsewhere ┘  ▼                 │
//!             └─ conflicts ─────────┴─────────▶ Return, if it moved ──┘
//!
//!  Commit ─▶ Push ─▶ Propose ─▶ End      without a target branch; each step if it is asked for
//!  Discard ─▶ DeleteBranch ─▶ End
//! ```
//!
//! * No branch moves before all merges are computed and the checks passed on exactly those
//!   commits. If one can't move, those that did go back.
//! * A discard begins with the owner, who collects the worktrees; a person may have the branches
//!   deleted then. What is pushed or proposed is committed first.
//! * Each result is in the receipt, and written down, before the next step begins. A step that
//!   was cut off is taken again, and finds that its work is done.

mod commit;
pub mod compose;
pub(super) mod finishing;
mod move_target;
pub(super) mod owner;
pub mod publish;
mod refusals;
mod remote_apply;
pub(super) mod task;

use crate::ids::CheckRunId;
use crate::journal::{
    ChecksReceipt, Conflicting, Ending, Finish, FinishAction, FinishReceipt, MergeReceipt,
    PullRequest, PushRequest, RepoReceipt, TargetState,
};
use crate::refusal::{Code, Refusal};

/// How often a merge is computed again because its target has moved; then the finish is refused.
const RECOMPUTED_MAX: u32 = 5;

/// A step. The number is an index into the repositories of the request and of the receipt.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Commits what is not committed, on the attempt's branch.
    Commit(usize),
    /// Computes the commit that the target branch is to move to. Writes objects only.
    Compute(usize),
    /// Plans the checks on the computed commits, if there are checks.
    Plan,
    /// Waits for the verdict of the checks.
    Await(CheckRunId),
    /// Moves the target branch to the computed commit.
    Move(usize),
    /// Moves the target branch back to where it was.
    Return(usize),
    /// Has the owner collect the worktrees, after a snapshot of what would be lost.
    Discard,
    /// Deletes the attempt's branch in the person's repository.
    DeleteBranch(usize),
    /// Pushes the attempt's commits to a branch of a remote.
    Push(usize),
    /// Opens a pull request for them, or finds one that is open.
    Propose(usize),
    /// Nothing is left to do; this is how the finish ends.
    End(Ending),
}

/// The result of a step. [`record`] says which results which step can have.
#[derive(Clone, Debug, PartialEq)]
pub enum Stepped {
    /// The attempt's branch is at this commit.
    Committed(String),
    /// Where the target was, and what it is to become.
    Computed(MergeReceipt),
    /// The merge has conflicts: nothing moves.
    Conflicts(Conflicting),
    /// The checks that were planned; passed already if there are none.
    Planned(ChecksReceipt),
    /// Whether all checks passed.
    Checked(bool),
    /// The target is where the step was to bring it.
    Moved,
    /// The worktrees are gone. For each repository, the commit that has what would have been lost.
    Discarded(Vec<Option<String>>),
    /// Whether the branch is gone, and the commit that keeps what its target lacks, if it lacks anything.
    BranchDeleted(bool, Option<String>),
    /// Whether the remote has the commits; `false`: there was nothing to push.
    Pushed(bool),
    Proposed(PullRequest),
    /// Another program has moved the target meanwhile: the merge has to be computed again.
    Elsewhere,
    /// The step can't be done: the finish ends with this.
    Refused(Refusal),
}

/// The next step of a finish, from its request and its receipt alone.
pub fn next(finish: &Finish) -> Step {
    let Finish { request, receipt, .. } = finish;
    let repos = || receipt.repos.iter().enumerate();
    let at = |place: TargetState| {
        let is_there = |merged: &MergeReceipt| merged.changes() && merged.place == place;
        repos().find(|(_, repo)| repo.merged.as_ref().is_some_and(is_there)).map(|(at, _)| at)
    };
    if let Some(ending) = &receipt.ending {
        return at(TargetState::New).map_or_else(|| Step::End(ending.clone()), Step::Return);
    }
    if request.action == FinishAction::Discard {
        if !receipt.is_discarded {
            return Step::Discard;
        }
        let is_left = |repo: &RepoReceipt| request.deletes_branch && repo.branch_deleted.is_none();
        let left = repos().find(|(_, repo)| is_left(repo));
        return left.map_or(Step::End(Ending::Done), |(at, _)| Step::DeleteBranch(at));
    }
    if let Some((at, _)) = repos().find(|(_, repo)| repo.commit.is_none()) {
        return Step::Commit(at);
    }
    let is_merged = |at: usize| request.repos.get(at).is_some_and(|repo| repo.into.is_some());
    if let Some((at, _)) = repos().find(|(at, repo)| is_merged(*at) && repo.merged.is_none()) {
        return Step::Compute(at);
    }
    let Some(first) = at(TargetState::Old) else { return outward(finish) };
    match receipt.checks {
        None => Step::Plan,
        Some(ChecksReceipt { run_id: Some(run), passed: None }) => Step::Await(run),
        Some(_) => Step::Move(first),
    }
}

/// Whether all that is to be applied is committed. From then on the host of the attempt whose branch gets
/// the work takes the steps (`gateway/apply.rs`).
pub fn is_committed(finish: &Finish) -> bool {
    !matches!(next(finish), Step::Commit(_))
}

/// The next step of what leaves this machine. Such a step can't be undone: a repository where it is done
/// stays so if the step fails in another one.
fn outward(finish: &Finish) -> Step {
    let repos = finish.request.repos.iter().zip(&finish.receipt.repos).enumerate();
    let mut repos = repos.filter_map(|(at, (wanted, got))| Some((at, wanted.push.as_ref()?, got)));
    let unpushed = repos.clone().find(|(_, _, got)| got.pushed.is_none());
    if let Some((at, ..)) = unpushed {
        return Step::Push(at);
    }
    let is_due = |wanted: &PushRequest, got: &RepoReceipt| {
        wanted.base.is_some() && got.pushed == Some(true) && got.pull_request.is_none()
    };
    let due = repos.find(|(_, wanted, got)| is_due(wanted, got));
    due.map_or(Step::End(Ending::Done), |(at, ..)| Step::Propose(at))
}

/// Adds the result of a step to the receipt.
pub fn record(receipt: &mut FinishReceipt, step: &Step, stepped: Stepped) {
    receipt.waits_for = None;
    match (step, stepped) {
        // The ending that made this go back stays the finish's ending.
        (Step::Return(at), Stepped::Elsewhere | Stepped::Refused(_)) => {
            place(receipt, *at, TargetState::Left);
        }
        (Step::Return(at), _) => place(receipt, *at, TargetState::Old),
        (_, Stepped::Refused(refusal)) => receipt.ending = Some(Ending::Refused(refusal)),
        (_, Stepped::Conflicts(conflicts)) => receipt.ending = Some(Ending::Conflicts(conflicts)),
        (_, Stepped::Planned(checks)) => receipt.checks = Some(checks),
        (_, Stepped::Checked(passed)) => {
            if let Some(checks) = &mut receipt.checks {
                checks.passed = Some(passed);
            }
            if !passed {
                receipt.ending = Some(Ending::ChecksFailed);
            }
        }
        (_, Stepped::Discarded(snapshots)) => {
            receipt.is_discarded = true;
            for (repo, snapshot) in receipt.repos.iter_mut().zip(snapshots) {
                repo.snapshot = snapshot;
            }
        }
        (Step::DeleteBranch(at), Stepped::BranchDeleted(is_gone, kept)) => {
            let repo = &mut receipt.repos[*at];
            repo.branch_deleted = Some(is_gone);
            repo.snapshot = repo.snapshot.take().or(kept);
        }
        (Step::Push(at), Stepped::Pushed(has)) => receipt.repos[*at].pushed = Some(has),
        (Step::Propose(at), Stepped::Proposed(it)) => receipt.repos[*at].pull_request = Some(it),
        (Step::Commit(at), Stepped::Committed(commit)) => receipt.repos[*at].commit = Some(commit),
        (Step::Compute(at), Stepped::Computed(merged)) => receipt.repos[*at].merged = Some(merged),
        (Step::Move(at), Stepped::Moved) => place(receipt, *at, TargetState::New),
        (Step::Move(at), Stepped::Elsewhere) => {
            receipt.repos[*at].merged = None;
            // The checks ran on the old result.
            receipt.checks = None;
            receipt.recomputed += 1;
            if receipt.recomputed > RECOMPUTED_MAX {
                receipt.ending = Some(Ending::Refused(keeps_moving()));
            }
        }
        // A step has no other results.
        _ => {}
    }
}

/// Notes where a target branch is.
fn place(receipt: &mut FinishReceipt, at: usize, place: TargetState) {
    if let Some(merged) = &mut receipt.repos[at].merged {
        merged.place = place;
    }
}

/// The refusal after too many recomputations.
fn keeps_moving() -> Refusal {
    let message = format!(
        "the target branch has moved {RECOMPUTED_MAX} times while the merge into it was computed"
    );
    Refusal::new(Code::WorkspaceFailed, message)
        .hint("Call the tool again when nothing else moves the target branch.")
}

/// Adds to the refusal of a finish which repositories have its work in spite of it.
fn with_left(mut refusal: Refusal, left: &[&str]) -> Refusal {
    if left.is_empty() {
        return refusal;
    }
    let sentence = format!(
        " The target branch of {} had moved already and could not go back: it has the work.",
        left.join(", ")
    );
    refusal.message.push_str(&sentence);
    refusal.hint.push_str(" The rest follows then.");
    refusal.detail("merged", left.to_vec())
}

#[cfg(test)]
mod tests;
