//! Where the caller is, for an agent inside an attempt.

use crate::api::prelude::*;

pub const GET_CONTEXT: &str = "\
Use when: you work inside an attempt and want to know which task, branch and repositories it is.
Next: getNextTask.
Avoid: calling it again; it stays the same for the whole attempt.";

#[apply(input)]
pub struct GetContextInput {}

#[apply(output)]
pub struct GetContextOutput {
    pub project_id: ProjectId,
    /// Name of the project.
    pub project_name: String,
    pub task_id: TaskId,
    pub handle: String,
    /// The work in a line.
    pub task_title: String,
    pub task_status: TaskStatus,
    pub attempt_id: AttemptId,
    pub workspace_branch: String,
    pub worktree: Worktree,
    /// The repositories of the attempt.
    pub workspace_repos: Vec<WorkspaceRepo>,
}

#[apply(output)]
pub struct WorkspaceRepo {
    pub repo_id: RepoId,
    /// Name of the repository and of its folder.
    pub repo_name: String,
    /// Branch that the attempt started from.
    pub target_branch: String,
}

tools! { ContextTools: read get_context(GetContextInput) -> GetContextOutput; }
