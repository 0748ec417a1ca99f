//! Projects, repositories, executors and tasks.

use crate::api::Refusable;
use crate::api::Session;
use crate::api::executors::ExecutorTools;
use crate::api::executors::ListExecutorsInput;
use crate::api::projects::ProjectTools;
use crate::api::tasks::GetTaskInput;
use crate::api::tasks::TaskTools;
use async_trait::async_trait;
use std::sync::Arc;

use provost_actors::executor::Executor;
use provost_actors::gateway::{NewRepo, RepoPath, check_repository};
use provost_actors::journal::{Resolved, resolve};
use provost_actors::refusal::{Code, Refusal};
use serde_json::json;

use super::{Domain, answered, convert};
use crate::api::brief::{Brief, GivenBrief};
use crate::api::executors::{ExecutorSummary, ListExecutorsOutput};
use crate::api::projects::{
    AddRepoInput, AddRepoOutput, CreateProjectInput, CreateProjectOutput, ListProjectsInput,
    ListProjectsOutput, ListReposInput, ListReposOutput, ProjectSummary, RepoSummary,
};
use crate::api::tasks::{
    CheckedTask, CreateTaskInput, CreateTaskOutput, DeleteTaskInput, DeleteTaskOutput,
    GetTaskOutput, ListTasksInput, ListTasksOutput, Task, TaskOutput, TaskSummary, UpdateTaskInput,
};
use crate::api::{Key, Once};
use crate::store::{NewTask, TaskChange, TaskFilter, TaskView};

#[async_trait]
impl ProjectTools for Domain {
    async fn list_projects(
        &self,
        _: &Session,
        input: ListProjectsInput,
    ) -> Refusable<ListProjectsOutput> {
        let after = input.cursor.map(|text| cursor(&text, "list_projects")).transpose()?;
        let page = self.store.projects(input.limit.get(), after).await?;
        let next = page.items.last().filter(|_| page.has_more);
        Ok(ListProjectsOutput {
            next_cursor: next.map(|project| project.project_id.to_string()),
            has_more: page.has_more,
            projects: page
                .items
                .into_iter()
                .map(|project| ProjectSummary {
                    project_id: project.project_id,
                    name: project.name,
                    created_at: project.created_at,
                    updated_at: project.updated_at,
                })
                .collect(),
        })
    }

    async fn list_repos(&self, _: &Session, input: ListReposInput) -> Refusable<ListReposOutput> {
        let repos = self.store.repos(input.project_id).await?;
        Ok(ListReposOutput {
            repos: repos
                .into_iter()
                .map(|repo| RepoSummary {
                    repo_id: repo.repo_id,
                    repo_name: repo.name,
                    path: repo.path,
                    default_target_branch: repo.default_target_branch,
                })
                .collect(),
        })
    }

    async fn create_project(
        &self,
        _: &Session,
        key: Option<Key>,
        input: CreateProjectInput,
    ) -> Refusable<Once<CreateProjectOutput>> {
        let name = String::from(input.name);
        let paths = input.repos.into_iter().map(|repo| RepoPath {
            path: repo.path.into(),
            target_branch: repo.target_branch.map(Into::into),
        });
        let paths: Vec<RepoPath> = paths.collect();
        let payload = |repos: &Vec<NewRepo>| json!([name, repos]);
        let answer = match resolve(&self.store, key, repositories(&paths), payload).await? {
            Resolved::Before(answer) => answer,
            Resolved::Now(key, repos) => {
                self.store.create_project(key.as_ref(), &name, &repos).await?
            }
        };
        Ok(answered(answer, |made| CreateProjectOutput {
            project_id: made.project_id,
            repo_ids: made.repos.into_iter().map(|repo| repo.repo_id).collect(),
        }))
    }

    async fn add_repo(
        &self,
        _: &Session,
        key: Option<Key>,
        input: AddRepoInput,
    ) -> Refusable<Once<AddRepoOutput>> {
        let project_id = input.project_id;
        let repo = RepoPath {
            path: input.path.into(),
            target_branch: input.target_branch.map(Into::into),
        };
        let payload = |repo: &NewRepo| json!([project_id, repo]);
        let answer =
            match resolve(&self.store, key, check_repository(&repo, "path"), payload).await? {
                Resolved::Before(answer) => answer,
                Resolved::Now(key, repo) => {
                    self.store.add_repo(key.as_ref(), project_id, &repo).await?
                }
            };
        Ok(answered(answer, |added| AddRepoOutput { project_id, repo_id: added.repo_id }))
    }
}

#[async_trait]
impl ExecutorTools for Domain {
    /// Looks for each executor's program and for its version.
    async fn list_executors(
        &self,
        _: &Session,
        _: ListExecutorsInput,
    ) -> Refusable<ListExecutorsOutput> {
        let all = self.world.executors.all();
        let told = futures_util::future::try_join_all(all.into_iter().map(summary_of)).await;
        let mut executors = told?;
        // Those that can be set to work come first, and a stand-in is never in their place.
        executors.sort_by_key(|executor| (executor.stand_in, !executor.available));
        Ok(ListExecutorsOutput { executors })
    }
}

#[async_trait]
impl TaskTools for Domain {
    async fn list_tasks(&self, _: &Session, input: ListTasksInput) -> Refusable<ListTasksOutput> {
        let filter = TaskFilter {
            project: input.project_id,
            status: input.status.map(convert::task_status_in),
            updated_since: input.updated_since,
            limit: input.limit.get(),
            before: input.cursor.map(|text| cursor(&text, "list_tasks")).transpose()?,
        };
        let page = self.store.tasks(&filter).await?;
        let next = page.items.last().filter(|_| page.has_more);
        Ok(ListTasksOutput {
            next_cursor: next.map(|view| view.task.task_id.to_string()),
            has_more: page.has_more,
            tasks: page.items.into_iter().map(|view| summary(&view)).collect(),
        })
    }

