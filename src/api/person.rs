//! What the commands for a person at a worktree take (`…Params`) and return. Pure.

use crate::api::commands::Collected;
use crate::api::prelude::*;

/// The attempt that a command is about.
#[derive(Debug, Serialize, Deserialize)]
pub struct OfAttemptParams {
    pub attempt_id: AttemptId,
}

/// What `provost/environment` returns: the variables of a shell in an attempt's worktree, besides those of
/// the person.
#[derive(Debug, Serialize, Deserialize)]
pub struct Environment {
    /// Ports, and the variables of the attempt.
    pub variables: BTreeMap<String, String>,
}

/// What `provost/quiet_worktree` returns: the worktree is ready for programs of a person.
#[derive(Debug, Serialize, Deserialize)]
pub struct Quieted {
    /// What was ended, and what can still change the worktree: sentences for the person.
    pub notices: Vec<String>,
}

/// What `provost/by_hand` returns: the command that continues an attempt's session in a terminal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByHand(pub provost_actors::process::by_hand::ByHand);

/// What `provost/ended_by_hand` returns, once the person has left the session.
#[derive(Debug, Serialize, Deserialize)]
pub struct EndedByHand {}

/// What `provost/started_as` returns: the arguments of `start_task_attempt` for a similar attempt, and the
/// last prompt.
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

/// A repository of such a start.
#[derive(Debug, Serialize, Deserialize)]
pub struct StartedRepo {
    pub repo_id: RepoId,
    pub target_branch: String,
}

/// What `provost/remove_project` takes; without `yes` it only says what the removal would do.
#[derive(Debug, Deserialize)]
pub struct RemoveProjectParams {
    pub project_id: ProjectId,
    #[serde(default)]
    pub yes: bool,
}

/// What `provost/remove_project` returns.
#[derive(Debug, Serialize, Deserialize)]
pub struct RemovedProject {
    pub project_id: ProjectId,
    pub name: String,
    /// The project is off the board now. `false`: `yes` is missing, or a worktree must be kept.
    pub removed: bool,
    /// How many tasks go with it.
    pub tasks: usize,
    /// The worktrees of its attempts on this host; the attempts stay readable.
    #[serde(flatten)]
    pub collected: Collected,
    /// The worktrees on other hosts whose daemons run.
    #[serde(default)]
    pub others: Vec<CollectedOn>,
    /// The attempts on lost hosts, whose worktrees stay there.
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

/// The attempts of a lost host: their worktrees stay on its disk.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOn {
    pub host: String,
    pub attempts: Vec<AttemptId>,
}
