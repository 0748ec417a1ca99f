//! The tools for projects, repositories, executors and tasks. Each is one call of the store; a repository
//! is checked first, outside of the transaction, because that runs git.

use std::sync::Arc;

use async_trait::async_trait;
use provost_actors::executor::Executor;
use provost_actors::gateway::{NewRepo, check_repository};
use provost_actors::journal::{Resolved, resolve};
use provost_actors::radar;
use serde_json::json;

use super::{Domain, answered, blocking, cursor};
use crate::api::executors::{
    ExecutorSummary, ExecutorTools, ListExecutorsInput, ListExecutorsOutput,
};
use crate::api::projects::{
    AddRepoInput, AddRepoOutput, CreateProjectInput, CreateProjectOutput, ListProjectsInput,
    ListProjectsOutput, ListReposInput, ListReposOutput, ProjectTools,
};
use crate::api::tasks::{
    CheckedTask, CreateTaskInput, CreateTaskOutput, DeleteTaskInput, DeleteTaskOutput,
    GetTaskInput, GetTaskOutput, ListTasksInput, ListTasksOutput, TaskOutput, TaskTools,
    UpdateTaskInput,
};
use crate::api::{Caller, Code, Idempotent, Key, Refusable, Refusal};

#[async_trait]
impl ProjectTools for Domain {
    async fn list_projects(
        &self,
        _: &Caller,
        input: ListProjectsInput,
    ) -> Refusable<ListProjectsOutput> {
        let before = cursor(input.cursor, "list_projects", |text| text.parse().ok())?;
        let page = self.store.projects(input.limit.get(), before).await?;
        let next_cursor = page.next(|project| project.project_id);
        Ok(ListProjectsOutput { next_cursor, has_more: page.has_more, projects: page.items })
    }

    async fn list_repos(&self, _: &Caller, input: ListReposInput) -> Refusable<ListReposOutput> {
        Ok(ListReposOutput { repos: self.store.repos(input.project_id).await? })
    }

    async fn create_project(
        &self,
        _: &Caller,
        key: Option<Key>,
        input: CreateProjectInput,
    ) -> Refusable<Idempotent<CreateProjectOutput>> {
        let name = String::from(input.name);
        let repos = input.repos.into_iter();
        let paths: Vec<RepoPath> =
            repos.map(|it| (it.path.into(), it.target_branch.map(Into::into))).collect();
        let payload = |repos: &Vec<NewRepo>| json!([name, repos]);
        match resolve(&self.store, key, repositories(&paths), payload).await? {
            Resolved::Before(answer) => Ok(answer),
            Resolved::Now(key, repos) => {
                self.store.create_project(key.as_ref(), &name, &repos).await
            }
        }
    }

    async fn add_repo(
        &self,
        _: &Caller,
        key: Option<Key>,
        input: AddRepoInput,
    ) -> Refusable<Idempotent<AddRepoOutput>> {
        let project_id = input.project_id;
        let (path, branch): RepoPath = (input.path.into(), input.target_branch.map(Into::into));
        let checking = check_repository(&path, branch.as_deref(), "path");
        let payload = |repo: &NewRepo| json!([project_id, repo]);
        match resolve(&self.store, key, checking, payload).await? {
            Resolved::Before(answer) => Ok(answer),
            Resolved::Now(key, repo) => self.store.add_repo(key.as_ref(), project_id, &repo).await,
        }
    }
}

#[async_trait]
impl ExecutorTools for Domain {
    /// Looks for each executor's program and for its version.
    async fn list_executors(
        &self,
        _: &Caller,
        _: ListExecutorsInput,
    ) -> Refusable<ListExecutorsOutput> {
        let all = self.world.executors.all();
        let all = all.into_iter().map(summary_of);
        let mut executors = futures_util::future::try_join_all(all).await?;
        // Available executors first; the scripted stand-in last, even if it alone is available.
        executors.sort_by_key(|executor| (executor.stand_in, !executor.available));
        Ok(ListExecutorsOutput { executors })
    }
}

