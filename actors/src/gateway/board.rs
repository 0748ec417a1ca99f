//! The board's mutations: checked, then one transaction of the journal, in a
//! task each. The journal's one writer puts them in order.

use std::sync::Arc;

use serde_json::json;

use crate::ids::{ProjectId, TaskId};
use crate::journal::{
    Answer, Journal, Key, NewRepo, NewTask, PlannedTask, ProjectCreated, RepoAdded, TaskChange,
    TaskMade, TaskView,
};
use crate::refusal::{Code, Refusal};

use super::GatewayState;
use super::check;
use super::message::{NewProject, Port, RepoPath};
use super::resolve::{Resolved, resolve};

impl GatewayState {
    pub(super) fn create_project(
        &self,
        key: Option<Key>,
        project: NewProject,
        port: Port<Answer<ProjectCreated>>,
    ) {
        let journal = self.journal();
        answer(port, async move {
            let payload = |repos: &Vec<NewRepo>| json!([project.name, repos]);
            match resolve(&*journal, key, repositories(&project.repos), payload).await? {
                Resolved::Before(answer) => Ok(answer),
                Resolved::Now(key, repos) => {
                    journal.create_project(key.as_ref(), &project.name, &repos).await
                }
            }
        });
    }

    pub(super) fn add_repo(
        &self,
        key: Option<Key>,
        project: ProjectId,
        repo: RepoPath,
        port: Port<Answer<RepoAdded>>,
    ) {
        let journal = self.journal();
        answer(port, async move {
            let payload = |repo: &NewRepo| json!([project, repo]);
            match resolve(&*journal, key, check::repository(&repo, "path"), payload).await? {
                Resolved::Before(answer) => Ok(answer),
                Resolved::Now(key, repo) => journal.add_repo(key.as_ref(), project, &repo).await,
            }
        });
    }

    pub(super) fn create_task(&self, key: Option<Key>, task: NewTask, port: Port<Answer<TaskId>>) {
        let journal = self.journal();
        answer(port, async move { journal.create_task(key.as_ref(), &task).await });
    }

    pub(super) fn update_task(
        &self,
        key: Option<Key>,
        task: TaskId,
        change: TaskChange,
        port: Port<Answer<TaskView>>,
    ) {
        let journal = self.journal();
        answer(port, async move { journal.update_task(key.as_ref(), task, &change).await });
    }

    pub(super) fn delete_task(&self, key: Option<Key>, task: TaskId, port: Port<Answer<TaskId>>) {
        let journal = self.journal();
        answer(port, async move { journal.delete_task(key.as_ref(), task).await });
    }

    pub(super) fn import_tasks(
        &self,
        key: Option<Key>,
        tasks: Vec<PlannedTask>,
        port: Port<Answer<Vec<TaskMade>>>,
    ) {
        let journal = self.journal();
        answer(port, async move { journal.import_tasks(key.as_ref(), &tasks).await });
    }

    fn journal(&self) -> Arc<dyn Journal> {
        Arc::clone(&self.world.journal)
    }
}

async fn repositories(given: &[RepoPath]) -> Result<Vec<NewRepo>, Refusal> {
    let mut repos: Vec<NewRepo> = Vec::new();
    for (n, given) in given.iter().enumerate() {
        let field = format!("repos[{n}].path");
        let repo = check::repository(given, &field).await?;
        if repos.iter().any(|other| other.name == repo.name) {
            return Err(clash(&repo.name, &given.path, &field));
        }
        repos.push(repo);
    }
    Ok(repos)
}

fn clash(name: &str, path: &str, field: &str) -> Refusal {
    Refusal::new(
        Code::InvalidArgument,
        format!("two repositories of the project would be named {name:?}"),
    )
    .hint(format!("Call the tool again with {field}, a repository whose folder has another name."))
    .detail("path", field)
    .detail("repo_path", path)
}

/// Answers with what the work comes to; a caller that has gone needs none.
fn answer<T: Send + 'static>(
    port: Port<T>,
    work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) {
    tokio::spawn(async move { drop(port.send(work.await)) });
}