    async fn get_task(&self, _: &Session, input: GetTaskInput) -> Refusable<GetTaskOutput> {
        let task = input.task_id;
        let TaskOutput { task: whole } = self.store.task(task).await.map(whole)?;
        let report = self.checked_report(task).await?;
        let reported = self.store.reported(task).await?;
        Ok(GetTaskOutput { task: CheckedTask { task: whole, report, reported } })
    }

    async fn create_task(
        &self,
        _: &Session,
        key: Option<Key>,
        input: CreateTaskInput,
    ) -> Refusable<Once<CreateTaskOutput>> {
        let task = NewTask {
            project_id: input.project_id,
            title: input.title.into(),
            description: input.description.map(Into::into),
            priority: convert::priority_in(input.priority),
            depends_on: input.depends_on.into_iter().collect(),
            brief: kept(input.brief)?.filter(|brief| brief != NO_BRIEF),
        };
        let answer = self.store.create_task(key.as_ref(), &task).await?;
        let handle = self.store.handle_of(answer.value).await?;
        Ok(answered(answer, |task_id| CreateTaskOutput { task_id, handle }))
    }

    async fn update_task(
        &self,
        _: &Session,
        key: Option<Key>,
        input: UpdateTaskInput,
    ) -> Refusable<Once<TaskOutput>> {
        let change = TaskChange {
            title: input.title.map(Into::into),
            description: input.description.map(Into::into),
            status: input.status.map(convert::task_status_in),
            priority: input.priority.map(convert::priority_in),
            depends_on: input.depends_on.map(|tasks| tasks.into_iter().collect()),
            brief: kept(input.brief)?,
        };
        let task = input.task_id;
        let answer = self.store.update_task(key.as_ref(), task, &change).await?;
        Ok(answered(answer, whole))
    }

    async fn delete_task(
        &self,
        _: &Session,
        key: Option<Key>,
        input: DeleteTaskInput,
    ) -> Refusable<Once<DeleteTaskOutput>> {
        let task = input.task_id;
        let answer = self.store.delete_task(key.as_ref(), task).await?;
        let handle = self.store.handle_of(task).await?;
        Ok(answered(answer, |deleted_task_id| DeleteTaskOutput { deleted_task_id, handle }))
    }
}

/// Checks the repositories of a new project, which need names of their own.
async fn repositories(given: &[RepoPath]) -> Result<Vec<NewRepo>, Refusal> {
    let mut repos: Vec<NewRepo> = Vec::new();
    for (n, given) in given.iter().enumerate() {
        let field = format!("repos[{n}].path");
        let repo = check_repository(given, &field).await?;
        if repos.iter().any(|other| other.name == repo.name) {
            let message = format!("two repositories of the project would be named {:?}", repo.name);
            return Err(Refusal::new(Code::InvalidArgument, message)
                .hint(format!(
                    "Call the tool again with {field}, a repository whose folder has another name."
                ))
                .detail("repo_path", given.path.as_str())
                .detail("path", field));
        }
        repos.push(repo);
    }
    Ok(repos)
}

/// Protocols that anybody's own programs speak. They may not know `--version`, and
/// are not run for it without a person's word.
const OF_OWN_PROGRAMS: [&str; 2] = ["plain", "events"];

/// What is kept of a brief that says nothing.
const NO_BRIEF: &str = "{}";

/// A brief as it is kept.
fn kept(given: Option<GivenBrief>) -> Result<Option<String>, Refusal> {
    given.map(|given| given.check().map(|brief| brief.to_json())).transpose()
}

async fn summary_of(executor: Arc<dyn Executor>) -> Result<ExecutorSummary, Refusal> {
    let asked = Arc::clone(&executor);
    let described = tokio::task::spawn_blocking(move || asked.describe()).await;
    let described = described.map_err(|error| Refusal::internal(error.to_string()))?;
    let may_run = !OF_OWN_PROGRAMS.contains(&described.protocol);
    let version = if may_run { executor.version().await } else { None };
    Ok(ExecutorSummary::new(described, version))
}

fn whole(view: TaskView) -> TaskOutput {
    TaskOutput {
        task: Task {
            summary: summary(&view),
            project_id: view.task.project_id,
            description: view.task.description,
            depends_on: view.task.depends_on,
            brief: view.task.brief.as_deref().and_then(Brief::kept),
            last_report: view.last_report,
        },
    }
}

fn summary(view: &TaskView) -> TaskSummary {
    let task = &view.task;
    TaskSummary {
        task_id: task.task_id,
        handle: task.handle.clone(),
        title: task.title.clone(),
        status: convert::task_status(task.status),
        priority: convert::priority(task.priority),
        standing: view.standing,
        created_at: task.created_at,
        updated_at: task.updated_at,
        latest_attempt_id: view.latest_attempt_id,
        latest_workspace_branch: view.latest_workspace_branch.clone(),
        latest_session_id: view.latest_session_id,
        latest_session_executor: view.latest_session_executor.clone(),
        has_in_progress_attempt: view.has_in_progress_attempt,
        last_attempt_failed: view.last_attempt_failed,
    }
}

/// The id that a list's cursor is made of.
fn cursor<T: std::str::FromStr>(text: &str, tool: &str) -> Result<T, Refusal> {
    text.parse().map_err(|_| bad_cursor(tool))
}

pub(super) fn bad_cursor(tool: &str) -> Refusal {
    Refusal::new(Code::InvalidArgument, format!("`cursor` is not a cursor from {tool}"))
        .hint(format!(
            "Call {tool} again without cursor. It takes the next_cursor of its own last page."
        ))
        .detail("path", "cursor")
}
