//! Projects and their repositories.

use provost_actors::event::Timestamp;
use provost_actors::gateway::NewRepo;
use provost_actors::ids::{AttemptId, ProjectId, RepoId};
use provost_actors::journal::{Key, Once, Repo};
use provost_actors::refusal::{Code, Refusal};
use serde::{Deserialize, Serialize};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::codec::{Columns, Text};
use super::write_retry::Patience;
use super::{Page, Result, Store, Writing, missing, rows_for};

/// A project as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectView {
    pub project_id: ProjectId,
    pub name: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A project that was created, with its repositories in the order of the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectCreated {
    pub project_id: ProjectId,
    pub repos: Vec<RepoAdded>,
}

/// A repository that was registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepoAdded {
    pub repo_id: RepoId,
    pub repo_name: String,
    pub path: String,
    pub default_target_branch: String,
}

/// The name of a project, which must exist.
pub(super) async fn require(writing: Writing<'_>, project: ProjectId) -> Result<String> {
    let name = sqlx::query_scalar("SELECT name FROM projects WHERE project_id = ?1")
        .bind(Text(project))
        .fetch_optional(writing)
        .await?;
    name.ok_or_else(|| missing::project(project).into())
}

/// A project's repositories, in the order in which they were added.
pub(super) async fn repos_of(writing: Writing<'_>, project: ProjectId) -> Result<Vec<Repo>> {
    let repo = |row: SqliteRow| {
        Ok(Repo {
            repo_id: row.text("repo_id")?,
            name: row.try_get("name")?,
            path: row.try_get("path")?,
            default_target_branch: row.try_get("default_target_branch")?,
        })
    };
    Ok(sqlx::query("SELECT * FROM repos WHERE project_id = ?1 ORDER BY repo_id")
        .bind(Text(project))
        .try_map(repo)
        .fetch_all(writing)
        .await?)
}

async fn insert_repo(
    writing: Writing<'_>,
    project: ProjectId,
    repo: &NewRepo,
    now: i64,
) -> Result<RepoAdded> {
    let taken: Option<String> =
        sqlx::query_scalar("SELECT path FROM repos WHERE project_id = ?1 AND name = ?2")
            .bind(Text(project))
            .bind(&repo.name)
            .fetch_optional(&mut *writing)
            .await?;
    if let Some(path) = taken {
        return Err(Refusal::new(
            Code::InvalidArgument,
            format!("the project has a repository named {:?} already, at {path}", repo.name),
        )
        .hint("Call the tool again with path, a repository whose folder has another name.")
        .detail("repo_path", repo.path.as_str())
        .into());
    }
    let repo_id = RepoId::new();
    sqlx::query(
        "INSERT INTO repos (repo_id, project_id, name, path, default_target_branch, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )
    .bind(Text(repo_id))
    .bind(Text(project))
    .bind(&repo.name)
    .bind(&repo.path)
    .bind(&repo.default_target_branch)
    .bind(now)
    .execute(writing)
    .await?;
    let NewRepo { name: repo_name, path, default_target_branch } = repo.clone();
    Ok(RepoAdded { repo_id, repo_name, path, default_target_branch })
}

impl Store {
    /// All repositories: each one's project and path, those of a project together.
    pub async fn repositories(&self) -> Result<Vec<(ProjectId, String)>, Refusal> {
        self.read(async |reading| {
            let rows: Vec<(Text<ProjectId>, String)> =
                sqlx::query_as("SELECT project_id, path FROM repos ORDER BY project_id, repo_id")
                    .fetch_all(reading)
                    .await?;
            Ok(rows.into_iter().map(|(Text(project), path)| (project, path)).collect())
        })
        .await
    }

    /// The project of an attempt.
    pub async fn project_of(&self, attempt: AttemptId) -> Result<ProjectId, Refusal> {
        self.read(async |reading| {
            let project: Option<Text<ProjectId>> = sqlx::query_scalar(
                "SELECT t.project_id FROM attempts a JOIN tasks t ON t.task_id = a.task_id
                 WHERE a.attempt_id = ?1",
            )
            .bind(Text(attempt))
            .fetch_optional(reading)
            .await?;
            Ok(project.ok_or_else(|| missing::attempt(attempt))?.0)
        })
        .await
    }

    /// The projects, oldest first, after the given one.
    pub async fn projects(
        &self,
        limit: usize,
        after: Option<ProjectId>,
    ) -> Result<Page<ProjectView>, Refusal> {
        let project = |row: SqliteRow| {
            Ok(ProjectView {
                project_id: row.text("project_id")?,
                name: row.try_get("name")?,
                created_at: row.at("created_at")?,
                updated_at: row.at("updated_at")?,
            })
        };
        self.read(async |reading| {
            let items = sqlx::query(
                "SELECT * FROM projects WHERE project_id > coalesce(?1, '')
                 ORDER BY project_id LIMIT ?2",
            )
            .bind(after.map(Text))
            .bind(rows_for(limit))
            .try_map(project)
            .fetch_all(reading)
            .await?;
            Ok(Page::cut(items, limit))
        })
        .await
    }

    /// A project's repositories, in the order in which they were added.
    pub async fn repos(&self, project: ProjectId) -> Result<Vec<Repo>, Refusal> {
        self.read(async |reading| {
            require(reading, project).await?;
            repos_of(reading, project).await
        })
        .await
    }

    /// `create_project`: the project with all of its repositories, or nothing.
    pub async fn create_project(
        &self,
        key: Option<&Key>,
        name: &str,
        repos: &[NewRepo],
    ) -> Result<Once<ProjectCreated>, Refusal> {
        self.keyed(Patience::Owner, key, "create_project", async |writing| {
            let project_id = ProjectId::new();
            let now = Timestamp::now().millis();
            sqlx::query(
                "INSERT INTO projects (project_id, name, created_at, updated_at)
                 VALUES (?1, ?2, ?3, ?3)",
            )
            .bind(Text(project_id))
            .bind(name)
            .bind(now)
            .execute(&mut *writing)
            .await?;
            let mut added = Vec::new();
            for repo in repos {
                added.push(insert_repo(writing, project_id, repo, now).await?);
            }
            Ok(ProjectCreated { project_id, repos: added })
        })
        .await
    }

    /// `add_repo`.
    pub async fn add_repo(
        &self,
        key: Option<&Key>,
        project: ProjectId,
        repo: &NewRepo,
    ) -> Result<Once<RepoAdded>, Refusal> {
        self.keyed(Patience::Owner, key, "add_repo", async |writing| {
            require(writing, project).await?;
            let now = Timestamp::now().millis();
            let added = insert_repo(writing, project, repo, now).await?;
            sqlx::query("UPDATE projects SET updated_at = ?2 WHERE project_id = ?1")
                .bind(Text(project))
                .bind(now)
                .execute(writing)
                .await?;
            Ok(added)
        })
        .await
    }
}
