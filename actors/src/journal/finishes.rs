//! The records of finishes: what is to become of an attempt's work, and how far that is. A
//! finish that was cut off goes on from its receipt.

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
use super::{CheckRun, Key, Once};

/// What is done with an attempt's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishAction {
    /// All that git does not ignore becomes a commit on the attempt's branch.
    Commit,
    /// The same, and then a branch gets the attempt's commits.
    Merge,
    /// The same with the branch of another attempt.
    ApplyTo,
    /// After a commit, a branch of a remote gets the attempt's commits.
    Push,
    /// The same, and then a pull request asks for them to be merged.
    CreatePr,
    /// The worktrees go to the trash, after a snapshot of what would be lost. The branch stays.
    Discard,
}

/// A call that finishes, with all that it left open resolved: a repetition does the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishRequest {
    pub action: FinishAction,
    pub strategy: Strategy,
    pub message: String,
    /// `None` where nothing is committed.
    pub by: Option<Signature>,
    /// In the order of the attempt's repositories.
    pub repos: Vec<RepoRequest>,
    /// The attempt whose branch gets the work.
    #[serde(default)]
    pub onto: Option<AttemptId>,
    /// A person wants the attempt's branch to be deleted with its worktrees.
    #[serde(default)]
    pub deletes_branch: bool,
    /// What a pull request says: its title, and its text.
    #[serde(default)]
    pub proposal: Option<(String, String)>,
}

impl FinishRequest {
    /// Whether both ask for the same. What the daemon found when it resolved them may differ.
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepoRequest {
    pub name: String,
    /// Where the attempt's branch was when the call was made.
    pub head: String,
    /// The branch that is to get the commits; `None`: none is.
    pub into: Option<String>,
    /// The branch of a remote that is to get them.
    #[serde(default)]
    pub push: Option<PushRequest>,
    /// The same repository in the attempt whose branch gets them.
    #[serde(default)]
    pub onto: Option<OntoRepo>,
    /// Who commits here, if it is another one than in the first repository.
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushRequest {
    pub remote: String,
    /// As it was recorded for the project.
    pub url: String,
    pub branch: String,
    /// Where that branch was when the call was made.
    pub before: Option<String>,
    /// Commits that it has, and the attempt lacks, are overwritten if it is still there.
    pub forces: bool,
    /// Of a pull request: the branch that it is to be merged into.
    pub base: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    pub url: String,
    pub number: u64,
}

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

/// What has been done. Each step is written down before the next one begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FinishReceipt {
    /// In the order of the request's.
    pub repos: Vec<RepoReceipt>,
    /// How often a target had moved, and its merge was computed anew.
    pub recomputed: u32,
    pub checks: Option<ChecksReceipt>,
    /// The worktrees are gone.
    pub is_discarded: bool,
    /// How it ends. Branches that moved before that was known still have to go back.
    pub ending: Option<Ending>,
    /// Why the step under way is not done yet: it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepoReceipt {
    /// Where the attempt's branch is with all that was to be committed.
    pub commit: Option<String>,
    /// Of the target branch.
    pub merged: Option<MergeReceipt>,
    /// The commit that holds what would have been lost with the worktree.
    pub snapshot: Option<String>,
    /// `Some(false)`: it stays, because it moved or is checked out.
    pub branch_deleted: Option<bool>,
    /// `Some(false)`: there was nothing to push.
    pub pushed: Option<bool>,
    pub pull_request: Option<PullRequest>,
    /// Why commits have no signature, where the person's own would have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsigned: Option<String>,
}

/// A computed move of a target branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeReceipt {
    pub old: String,
    /// The same as `old` where the target had everything.
    pub new: String,
    /// The tree of `new`; `None` where nothing is to move.
    pub tree: Option<String>,
    pub place: TargetState,
}

/// Where a target branch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetState {
    /// Where it was, or where it went back to.
    #[default]
    Old,
    /// At the result.
    New,
    /// At the result or beyond, from where it can't go back.
    Left,
}

impl MergeReceipt {
    pub fn changes(&self) -> bool {
        self.new != self.old
    }
}

/// The checks on exactly the computed commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChecksReceipt {
    /// `None`: the project has no checks.
    pub run_id: Option<CheckRunId>,
    /// `None` while they run.
    pub passed: Option<bool>,
}

/// How a finish ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Done,
    Conflicts(Conflicting),
    ChecksFailed,
    Refused(Refusal),
}

impl Ending {
    pub fn state(&self) -> FinishState {
        match self {
            Self::Done => FinishState::Done,
            Self::Conflicts(_) => FinishState::Conflicts,
            Self::ChecksFailed => FinishState::ChecksFailed,
            Self::Refused(_) => FinishState::Refused,
        }
    }
}

