//! The board's mutations: checked, then one transaction of the journal, in a
//! task each. The journal's one writer puts them in order.

use std::sync::Arc;

use crate::ids::{ProjectId, TaskId};
use crate::journal::{
    Answer, Journal, Key, NewRepo, NewTask, ProjectCreated, RepoAdded, TaskChange, TaskView,
    remembered,
};
use crate::refusal::{Code, Refusal};

use super::State;
use super::check;
use super::message::{NewProject, Port, RepoPath};

impl State {
    pub(super) fn create_project(
        &self,
        key: Option<Key>,
        project: NewProject,
        port: Port<Answer<ProjectCreated>>,
    ) {
        let journal = self.journal();
        answer(port, async move {
            // Before the checks: what was true at the first call need not be now.
            if let Some(answer) = remembered(&*journal, key.as_ref()).await? {
                return Ok(answer);
            }
            let mut repos = Vec::new();
            for given in &project.repos {
                let repo = check::repository(given).await?;
                if repos.iter().any(|other: &NewRepo| other.name == repo.name) {
                    return Err(clash(&repo.name, &given.path));
                }
                repos.push(repo);
            }
            journal.create_project(key.as_ref(), &project.name, &repos).await
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
            if let Some(answer) = remembered(&*journal, key.as_ref()).await? {
                return Ok(answer);
            }
            let repo = check::repository(&repo).await?;
            journal.add_repo(key.as_ref(), project, &repo).await
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

    fn journal(&self) -> Arc<dyn Journal> {
        Arc::clone(&self.world.journal)
    }
}

fn clash(name: &str, path: &str) -> Refusal {
    Refusal::new(
        Code::InvalidArgument,
        format!("two repositories of the project would be named {name:?}"),
    )
    .hint("Use repositories whose folders have different names.")
    .detail("repo_path", path)
}

/// Answers with what the work comes to; a caller that has gone needs none.
fn answer<T: Send + 'static>(
    port: Port<T>,
    work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) {
    tokio::spawn(async move { drop(port.send(work.await)) });
}
