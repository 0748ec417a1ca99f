//! Projects and their repositories.

use std::collections::BTreeMap;

use provost_actors::event::Timestamp;
use provost_actors::gateway::NewRepo;
use provost_actors::ids::{AttemptId, ProjectId, RepoId, TaskId};
use provost_actors::journal::{Idempotent, Key};
use serde::Deserialize;
use serde_json::json;

use super::work::after_removed;
use super::{Code, Db, Page, Refusal, Result, RetryBudget, Sql, Store, bundles, not_found, now};
use crate::api::projects::{AddRepoOutput, CreateProjectOutput, ProjectSummary, RepoSummary};

/// A repository of the board with its path.
#[derive(Debug, Deserialize)]
pub struct RepositoryPath {
    pub repo_id: RepoId,
    pub path: String,
}

/// What a listing of kept work says of the attempt that made it.
#[derive(Debug, Deserialize)]
pub struct KeptOf {
    pub task_title: String,
    pub project_name: String,
    pub project_id: ProjectId,
    pub updated_at: Timestamp,
}

/// The refusal to remove a project while one of its attempts is queued or runs.
pub fn busy_project(attempt: AttemptId) -> Refusal {
    let message = format!("attempt {attempt} of the project is queued or running");
    Refusal::new(Code::AttemptRunning, message)
        .hint(format!("Call stop_attempt with attempt_id = \"{attempt}\", then the tool again."))
        .detail("attempt_id", attempt.to_string())
}

/// The name of a project; refused if the project does not exist or was removed.
pub(super) async fn require(db: Db<'_>, project: ProjectId) -> Result<String> {
    let sql = "SELECT name FROM projects WHERE project_id = $1 AND deleted_at IS NULL";
    let name = db.find(sql, (project,)).await?;
    name.ok_or_else(|| not_found::project(project).into())
}

/// Adds a repository with its remotes. Refused if the project has another one with this name: worktrees are
/// named after their repositories.
async fn insert_repo(db: Db<'_>, project: ProjectId, repo: &NewRepo, now: i64) -> Result<RepoId> {
    let sql = "SELECT path FROM repos WHERE project_id = $1 AND name = $2";
    let taken: Option<String> = db.find(sql, (project, &repo.name)).await?;
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
    let row = json!({
        "repo_id": repo_id, "project_id": project, "name": repo.name, "path": repo.path,
        "default_target_branch": repo.default_target_branch, "created_at": now,
    });
    db.insert("INTO repos", row).await?;
    record_remotes(db, repo_id, &repo.remotes).await?;
    Ok(repo_id)
}

/// Replaces the recorded remotes of a repository.
async fn record_remotes(
    db: Db<'_>,
    repo: RepoId,
    remotes: &BTreeMap<String, String>,
) -> Result<()> {
    db.run("DELETE FROM remotes WHERE repo_id = $1", (repo,)).await?;
    for (name, url) in remotes {
        db.insert("INTO remotes", json!({"repo_id": repo, "name": name, "url": url})).await?;
    }
    Ok(())
}

impl Store {
    /// The repositories of all projects on the board, each with its project; those of a project are adjacent.
    pub async fn repositories(&self) -> Result<Vec<(ProjectId, String)>, Refusal> {
        let sql = "SELECT project_id, path FROM repos
             WHERE project_id IN (SELECT project_id FROM projects WHERE deleted_at IS NULL)
             ORDER BY project_id, repo_id";
        self.read(async |db| db.all(sql, ()).await).await
    }

    /// The repositories of all projects, removed ones included; each path once, with its newest id.
    pub async fn repository_paths(&self) -> Result<Vec<RepositoryPath>, Refusal> {
        let sql = "SELECT max(repo_id) AS repo_id, path FROM repos GROUP BY path ORDER BY path";
        self.read(async |db| db.all(sql, ()).await).await
    }

    /// The task and project of an attempt; `None`: no attempt has this id. Removed projects count too.
    pub async fn kept_of(&self, attempt: AttemptId) -> Result<Option<KeptOf>, Refusal> {
        let sql = "SELECT t.title AS task_title, p.name AS project_name, p.project_id, a.updated_at
             FROM attempts a JOIN tasks t ON t.task_id = a.task_id
             JOIN projects p ON p.project_id = t.project_id WHERE a.attempt_id = $1";
        self.read(async |db| db.find(sql, (attempt,)).await).await
    }

    /// The project of an attempt; refused if the attempt is unknown.
    pub async fn project_of(&self, attempt: AttemptId) -> Result<ProjectId, Refusal> {
        let sql = "SELECT t.project_id FROM attempts a JOIN tasks t ON t.task_id = a.task_id
             WHERE a.attempt_id = $1";
        let project = self.read(async |db| db.find(sql, (attempt,)).await).await?;
        project.ok_or_else(|| not_found::attempt(attempt))
    }

    /// The name of a project on the board; refused if it is not there.
    pub async fn project_name(&self, project: ProjectId) -> Result<String, Refusal> {
        self.read(async |db| require(db, project).await).await
    }

