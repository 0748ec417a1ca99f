//! The records of finishes: what a caller wants done with an attempt's work, and how far that is. A finish
//! that was cut off continues from its receipt.
//!
//! ```text
//!  Open ─▶ Done                               all steps are on the receipt
//!    └───▶ Conflicts, ChecksFailed, Refused   the branches that had moved went back; where one could
//!                                             not, the receipt says `Left`
//! ```

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::event::Timestamp;
use crate::ids::{AttemptId, CheckRunId, FinishId, RepoId, TaskId};
use crate::refusal::Refusal;
use crate::workspace::merge::conflict::Conflict;
use crate::workspace::merge::{Signature, Strategy};
use crate::workspace::parting::{History, Landing};

use super::checks::Submission;
use super::{CheckRun, Idempotent, Key};

/// What a finish does with an attempt's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishAction {
    /// All that git does not ignore becomes a commit on the attempt's branch.
    Commit,
    /// A commit, and then a branch of the person's repository gets the attempt's commits.
    Merge,
    /// A commit, and then the branch of another attempt gets the attempt's commits.
    ApplyTo,
    /// A commit, and then a branch of a remote gets the attempt's commits.
    Push,
    /// A push, and then a pull request that asks for the commits to be merged.
    CreatePr,
    /// The worktrees go to the trash, after a snapshot of what would be lost. The branch stays.
    Discard,
}

/// A finish with all defaults resolved: after a crash the same is done, whatever has changed meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishRequest {
    pub action: FinishAction,
    pub strategy: Strategy,
    /// The commit message, with its trailers; empty for a discard.
    pub message: String,
    /// Who commits; `None` where nothing is committed.
    pub by: Option<Signature>,
    /// In the order of the attempt's repositories.
    pub repos: Vec<RepoRequest>,
    /// The attempt whose branch gets the work.
    #[serde(default)]
    pub onto: Option<AttemptId>,
    /// A person wants the attempt's branch to be deleted with its worktrees.
    #[serde(default)]
    pub deletes_branch: bool,
    /// Title and text of a pull request.
    #[serde(default)]
    pub proposal: Option<(String, String)>,
}

impl FinishRequest {
    /// Whether both calls ask for the same. What the daemon found when it resolved them may differ: where
    /// branches were, who commits, and the text of a pull request.
    pub fn asks_the_same(&self, other: &Self) -> bool {
        let asked = |request: &Self| {
            let mut asked = Self { by: None, proposal: None, ..request.clone() };
            for repo in &mut asked.repos {
                repo.head.clear();
                if let Some(push) = &mut repo.push {
                    push.before = None;
                }
            }
            asked
        };
        asked(self) == asked(other)
    }
}

/// What a finish does in one repository of the attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepoRequest {
    pub name: String,
    /// The commit of the attempt's branch when the call was made; empty: it had none.
    pub head: String,
    /// The branch that gets the commits; `None`: no local branch does.
    pub into: Option<String>,
    /// The branch of a remote that gets the commits.
    #[serde(default)]
    pub push: Option<PushRequest>,
    /// The same repository in the attempt whose branch gets the commits.
    #[serde(default)]
    pub onto: Option<OntoRepo>,
    /// Who commits here, if it is another identity than in the first repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Signature>,
}

/// A repository of the attempt whose branch gets the work of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OntoRepo {
    pub repo_id: RepoId,
    /// Its name in that attempt.
    pub name: String,
}

/// A push to a branch of a remote, and whether a pull request follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushRequest {
    pub remote: String,
    /// The URL that was recorded for the project, which an agent can't change.
    pub url: String,
    pub branch: String,
    /// The commit of that branch when the call was made; `None`: there was no such branch.
    pub before: Option<String>,
    /// Commits that the branch has and the attempt lacks are overwritten, if the branch is still at
    /// `before`.
    pub forces: bool,
    /// For a pull request: the branch that it asks to merge into. `None`: no pull request.
    pub base: Option<String>,
}

/// A pull request as the forge has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    pub url: String,
    pub number: u64,
}

/// How far a finish is, as its row says: [`Ending`] without the details.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishState {
    #[default]
    Open,
    Done,
    Conflicts,
    ChecksFailed,
    Refused,
}

