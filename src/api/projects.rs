//! Projects and their repositories.

use crate::api::prelude::*;

/// The description of `list_projects`, by which a model decides whether to call it.
pub const LIST_PROJECTS: &str = "\
Use when: you need a project_id, first of all.
Next: list_tasks or create_task with a project_id.
Avoid: making up a project_id.";

#[apply(input)]
pub struct ListProjectsInput {
    pub limit: Limit<50, 200>,
    pub cursor: Option<Text<1, 512>>,
}

#[apply(output)]
pub struct ListProjectsOutput {
    /// The projects, newest first.
    pub projects: Vec<ProjectSummary>,
    pub next_cursor: Option<String>,
    pub has_more: bool,
}

#[apply(output)]
pub struct ProjectSummary {
    pub project_id: ProjectId,
    /// Name of the project.
    pub name: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The description of `list_repos`, by which a model decides whether to call it.
pub const LIST_REPOS: &str = "\
Use when: you need the repositories of a project, to choose some for an attempt.
Next: start_task_attempt with repos, if not all at their default branch.
Avoid: calling it before every attempt, which gets all of them.";

#[apply(input)]
pub struct ListReposInput {
    pub project_id: ProjectId,
}

#[apply(output)]
pub struct ListReposOutput {
    /// The project's repositories, oldest first.
    pub repos: Vec<RepoSummary>,
}

#[apply(output)]
pub struct RepoSummary {
    pub repo_id: RepoId,
    /// Its name: the last part of its path. File paths in results begin with it.
    pub repo_name: String,
    /// Absolute path of the git repository.
    pub path: String,
    /// Branch that attempts start from by default.
    pub default_target_branch: String,
}

/// The description of `create_project`, by which a model decides whether to call it.
pub const CREATE_PROJECT: &str = "\
Use when: the git repositories you want to work on belong to no project in list_projects yet.
Next: create_task with the project_id.
Avoid: a second project for the same repositories.";

#[apply(input)]
pub struct CreateProjectInput {
    /// 1 to 200 characters.
    pub name: Text<1, 200>,
    /// Its git repositories, 1 to 50.
    pub repos: List<NewRepo, 1, 50>,
}

// A git repository to register.
#[apply(input)]
pub struct NewRepo {
    pub path: Text<1, 4096>,
    pub target_branch: Option<Text<1, 255>>,
}

#[apply(output)]
pub struct CreateProjectOutput {
    pub project_id: ProjectId,
    /// Ids of its repositories, UUIDs, in the order given.
    pub repo_ids: Vec<RepoId>,
}

/// The description of `add_repo`, by which a model decides whether to call it.
pub const ADD_REPO: &str = "\
Use when: a project needs one more git repository.
Next: start_task_attempt; new attempts get the repository too.
Avoid: one whose last path part another one of the project has.";

#[apply(input)]
pub struct AddRepoInput {
    pub project_id: ProjectId,
    pub path: Text<1, 4096>,
    pub target_branch: Option<Text<1, 255>>,
}

#[apply(output)]
pub struct AddRepoOutput {
    pub project_id: ProjectId,
    pub repo_id: RepoId,
}

tools! {
    ProjectTools:
    read list_projects(ListProjectsInput) -> ListProjectsOutput;
    read list_repos(ListReposInput) -> ListReposOutput;
    change create_project(CreateProjectInput) -> CreateProjectOutput;
    change add_repo(AddRepoInput) -> AddRepoOutput;
}
