//! What the actors need to know of tasks.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::event::Timestamp;
use crate::ids::{AttemptId, ProjectId, RepoId, TaskId};
use crate::plain;
use crate::refusal::Refusal;

/// The order in which attempts of tasks get slots; higher ones first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    Low,
    #[default]
    Medium,
    High,
    Critical,
}

/// The column of a task on the board.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    #[default]
    Todo,
    InProgress,
    InReview,
    Done,
    Cancelled,
}

/// What the last report, or its checks, made of a task. A task has none where its status says all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewState {
    /// Its worker reported it done; checks or a verification may follow.
    Reported,
    Verified,
    /// Its checks or its verification failed: the worker has to continue.
    Rework,
    Failed,
    Blocked,
    Paused,
}

/// A task, as the board has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub task_id: TaskId,
    /// Its name in its project: `TASK-001`.
    #[serde(default)]
    pub handle: String,
    pub project_id: ProjectId,
    pub title: String,
    pub description: Option<String>,
    pub status: TaskStatus,
    pub priority: Priority,
    pub depends_on: Vec<TaskId>,
    /// The instructions for its worker, as JSON.
    #[serde(default)]
    pub brief: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// What a start of an attempt needs to know of its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartContext {
    pub task: Task,
    pub project_name: String,
    /// All repositories of the project.
    pub repos: Vec<Repo>,
    /// The task's brief, as text for a prompt.
    pub brief: Option<String>,
    /// Why a report of another task asked for this one.
    pub reason: Option<String>,
    /// The task answers a question; its attempt gets one of the slots for answers.
    pub is_answer: bool,
    /// The dependencies that are not done.
    pub unmet: Vec<Unmet>,
}

/// A task that has to be done before another one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Unmet {
    pub task_id: TaskId,
    pub handle: String,
    /// Its newest attempt that has not settled.
    pub running: Option<AttemptId>,
}

/// A repository of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repo {
    pub repo_id: RepoId,
    pub name: String,
    /// Its path on the board, which is where the host that registered it has it.
    pub path: String,
    pub default_target_branch: String,
}

/// A repository of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRepo {
    pub repo_id: RepoId,
    #[serde(deserialize_with = "plain::name")]
    pub name: String,
    /// Where this host has it: at its path on the board, or in a mirror.
    pub path: String,
    /// Its path on the board.
    pub board_path: String,
    #[serde(deserialize_with = "plain::branch")]
    pub target_branch: String,
    /// The commit that the attempt's branch starts from.
    #[serde(deserialize_with = "plain::object")]
    pub base_commit: String,
}

/// What a start reads of the board.
#[async_trait]
pub trait Tasks {
    /// A task with what its start depends on.
    ///
    /// # Errors
    /// `task_not_found`.
    async fn start_context(&self, task: TaskId) -> Result<StartContext, Refusal>;
}