/// What a finish has done. Each step is written down before the next one begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FinishReceipt {
    /// In the order of the request's repositories.
    pub repos: Vec<RepoReceipt>,
    /// How often a target branch had moved, so that its merge was computed again.
    pub recomputed: u32,
    pub checks: Option<ChecksReceipt>,
    /// The worktrees have been removed.
    pub is_discarded: bool,
    /// How it ends, once that is known. Branches that moved before still have to go back.
    pub ending: Option<Ending>,
    /// Why the step under way is not done yet. It is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

/// What a finish has done in one repository; `None`: not yet, or not a part of the action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepoReceipt {
    /// The commit of the attempt's branch that has all that was to be committed.
    pub commit: Option<String>,
    /// The computed merge into the target branch.
    pub merged: Option<MergeReceipt>,
    /// The commit that holds what would have been lost with the worktree.
    pub snapshot: Option<String>,
    /// `Some(false)`: the branch stays, because it moved or is checked out.
    pub branch_deleted: Option<bool>,
    /// `Some(false)`: there was nothing to push.
    pub pushed: Option<bool>,
    pub pull_request: Option<PullRequest>,
    /// Why the commits have no signature, where the person's own commits would have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsigned: Option<String>,
}

/// A computed move of a target branch, and whether the branch has made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeReceipt {
    /// The commit of the branch when the merge was computed.
    pub old: String,
    /// The commit that the branch gets; `old` where it has all of the work already.
    pub new: String,
    /// The tree of `new`; `None` where the branch does not move.
    pub tree: Option<String>,
    pub place: TargetState,
}

/// Where a target branch is.
///
/// ```text
///  Old ─moved─▶ New ─the finish fails after that─▶ Old     it went back
///                └────────────────────────────────▶ Left    it can't go back
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetState {
    /// Where it was, or where it went back to.
    #[default]
    Old,
    /// At the computed commit.
    New,
    /// At the computed commit or beyond it, and it can't go back.
    Left,
}

impl MergeReceipt {
    /// Whether the branch gets another commit.
    pub fn changes(&self) -> bool {
        self.new != self.old
    }
}

/// The run of checks on exactly the computed commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChecksReceipt {
    /// `None`: the project has no checks.
    pub run_id: Option<CheckRunId>,
    /// `None` while the checks run.
    pub passed: Option<bool>,
}

/// How a finish ends, with what a caller needs to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Done,
    Conflicts(Conflicting),
    ChecksFailed,
    Refused(Refusal),
}

impl Ending {
    /// The state that the row gets.
    pub fn state(&self) -> FinishState {
        match self {
            Self::Done => FinishState::Done,
            Self::Conflicts(_) => FinishState::Conflicts,
            Self::ChecksFailed => FinishState::ChecksFailed,
            Self::Refused(_) => FinishState::Refused,
        }
    }
}

/// The conflicts with the target branch of one repository; others were not tried any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflicting {
    /// The repository's name in the attempt.
    pub repo: String,
    /// The commit that does not apply, for a strategy that replays commits one by one.
    pub at: Option<String>,
    /// The commit of the target branch, where the branch is on another host: the board has that commit.
    #[serde(default)]
    pub target: Option<String>,
    pub conflicts: Vec<Conflict>,
}

/// A finish, as its row has it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Finish {
    pub finish_id: FinishId,
    pub attempt_id: AttemptId,
    pub request: FinishRequest,
    pub state: FinishState,
    pub receipt: FinishReceipt,
    /// Why it was refused.
    pub error: Option<Refusal>,
    /// The host that applies the work to the other attempt, once it has begun. Only that host continues it.
    pub applied_by: Option<String>,
    /// When that host, which is not the finished attempt's, had done its part.
    pub applied_at: Option<Timestamp>,
}

impl Finish {
    /// An open finish with an empty receipt.
    pub fn new(attempt_id: AttemptId, request: FinishRequest) -> Self {
        let repos = request.repos.iter().map(|_| RepoReceipt::default()).collect();
        let receipt = FinishReceipt { repos, ..FinishReceipt::default() };
        let (finish_id, state) = (FinishId::new(), FinishState::Open);
        let (error, applied_by, applied_at) = (None, None, None);
        Self { finish_id, attempt_id, request, state, receipt, error, applied_by, applied_at }
    }

