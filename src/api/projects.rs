//! Projects and their repositories.

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::ids::{ProjectId, RepoId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::args::{Id, Limit, List, Text, Time};
use crate::api::{Key, Once, Refusable, Session};

pub const LIST_PROJECTS: &str = "\
Use when: you need a project_id, first of all.
Required: none.
Optional: limit, cursor.
Next: list_tasks or create_task with a project_id.
Avoid: making up a project_id.";

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListProjectsInput {
    /// Most projects to return; more than 200 counts as 200.
    #[serde(default)]
    pub limit: Limit<50, 200>,
    /// Older page: the `next_cursor` of the last answer, unchanged.
    pub cursor: Option<Text<1, 512>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListProjectsOutput {
    /// The projects, newest first.
    pub projects: Vec<ProjectSummary>,
    /// Give it as cursor to get the next page; null on the last one.
    pub next_cursor: Option<String>,
    /// Whether there are more.
    pub has_more: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectSummary {
    /// Id of the project, a UUID.
    #[schemars(with = "String")]
    pub project_id: ProjectId,
    /// Name of the project.
    pub name: String,
    /// When it was created, RFC 3339 UTC.
    #[schemars(with = "Time")]
    pub created_at: Timestamp,
    /// When it last changed, RFC 3339 UTC.
    #[schemars(with = "Time")]
    pub updated_at: Timestamp,
}

pub const LIST_REPOS: &str = "\
Use when: you need the repositories of a project, for example to choose the repos of an attempt.
Required: project_id.
Optional: none.
Next: start_task_attempt with repos, if not all at their default branch.
Avoid: calling it before every attempt; without repos an attempt gets all of them.";

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListReposInput {
    /// Project to list, a UUID from list_projects.
    #[schemars(with = "Id")]
    pub project_id: ProjectId,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListReposOutput {
    /// The project's repositories, oldest first.
    pub repos: Vec<RepoSummary>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RepoSummary {
    /// Id of the repository, a UUID.
    #[schemars(with = "String")]
    pub repo_id: RepoId,
    /// Its name: the last part of its path. File paths in results begin with it.
    pub repo_name: String,
    /// Absolute path of the git repository.
    pub path: String,
    /// Branch that attempts start from unless told otherwise.
    pub default_target_branch: String,
}

pub const CREATE_PROJECT: &str = "\
Use when: the git repositories you want to work on belong to no project in list_projects yet.
Required: name, repos.
Optional: request_id.
Next: create_task with the project_id.
Avoid: a second project for the same repositories; paths that are not git repositories.";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateProjectInput {
    /// Name of the project, 1 to 200 characters.
    pub name: Text<1, 200>,
    /// Its git repositories, 1 to 50.
    pub repos: List<NewRepo, 1, 50>,
}

/// A git repository to register.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRepo {
    /// Absolute path of a git repository's working tree.
    pub path: Text<1, 4096>,
    /// Branch that attempts start from; the branch checked out now if left out.
    pub target_branch: Option<Text<1, 255>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CreateProjectOutput {
    /// Id of the new project, a UUID.
    #[schemars(with = "String")]
    pub project_id: ProjectId,
    /// Ids of its repositories, UUIDs, in the order given.
    #[schemars(with = "Vec<String>")]
    pub repo_ids: Vec<RepoId>,
}

pub const ADD_REPO: &str = "\
Use when: a project needs one more git repository.
Required: project_id, path.
Optional: target_branch, request_id.
Next: start_task_attempt; new attempts get the repository too.
Avoid: a repository whose last path part equals that of another one of the project.";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddRepoInput {
    /// Project to add to, a UUID from list_projects.
    #[schemars(with = "Id")]
    pub project_id: ProjectId,
    /// Absolute path of a git repository's working tree.
    pub path: Text<1, 4096>,
    /// Branch that attempts start from; the branch checked out now if left out.
    pub target_branch: Option<Text<1, 255>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AddRepoOutput {
    /// Id of the project, a UUID.
    #[schemars(with = "String")]
    pub project_id: ProjectId,
    /// Id of the new repository, a UUID.
    #[schemars(with = "String")]
    pub repo_id: RepoId,
}

/// What the tools about projects ask of the daemon.
#[async_trait]
pub trait ProjectTools: Send + Sync {
    async fn list_projects(
        &self,
        session: &Session,
        input: ListProjectsInput,
    ) -> Refusable<ListProjectsOutput>;

    async fn list_repos(
        &self,
        session: &Session,
        input: ListReposInput,
    ) -> Refusable<ListReposOutput>;

    async fn create_project(
        &self,
        session: &Session,
        key: Option<Key>,
        input: CreateProjectInput,
    ) -> Refusable<Once<CreateProjectOutput>>;

    async fn add_repo(
        &self,
        session: &Session,
        key: Option<Key>,
        input: AddRepoInput,
    ) -> Refusable<Once<AddRepoOutput>>;
}
