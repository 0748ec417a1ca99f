//! Where the caller is, for an agent inside an attempt.

use async_trait::async_trait;
use provost_actors::ids::{AttemptId, ProjectId, RepoId, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::attempts::Worktree;
use super::tasks::TaskStatus;
use crate::api::{Refusable, Session};

pub const GET_CONTEXT: &str = "\
Use when: you work inside an attempt and want to know which task, branch and repositories it is.
Required: none.
Optional: none.
Next: getNextTask.
Avoid: calling it again; it stays the same for the whole attempt.";

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetContextInput {}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GetContextOutput {
    /// Id of the project, a UUID.
    #[schemars(with = "String")]
    pub project_id: ProjectId,
    /// Name of the project.
    pub project_name: String,
    /// Id of the task, a UUID.
    #[schemars(with = "String")]
    pub task_id: TaskId,
    /// Its handle: TASK-001.
    pub handle: String,
    /// What is to be done.
    pub task_title: String,
    /// todo, inprogress, inreview, done or cancelled.
    pub task_status: TaskStatus,
    /// Id of the attempt you work in, a UUID.
    #[schemars(with = "String")]
    pub attempt_id: AttemptId,
    /// Git branch that the attempt works on.
    pub workspace_branch: String,
    /// Absolute path of its worktree; of several, each by its repository's name.
    #[schemars(with = "Value")]
    pub worktree: Worktree,
    /// The repositories of the attempt.
    pub workspace_repos: Vec<WorkspaceRepo>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceRepo {
    /// Id of the repository, a UUID.
    #[schemars(with = "String")]
    pub repo_id: RepoId,
    /// Name of the repository and of its folder.
    pub repo_name: String,
    /// Branch that the attempt started from.
    pub target_branch: String,
}

/// What the tool about the caller's own attempt asks of the daemon.
#[async_trait]
pub trait ContextTools: Send + Sync {
    async fn get_context(
        &self,
        session: &Session,
        input: GetContextInput,
    ) -> Refusable<GetContextOutput>;
}