    /// The repositories whose target branch has the work and can't go back, although the finish has failed.
    pub fn left(&self) -> Vec<&str> {
        let repos = self.receipt.repos.iter().zip(&self.request.repos);
        let is_left = |merged: &MergeReceipt| merged.place == TargetState::Left;
        let left = repos.filter(|(receipt, _)| receipt.merged.as_ref().is_some_and(is_left));
        left.map(|(_, request)| &*request.name).collect()
    }

    /// What the finish computed for the target branch of each repository, by the repository's name.
    pub fn landings(&self) -> impl Iterator<Item = (&str, Landing)> {
        let repos = self.request.repos.iter().zip(&self.receipt.repos);
        repos.filter_map(|(request, receipt)| {
            let merged = receipt.merged.as_ref()?;
            let (before, result) = (merged.old.clone(), merged.new.clone());
            let (commit, branch) = (receipt.commit.clone()?, request.into.clone()?);
            Some((&*request.name, Landing { commit, branch, before, result }))
        })
    }
}

/// What is on record of the work of attempts, by the attempt and the repository's path on the board.
pub type Histories = HashMap<(AttemptId, String), History>;

/// The rows of finishes, and what they need to know of attempts, remotes and checks.
#[async_trait]
pub trait Finishes {
    /// Writes a new finish under the key of its call.
    async fn record_finish(
        &self,
        key: Option<&Key>,
        finish: &Finish,
    ) -> Result<Idempotent<FinishId>, Refusal>;

    /// Writes that the call with this key has the result of a finish that another call began.
    async fn join_finish(
        &self,
        key: Option<&Key>,
        finish: FinishId,
    ) -> Result<Idempotent<FinishId>, Refusal>;

    /// A finish by its id; `None`: there is none.
    async fn finish(&self, finish: FinishId) -> Result<Option<Finish>, Refusal>;

    /// What is on record of the work of these attempts; nothing for those that began and finished nothing.
    async fn histories(&self, attempts: &[AttemptId]) -> Result<Histories, Refusal>;

    /// Writes the receipt of an open finish.
    async fn keep_finish(&self, finish: &Finish) -> Result<(), Refusal>;

    /// Writes the receipt, and in the same transaction the run of checks that it names.
    async fn plan_finish_checks(
        &self,
        finish: &Finish,
        task: TaskId,
        submission: &Submission,
    ) -> Result<(), Refusal>;

    /// Writes how the finish ended, and announces it. A refusal does not use up the key of its call.
    async fn end_finish(&self, finish: &Finish) -> Result<(), Refusal>;

    /// The attempt that has this branch in a repository; `None`: no attempt has.
    async fn attempt_with_branch(
        &self,
        repo: RepoId,
        branch: &str,
    ) -> Result<Option<AttemptId>, Refusal>;

    /// The host of the attempt whose branch gets the work of another one; `None`: this daemon can't know it.
    async fn host_of_target(&self, onto: AttemptId) -> Result<Option<String>, Refusal>;

    /// Notes that this host applies the work of another host's attempt. `false`: the finish has ended,
    /// another host applies it, or the attempt whose branch gets the work is on another host.
    async fn begin_applying(&self, finish: FinishId) -> Result<bool, Refusal>;

    /// Writes the receipt, and that this host has done its part.
    async fn end_applying(&self, finish: &Finish) -> Result<(), Refusal>;

    /// Takes a finish back to the host of its attempt, if no host has begun to apply it, or the one that
    /// has is no longer registered. `false`: another host applies it.
    async fn take_back(&self, finish: FinishId) -> Result<bool, Refusal>;

    /// The open finishes of other hosts' attempts whose target is an attempt of this host.
    async fn to_apply(&self) -> Result<Vec<Finish>, Refusal>;

    /// Waits until there may be such a finish, or another host may have done its part of one; one second at
    /// most.
    async fn finish_news(&self);

    /// The recorded URLs of a repository's remotes, by their names.
    async fn remotes(&self, repo: RepoId) -> Result<BTreeMap<String, String>, Refusal>;

    /// The newest run of checks of an attempt that has a verdict.
    async fn last_checks(&self, attempt: AttemptId) -> Result<Option<CheckRun>, Refusal>;

    /// A run of checks by its id, of a report or of a finish.
    async fn check_run(&self, run: CheckRunId) -> Result<Option<CheckRun>, Refusal>;
}