#[async_trait]
impl TaskTools for Domain {
    async fn list_tasks(&self, _: &Caller, input: ListTasksInput) -> Refusable<ListTasksOutput> {
        let before = cursor(input.cursor.as_deref(), "list_tasks", |text| text.parse().ok())?;
        let page = self.store.tasks(&input, before).await?;
        let next_cursor = page.next(|task| task.task_id);
        Ok(ListTasksOutput { next_cursor, has_more: page.has_more, tasks: page.items })
    }

    async fn get_task(&self, _: &Caller, input: GetTaskInput) -> Refusable<GetTaskOutput> {
        let id = input.task_id;
        let task = self.store.task(id).await?;
        let report = self.checked_report(id).await?;
        let reported = self.store.reported(id).await?;
        Ok(GetTaskOutput { task: CheckedTask { task, report, reported } })
    }

    async fn create_task(
        &self,
        _: &Caller,
        key: Option<Key>,
        input: CreateTaskInput,
    ) -> Refusable<Idempotent<CreateTaskOutput>> {
        let (answer, handle) = self.store.create_task(key.as_ref(), &input).await?;
        Ok(answered(answer, |task_id| CreateTaskOutput { task_id, handle }))
    }

    async fn update_task(
        &self,
        _: &Caller,
        key: Option<Key>,
        input: UpdateTaskInput,
    ) -> Refusable<Idempotent<TaskOutput>> {
        let answer = self.store.update_task(key.as_ref(), &input).await?;
        // A closed task has no conflicts any more, a reopened one may have.
        if input.status.is_some() {
            radar::look(&self.world, &[]);
        }
        Ok(answered(answer, |task| TaskOutput { task }))
    }

    async fn delete_task(
        &self,
        _: &Caller,
        key: Option<Key>,
        input: DeleteTaskInput,
    ) -> Refusable<Idempotent<DeleteTaskOutput>> {
        let answer = self.store.delete_task(key.as_ref(), input.task_id).await?;
        radar::look(&self.world, &[]);
        let handle = self.store.handle_of(input.task_id).await?;
        Ok(answered(answer, |deleted_task_id| DeleteTaskOutput { deleted_task_id, handle }))
    }
}

/// A repository's path and target branch, as the caller gave them; without a branch, the checked-out one
/// counts.
type RepoPath = (String, Option<String>);

/// Checks the repositories of a new project. Their names must differ: a name is the folder of its
/// worktree.
async fn repositories(given: &[RepoPath]) -> Result<Vec<NewRepo>, Refusal> {
    let mut repos: Vec<NewRepo> = Vec::new();
    for (n, (path, branch)) in given.iter().enumerate() {
        let field = format!("repos[{n}].path");
        let repo = check_repository(path, branch.as_deref(), &field).await?;
        if repos.iter().any(|other| other.name == repo.name) {
            let message = format!("two repositories of the project would be named {:?}", repo.name);
            return Err(Refusal::new(Code::InvalidArgument, message)
                .hint(format!(
                    "Call the tool again with {field}, a repository whose folder has another name."
                ))
                .detail("repo_path", path.as_str())
                .detail("path", field));
        }
        repos.push(repo);
    }
    Ok(repos)
}

/// Protocols of programs that users write themselves. Such a program may not know
/// `--version`, so the daemon does not run it only to ask.
const OF_OWN_PROGRAMS: [&str; 2] = ["plain", "events"];

async fn summary_of(executor: Arc<dyn Executor>) -> Result<ExecutorSummary, Refusal> {
    let asked = Arc::clone(&executor);
    let described = blocking(move || asked.describe()).await?;
    let may_run = !OF_OWN_PROGRAMS.contains(&described.protocol);
    let version = if may_run { executor.version().await } else { None };
    Ok(ExecutorSummary::new(described, version))
}
