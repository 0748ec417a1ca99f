//! Projects and their repositories.

use provost_actors::event::Timestamp;
use provost_actors::ids::{ProjectId, RepoId};

use crate::api::args::{Limit, List, Text};

pub const LIST_PROJECTS: &str = "\
Use when: you need a project_id, first of all.
Required: none.
Optional: limit, cursor.
Next: list_tasks or create_task with a project_id.
Avoid: making up a project_id.";

#[apply(input)]
pub struct ListProjectsInput {
    /// Most projects to return; more than 200 counts as 200.
    #[serde(default)]
    pub limit: Limit<50, 200>,
    /// Older page: the `next_cursor` of the last answer, unchanged.
    pub cursor: Option<Text<1, 512>>,
}

#[apply(output)]
pub struct ListProjectsOutput {
    /// The projects, newest first.
    pub projects: Vec<ProjectSummary>,
    /// Give it as cursor to get the next page; null on the last one.
    pub next_cursor: Option<String>,
    /// Whether there are more.
    pub has_more: bool,
}

#[apply(output)]
pub struct ProjectSummary {
    /// Id of the project, a UUID.
    pub project_id: ProjectId,
    /// Name of the project.
    pub name: String,
    /// When it was created, RFC 3339 UTC.
    pub created_at: Timestamp,
    /// When it last changed, RFC 3339 UTC.
    pub updated_at: Timestamp,
}

pub const LIST_REPOS: &str = "\
Use when: you need the repositories of a project, for example to choose the repos of an attempt.
Required: project_id.
Optional: none.
Next: start_task_attempt with repos, if not all at their default branch.
Avoid: calling it before every attempt; without repos an attempt gets all of them.";

#[apply(input)]
pub struct ListReposInput {
    /// Project to list, a UUID from list_projects.
    pub project_id: ProjectId,
}

#[apply(output)]
pub struct ListReposOutput {
    /// The project's repositories, oldest first.
    pub repos: Vec<RepoSummary>,
}

#[apply(output)]
pub struct RepoSummary {
    /// Id of the repository, a UUID.
    pub repo_id: RepoId,
    /// Its name: the last part of its path. File paths in results begin with it.
    pub repo_name: String,
    /// Absolute path of the git repository.
    pub path: String,
    /// Branch that attempts start from by default.
    pub default_target_branch: String,
}

pub const CREATE_PROJECT: &str = "\
Use when: the git repositories you want to work on belong to no project in list_projects yet.
Required: name, repos.
Optional: request_id.
Next: create_task with the project_id.
Avoid: a second project for the same repositories; paths that are not git repositories.";

#[apply(input)]
pub struct CreateProjectInput {
    /// Name of the project, 1 to 200 characters.
    pub name: Text<1, 200>,
    /// Its git repositories, 1 to 50.
    pub repos: List<NewRepo, 1, 50>,
}

/// A git repository to register.
#[apply(input)]
pub struct NewRepo {
    /// Absolute path of a git repository's working tree.
    pub path: Text<1, 4096>,
    /// Branch that attempts start from; the branch checked out now if left out.
    pub target_branch: Option<Text<1, 255>>,
}

#[apply(output)]
pub struct CreateProjectOutput {
    /// Id of the new project, a UUID.
    pub project_id: ProjectId,
    /// Ids of its repositories, UUIDs, in the order given.
    pub repo_ids: Vec<RepoId>,
}

pub const ADD_REPO: &str = "\
Use when: a project needs one more git repository.
Required: project_id, path.
Optional: target_branch, request_id.
Next: start_task_attempt; new attempts get the repository too.
Avoid: a repository whose last path part equals that of another one of the project.";

#[apply(input)]
pub struct AddRepoInput {
    /// Project to add to, a UUID from list_projects.
    pub project_id: ProjectId,
    /// Absolute path of a git repository's working tree.
    pub path: Text<1, 4096>,
    /// Branch that attempts start from; the branch checked out now if left out.
    pub target_branch: Option<Text<1, 255>>,
}

#[apply(output)]
pub struct AddRepoOutput {
    /// Id of the project, a UUID.
    pub project_id: ProjectId,
    /// Id of the new repository, a UUID.
    pub repo_id: RepoId,
}

tools! {
    /// The tools about projects.
    ProjectTools:
    read list_projects(ListProjectsInput) -> ListProjectsOutput;
    read list_repos(ListReposInput) -> ListReposOutput;
    change create_project(CreateProjectInput) -> CreateProjectOutput;
    change add_repo(AddRepoInput) -> AddRepoOutput;
}
