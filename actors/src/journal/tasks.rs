//! What the actors need to know of tasks.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::event::Timestamp;
use crate::ids::{AttemptId, ProjectId, RepoId, TaskId};
use crate::plain;
use crate::refusal::Refusal;

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

/// The review state of a task, which the last report set; `None` where the status says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewState {
    Reported,
    Verified,
    /// Its checks or its verification failed.
    Rework,
    Failed,
    Blocked,
    Paused,
}

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

/// What a start of an attempt of a task depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartContext {
    pub task: Task,
    pub project_name: String,
    pub repos: Vec<Repo>,
    /// The task's brief, as text.
    pub brief: Option<String>,
    /// Why a report made the task.
    pub reason: Option<String>,
    /// The task is to answer a question.
    pub is_answer: bool,
    /// Dependencies that are not done.
    pub unmet: Vec<Unmet>,
}

/// A task that has to be done first.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Unmet {
    pub task_id: TaskId,
    pub handle: String,
    /// Its newest attempt that has not settled.
    pub running: Option<AttemptId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repo {
    pub repo_id: RepoId,
    pub name: String,
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

#[async_trait]
pub trait Tasks {
    async fn start_context(&self, task: TaskId) -> Result<StartContext, Refusal>;
}