    /// A page of the projects, newest first, made before the project `before`.
    pub async fn projects(
        &self,
        limit: usize,
        before: Option<ProjectId>,
    ) -> Result<Page<ProjectSummary>, Refusal> {
        let sql = "SELECT * FROM projects
             WHERE (project_id < $1 OR $1 IS NULL) AND deleted_at IS NULL
             ORDER BY project_id DESC LIMIT $2";
        let read = async |db: Db<'_>| db.all(sql, (before, limit + 1)).await;
        Ok(Page::cut(self.read_once("projects", (before, limit), read).await?, limit))
    }

    /// A project's repositories, in the order of their addition.
    pub async fn repos(&self, project: ProjectId) -> Result<Vec<RepoSummary>, Refusal> {
        let sql = "SELECT *, name AS repo_name FROM repos WHERE project_id = $1 ORDER BY repo_id";
        self.read(async |db| {
            require(db, project).await?;
            db.all(sql, (project,)).await
        })
        .await
    }

    /// Records the remotes of a repository, each name with its URL. The caller is a person who has seen the
    /// URLs.
    pub async fn record_remotes(
        &self,
        repo: RepoId,
        remotes: &BTreeMap<String, String>,
    ) -> Result<(), Refusal> {
        self.write(RetryBudget::Long, "remotes", async |db| record_remotes(db, repo, remotes).await)
            .await
    }

    /// Changes the branch from which attempts in a repository start by default.
    pub async fn set_target_branch(&self, repo: RepoId, branch: &str) -> Result<(), Refusal> {
        let sql = "UPDATE repos SET default_target_branch = $2 WHERE repo_id = $1";
        self.write(RetryBudget::Long, "set_target_branch", async |db| {
            match db.run(sql, (repo, branch)).await? {
                0 => {
                    let message = format!("there is no repository {repo}");
                    Err(Refusal::new(Code::RepoNotFound, message).into())
                }
                _ => Ok(()),
            }
        })
        .await
    }

    /// `create_project`: the project with all of its repositories, or nothing.
    pub async fn create_project(
        &self,
        key: Option<&Key>,
        name: &str,
        repos: &[NewRepo],
    ) -> Result<Idempotent<CreateProjectOutput>, Refusal> {
        self.keyed(RetryBudget::Long, key, "create_project", async |db| {
            let (project_id, now) = (ProjectId::new(), now());
            let row = json!({
                "project_id": project_id, "name": name, "created_at": now, "updated_at": now,
            });
            db.insert("INTO projects", row).await?;
            let mut repo_ids = Vec::new();
            for repo in repos {
                let repo_id = insert_repo(db, project_id, repo, now).await?;
                self.note_here(db, repo_id, &repo.path).await?;
                repo_ids.push(repo_id);
            }
            Ok(CreateProjectOutput { project_id, repo_ids })
        })
        .await
    }

    /// The name of a project, and how many tasks it has on the board.
    pub async fn project_size(&self, project: ProjectId) -> Result<(String, usize), Refusal> {
        let sql = "SELECT count(*) FROM tasks WHERE project_id = $1 AND deleted_at IS NULL";
        self.read(async |db| Ok((require(db, project).await?, db.one(sql, (project,)).await?)))
            .await
    }

    /// Takes a project with its tasks off the board. The rows stay, because the attempts stay readable.
    /// Refused while an attempt is queued or runs.
    pub async fn remove_project(&self, project: ProjectId) -> Result<(), Refusal> {
        self.write(RetryBudget::Long, "remove_project", async |db| {
            require(db, project).await?;
            let sql = "SELECT a.attempt_id FROM attempts a JOIN tasks t ON t.task_id = a.task_id
                 WHERE t.project_id = $1
                   AND a.phase IN ('queued', 'preparing', 'running', 'stopping') LIMIT 1";
            let busy: Option<AttemptId> = db.find(sql, (project,)).await?;
            if let Some(attempt) = busy {
                return Err(busy_project(attempt).into());
            }
            let of_project =
                "SELECT a.attempt_id FROM attempts a JOIN tasks t ON t.task_id = a.task_id
                 WHERE t.project_id = $1";
            bundles::withdraw(db, of_project, project).await?;
            let sql = "SELECT task_id FROM tasks WHERE project_id = $1 AND deleted_at IS NULL";
            let tasks: Vec<TaskId> = db.all(sql, (project,)).await?;
            let now = now();
            let sql = "UPDATE tasks SET deleted_at = $2, updated_at = $2
                 WHERE project_id = $1 AND deleted_at IS NULL";
            db.run(sql, (project, now)).await?;
            for task in tasks {
                after_removed(db, task).await?;
            }
            let sql = "UPDATE projects SET deleted_at = $2, updated_at = $2 WHERE project_id = $1";
            db.run(sql, (project, now)).await.map(drop)
        })
        .await
    }

    /// `add_repo`: adds a repository to a project.
    pub async fn add_repo(
        &self,
        key: Option<&Key>,
        project_id: ProjectId,
        repo: &NewRepo,
    ) -> Result<Idempotent<AddRepoOutput>, Refusal> {
        self.keyed(RetryBudget::Long, key, "add_repo", async |db| {
            require(db, project_id).await?;
            let now = now();
            let repo_id = insert_repo(db, project_id, repo, now).await?;
            self.note_here(db, repo_id, &repo.path).await?;
            let sql = "UPDATE projects SET updated_at = $2 WHERE project_id = $1";
            db.run(sql, (project_id, now)).await?;
            Ok(AddRepoOutput { project_id, repo_id })
        })
        .await
    }
}
