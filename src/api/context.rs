//! Where the caller is, for an agent inside an attempt.

use provost_actors::ids::{AttemptId, ProjectId, RepoId, TaskId};
use schemars::JsonSchema;
use serde::Deserialize;

use super::attempts::Worktree;
use super::tasks::TaskStatus;

pub const GET_CONTEXT: &str = "\
Use when: you work inside an attempt and want to know which task, branch and repositories it is.
Required: none.
Optional: none.
Next: getNextTask.
Avoid: calling it again; it stays the same for the whole attempt.";

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetContextInput {}

#[apply(output)]
pub struct GetContextOutput {
    /// Id of the project, a UUID.
    pub project_id: ProjectId,
    /// Name of the project.
    pub project_name: String,
    /// Id of the task, a UUID.
    pub task_id: TaskId,
    /// Its handle: TASK-001.
    pub handle: String,
    /// The work in a line.
    pub task_title: String,
    /// todo, inprogress, inreview, done or cancelled.
    pub task_status: TaskStatus,
    /// Id of the attempt you work in, a UUID.
    pub attempt_id: AttemptId,
    /// Git branch that the attempt works on.
    pub workspace_branch: String,
    /// Absolute path of its worktree; of several, each by its repository's name.
    pub worktree: Worktree,
    /// The repositories of the attempt.
    pub workspace_repos: Vec<WorkspaceRepo>,
}

#[apply(output)]
pub struct WorkspaceRepo {
    /// Id of the repository, a UUID.
    pub repo_id: RepoId,
    /// Name of the repository and of its folder.
    pub repo_name: String,
    /// Branch that the attempt started from.
    pub target_branch: String,
}

tools! {
    /// What the tool about the caller's own attempt asks of the daemon.
    ContextTools:
    read get_context(GetContextInput) -> GetContextOutput;
}
