//! What the verbs for a person at a worktree take (`…Params`) and return. Pure.

use crate::api::commands::Collected;
use crate::api::prelude::*;

/// The attempt that a verb is about.
#[derive(Debug, Serialize, Deserialize)]
pub struct OfAttemptParams {
    pub attempt_id: AttemptId,
}

/// What a shell in an attempt's worktree has beside the person's own environment.
#[derive(Debug, Serialize, Deserialize)]
pub struct Environment {
    /// Ports, and the attempt's own variables.
    pub variables: BTreeMap<String, String>,
}

/// A worktree before a person's programs run in it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Quieted {
    /// What was ended, or can still change the worktree: sentences for the person.
    pub notices: Vec<String>,
}

/// What goes on with an attempt's session in a terminal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByHand(pub provost_actors::process::by_hand::ByHand);

/// What a person did by hand has ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct EndedByHand {}

/// How an attempt was started, as `start_task_attempt` takes it, and its last prompt.
#[derive(Debug, Serialize, Deserialize)]
pub struct StartedAs {
    pub task_id: TaskId,
    pub executor: String,
    pub variant: Option<String>,
    pub repos: Vec<StartedRepo>,
    pub prompt: String,
    pub from_attempt_id: Option<AttemptId>,
    pub from_turn: Option<u32>,
    pub last_prompt: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct StartedRepo {
    pub repo_id: RepoId,
    pub target_branch: String,
}

/// A project to be removed; without `yes` it is only told what that means.
#[derive(Debug, Deserialize)]
pub struct RemoveProjectParams {
    pub project_id: ProjectId,
    #[serde(default)]
    pub yes: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct RemovedProject {
    pub project_id: ProjectId,
    pub name: String,
    /// It is not on the board any more. `false` without `yes`, and if a worktree is kept.
    pub removed: bool,
    /// Its tasks, which go with it.
    pub tasks: usize,
    /// The worktrees of its attempts on this host. The attempts stay readable.
    #[serde(flatten)]
    pub collected: Collected,
    /// Those on other hosts whose daemons are there.
    #[serde(default)]
    pub others: Vec<CollectedOn>,
    /// Those on hosts that are lost, which stay there.
    #[serde(default)]
    pub left: Vec<LeftOn>,
}

/// What another host's daemon has done with its worktrees, or would do.
#[derive(Debug, Serialize, Deserialize)]
pub struct CollectedOn {
    pub host: String,
    #[serde(flatten)]
    pub collected: Collected,
}

/// The attempts of a host that is lost: what it has of them stays on its disk.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOn {
    pub host: String,
    pub attempts: Vec<AttemptId>,
}
