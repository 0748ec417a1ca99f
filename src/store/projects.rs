//! Projects and their repositories.

use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, ProjectId, RepoId};
use provost_actors::journal::{Answer, Key, NewRepo, ProjectCreated, Repo, RepoAdded};
use provost_actors::refusal::{Code, Refusal};
use sqlx::FromRow;

use super::{Page, Store, Writing, codec, commit, fault, missing, requests, rows_for};

/// A project as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectView {
    pub project_id: ProjectId,
    pub name: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(FromRow)]
struct ProjectRow {
    project_id: String,
    name: String,
    created_at: i64,
    updated_at: i64,
}

impl ProjectRow {
    fn view(self) -> Result<ProjectView, Refusal> {
        Ok(ProjectView {
            project_id: codec::id(&self.project_id)?,
            name: self.name,
            created_at: Timestamp::from_millis(self.created_at),
            updated_at: Timestamp::from_millis(self.updated_at),
        })
    }
}

#[derive(FromRow)]
struct RepoRow {
    repo_id: String,
    name: String,
    path: String,
    default_target_branch: String,
}

impl RepoRow {
    fn repo(self) -> Result<Repo, Refusal> {
        Ok(Repo {
            repo_id: codec::id(&self.repo_id)?,
            name: self.name,
            path: self.path,
            default_target_branch: self.default_target_branch,
        })
    }
}

pub(super) async fn require(writing: Writing<'_>, project: ProjectId) -> Result<String, Refusal> {
    sqlx::query_scalar("SELECT name FROM projects WHERE project_id = ?1")
        .bind(project.to_string())
        .fetch_optional(writing)
        .await
        .map_err(fault)?
        .ok_or_else(|| missing::project(project))
}

pub(super) async fn repos_of(
    writing: Writing<'_>,
    project: ProjectId,
) -> Result<Vec<Repo>, Refusal> {
    let rows: Vec<RepoRow> = sqlx::query_as(
        "SELECT repo_id, name, path, default_target_branch FROM repos
         WHERE project_id = ?1 ORDER BY repo_id",
    )
    .bind(project.to_string())
    .fetch_all(writing)
    .await
    .map_err(fault)?;
    rows.into_iter().map(RepoRow::repo).collect()
}

async fn insert_repo(
    writing: Writing<'_>,
    project: ProjectId,
    repo: &NewRepo,
    now: i64,
) -> Result<RepoAdded, Refusal> {
    let taken: Option<String> =
        sqlx::query_scalar("SELECT path FROM repos WHERE project_id = ?1 AND name = ?2")
            .bind(project.to_string())
            .bind(&repo.name)
            .fetch_optional(&mut *writing)
            .await
            .map_err(fault)?;
    if let Some(path) = taken {
        return Err(Refusal::new(
            Code::InvalidArgument,
            format!("the project has a repository named {:?} already, at {path}", repo.name),
        )
        .hint("Call the tool again with path, a repository whose folder has another name.")
        .detail("repo_path", repo.path.as_str()));
    }
    let repo_id = RepoId::new();
    sqlx::query(
        "INSERT INTO repos (repo_id, project_id, name, path, default_target_branch, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )
    .bind(repo_id.to_string())
    .bind(project.to_string())
    .bind(&repo.name)
    .bind(&repo.path)
    .bind(&repo.default_target_branch)
    .bind(now)
    .execute(writing)
    .await
    .map_err(fault)?;
    Ok(RepoAdded {
        repo_id,
        repo_name: repo.name.clone(),
        path: repo.path.clone(),
        default_target_branch: repo.default_target_branch.clone(),
    })
}

impl Store {
    /// All repositories: each one's project and path, those of a project together.
    pub async fn repositories(&self) -> Result<Vec<(ProjectId, String)>, Refusal> {
        let rows: Vec<(String, String)> =
            sqlx::query_as("SELECT project_id, path FROM repos ORDER BY project_id, repo_id")
                .fetch_all(&self.reader)
                .await
                .map_err(fault)?;
        rows.into_iter().map(|(project, path)| Ok((codec::id(&project)?, path))).collect()
    }

    /// The project of an attempt.
    pub async fn project_of(&self, attempt: AttemptId) -> Result<ProjectId, Refusal> {
        let project: String = sqlx::query_scalar(
            "SELECT t.project_id FROM attempts a JOIN tasks t ON t.task_id = a.task_id
             WHERE a.attempt_id = ?1",
        )
        .bind(attempt.to_string())
        .fetch_optional(&self.reader)
        .await
        .map_err(fault)?
        .ok_or_else(|| missing::attempt(attempt))?;
        codec::id(&project)
    }

    /// The projects, oldest first, after the given one.
    pub async fn projects(
        &self,
        limit: usize,
        after: Option<ProjectId>,
    ) -> Result<Page<ProjectView>, Refusal> {
        let rows: Vec<ProjectRow> = sqlx::query_as(
            "SELECT project_id, name, created_at, updated_at FROM projects
             WHERE project_id > ?1 ORDER BY project_id LIMIT ?2",
        )
        .bind(after.map_or_else(String::new, |id| id.to_string()))
        .bind(rows_for(limit))
        .fetch_all(&self.reader)
        .await
        .map_err(fault)?;
        let items = rows.into_iter().map(ProjectRow::view).collect::<Result<_, _>>()?;
        Ok(Page::cut(items, limit))
    }

    /// A project's repositories, in the order in which they were added.
    pub async fn repos(&self, project: ProjectId) -> Result<Vec<Repo>, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        require(&mut reading, project).await?;
        repos_of(&mut reading, project).await
    }

    pub(super) async fn insert_project(
        &self,
        key: Option<&Key>,
        name: &str,
        repos: &[NewRepo],
    ) -> Result<Answer<ProjectCreated>, Refusal> {
        let mut writing = self.writing_patiently().await?;
        if let Some(answer) = requests::kept(&mut writing, key).await? {
            return Ok(answer);
        }
        let project_id = ProjectId::new();
        let now = Timestamp::now().millis();
        sqlx::query(
            "INSERT INTO projects (project_id, name, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?3)",
        )
        .bind(project_id.to_string())
        .bind(name)
        .bind(now)
        .execute(&mut *writing)
        .await
        .map_err(fault)?;
        let mut added = Vec::new();
        for repo in repos {
            added.push(insert_repo(&mut writing, project_id, repo, now).await?);
        }
        let value = ProjectCreated { project_id, repos: added };
        let answer = requests::keep(&mut writing, key, value).await?;
        commit(writing, "create_project").await?;
        Ok(answer)
    }

    pub(super) async fn insert_repo(
        &self,
        key: Option<&Key>,
        project: ProjectId,
        repo: &NewRepo,
    ) -> Result<Answer<RepoAdded>, Refusal> {
        let mut writing = self.writing_patiently().await?;
        if let Some(answer) = requests::kept(&mut writing, key).await? {
            return Ok(answer);
        }
        require(&mut writing, project).await?;
        let now = Timestamp::now().millis();
        let added = insert_repo(&mut writing, project, repo, now).await?;
        sqlx::query("UPDATE projects SET updated_at = ?2 WHERE project_id = ?1")
            .bind(project.to_string())
            .bind(now)
            .execute(&mut *writing)
            .await
            .map_err(fault)?;
        let answer = requests::keep(&mut writing, key, added).await?;
        commit(writing, "add_repo").await?;
        Ok(answer)
    }
}