/// The conflicts with the target branch of a repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflicting {
    pub repo: String,
    /// The commit that does not apply, where each is replayed.
    pub at: Option<String>,
    /// The target's commit, where its branch is on another host: the board has that.
    #[serde(default)]
    pub target: Option<String>,
    pub conflicts: Vec<Conflict>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Finish {
    pub finish_id: FinishId,
    pub attempt_id: AttemptId,
    pub request: FinishRequest,
    pub state: FinishState,
    pub receipt: FinishReceipt,
    /// Why it was refused.
    pub error: Option<Refusal>,
    /// The host that applies the work to the other attempt, once it has begun.
    pub applied_by: Option<String>,
    /// When another host than the finished attempt's had done its part.
    pub applied_at: Option<Timestamp>,
}

impl Finish {
    pub fn new(attempt_id: AttemptId, request: FinishRequest) -> Self {
        let repos = request.repos.iter().map(|_| RepoReceipt::default()).collect();
        let receipt = FinishReceipt { repos, ..FinishReceipt::default() };
        let (finish_id, state) = (FinishId::new(), FinishState::Open);
        let (error, applied_by, applied_at) = (None, None, None);
        Self { finish_id, attempt_id, request, state, receipt, error, applied_by, applied_at }
    }

    /// The repositories whose target has the work and can't go back, although this is not done.
    pub fn left(&self) -> Vec<&str> {
        let repos = self.receipt.repos.iter().zip(&self.request.repos);
        let is_left = |merged: &MergeReceipt| merged.place == TargetState::Left;
        let left = repos.filter(|(receipt, _)| receipt.merged.as_ref().is_some_and(is_left));
        left.map(|(_, request)| &*request.name).collect()
    }

    /// What it merged, or computed, in each repository, by its name.
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

#[async_trait]
pub trait Finishes {
    /// Writes a finish under the key of its call.
    async fn record_finish(
        &self,
        key: Option<&Key>,
        finish: &Finish,
    ) -> Result<Once<FinishId>, Refusal>;

    /// Writes that the call with this key is answered by a finish that another call began.
    async fn join_finish(
        &self,
        key: Option<&Key>,
        finish: FinishId,
    ) -> Result<Once<FinishId>, Refusal>;

    async fn finish(&self, finish: FinishId) -> Result<Option<Finish>, Refusal>;

    /// What is on record of the work of these attempts.
    async fn histories(&self, attempts: &[AttemptId]) -> Result<Histories, Refusal>;

    /// Writes how far it is.
    async fn keep_finish(&self, finish: &Finish) -> Result<(), Refusal>;

    /// Writes how far it is, and with it the run of checks that its receipt names.
    async fn plan_finish_checks(
        &self,
        finish: &Finish,
        task: TaskId,
        submission: &Submission,
    ) -> Result<(), Refusal>;

    /// Ends it. What was refused does not use up the key of its call.
    async fn end_finish(&self, finish: &Finish) -> Result<(), Refusal>;

    /// The attempt whose branch in a repository has this name.
    async fn attempt_with_branch(
        &self,
        repo: RepoId,
        branch: &str,
    ) -> Result<Option<AttemptId>, Refusal>;

    /// The host of the attempt whose branch gets the work of another one; `None`: that is not known here.
    async fn host_of_target(&self, onto: AttemptId) -> Result<Option<String>, Refusal>;

    /// Notes that this host applies the work. `false`: the finish has ended, another host applies it, or
    /// the attempt whose branch gets the work is on another host.
    async fn begin_applying(&self, finish: FinishId) -> Result<bool, Refusal>;

    /// Writes how far it is, and that this host has done its part.
    async fn end_applying(&self, finish: &Finish) -> Result<(), Refusal>;

    /// Takes a finish back that no host has begun to apply, or one that is registered no more. `false`:
    /// another host applies it.
    async fn take_back(&self, finish: FinishId) -> Result<bool, Refusal>;

    /// The finishes of other hosts' attempts that are to be applied to attempts of this host.
    async fn to_apply(&self) -> Result<Vec<Finish>, Refusal>;

    /// Waits until there may be such a finish, or another host may have done its part of one.
    async fn finish_news(&self);

    /// The recorded URLs of a repository's remotes, by their names.
    async fn remotes(&self, repo: RepoId) -> Result<BTreeMap<String, String>, Refusal>;

    /// The newest run of checks of an attempt that has a verdict.
    async fn last_checks(&self, attempt: AttemptId) -> Result<Option<CheckRun>, Refusal>;

    async fn check_run(&self, run: CheckRunId) -> Result<Option<CheckRun>, Refusal>;
}
