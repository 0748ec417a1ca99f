//! Which worker calls, in which project, and which task a handle means there. Handles are unique in a
//! project only.

use async_trait::async_trait;
use std::path::Path;

use provost_actors::ids::{ProjectId, TaskId};
use provost_actors::text::{NAME_SHOWN_MAX, cut};

use crate::api::{Access, Caller, Code, Refusal, TaskNames};
use crate::domain::Domain;
use crate::work::Worker;

#[async_trait]
impl TaskNames for Domain {
    async fn task_id(
        &self,
        caller: &Caller,
        handle: &str,
        project: Option<&str>,
    ) -> Result<String, Refusal> {
        let tasks = self.store.tasks_of_handle(handle).await?;
        let of = |project: ProjectId| tasks.iter().find(|(_, its, _)| *its == project);
        let missing = |place: &str| {
            Refusal::new(Code::TaskNotFound, format!("there is no task {handle}{place}"))
                .detail("task_id", handle)
        };
        let bound = match (project.and_then(|project| project.parse().ok()), caller.attempt) {
            (Some(project), _) => Some(project),
            (None, Some(attempt)) => Some(self.store.project_of(attempt).await?),
            (None, None) => None,
        };
        if let Some(project) = bound {
            let found = of(project).ok_or_else(|| missing(" in this project"))?;
            return Ok(found.0.to_string());
        }
        let repositories = self.store.repositories().await?;
        let found = around(caller.cwd.as_deref(), &repositories).and_then(of);
        match (found, tasks.as_slice()) {
            (Some((task, ..)), _) | (None, [(task, ..)]) => Ok(task.to_string()),
            (None, []) => Err(missing("")),
            (None, several) => Err(of_several(handle, several)),
        }
    }
}

impl Domain {
    /// The caller of a worker tool, with its project: the one of its attempt, else the one that it named,
    /// else the one around its working directory. A worker inside an attempt reaches that attempt's
    /// project only.
    ///
    /// # Errors
    /// The project does not exist or is out of reach, or several are possible.
    pub(in crate::domain) async fn worker(
        &self,
        caller: &Caller,
        project: Option<&str>,
    ) -> Result<Worker, Refusal> {
        let named = match project {
            Some(text) => Some(self.named_project(text).await?),
            None => None,
        };
        let project_id = match caller.attempt {
            Some(attempt) => {
                let own = self.store.project_of(attempt).await?;
                if named.is_some_and(|named| named != own) {
                    return Err(beyond(own));
                }
                own
            }
            None => match named {
                Some(project) => project,
                None => self.surrounding_project(caller.cwd.as_deref()).await?,
            },
        };
        // Any call shows that an agent outside of attempts is alive, so its leases are renewed. Inside an
        // attempt, a claim ends with the attempt.
        if caller.attempt.is_none() && caller.access >= Access::Write {
            self.store.renew_leases(&caller.agent).await?;
        }
        Ok(Worker {
            agent: caller.agent.clone(),
            attempt_id: caller.attempt,
            project_id,
            may_write: caller.access >= Access::Write,
        })
    }

    /// The project with this id, which must exist.
    async fn named_project(&self, text: &str) -> Result<ProjectId, Refusal> {
        let project: ProjectId = text.parse().map_err(|_| {
            Refusal::new(Code::InvalidArgument, format!("`{text}` is not the id of a project"))
                .hint("Call the tool again without project_id.")
                .detail("path", "project_id")
        })?;
        self.store.repos(project).await?;
        Ok(project)
    }

    /// The project whose repository the caller works in, else the only project that there is.
    async fn surrounding_project(&self, cwd: Option<&Path>) -> Result<ProjectId, Refusal> {
        let repositories = self.store.repositories().await?;
        if let Some(project) = around(cwd, &repositories) {
            return Ok(project);
        }
        let mut projects: Vec<ProjectId> =
            repositories.into_iter().map(|(project, _)| project).collect();
        projects.dedup();
        match projects.as_slice() {
            [only] => Ok(*only),
            [] => Err(Refusal::new(Code::ProjectNotFound, "there is no project yet")
                .hint("Register a repository with `provost init`, then call the tool again.")),
            _ => Err(Refusal::new(
                Code::MissingRequired,
                "there are several projects, and you work in the repository of none",
            )
            .hint(format!("Call the tool again with project_id = \"{}\".", projects[0]))
            .detail("path", "project_id")
            .detail("projects", projects.iter().map(ToString::to_string).collect::<Vec<_>>())),
        }
    }
}

/// The refusal of a handle that several projects have.
fn of_several(handle: &str, tasks: &[(TaskId, ProjectId, String)]) -> Refusal {
    const SHOWN: usize = 10;
    let named: Vec<String> = tasks
        .iter()
        .take(SHOWN)
        .map(|(task, _, project)| format!("{task} in {}", cut(project.clone(), NAME_SHOWN_MAX)))
        .collect();
    let more = if tasks.len() > SHOWN { ", and more" } else { "" };
    let ids: Vec<String> = tasks.iter().take(SHOWN).map(|(task, ..)| task.to_string()).collect();
    let message = format!("{} projects have a {handle}: {}{more}", tasks.len(), named.join(", "));
    Refusal::new(Code::InvalidArgument, message)
        .hint("Call the tool again with task_id, the UUID of one of them.")
        .detail("path", "task_id")
        .detail("tasks", ids)
}

/// The project of the innermost repository around a folder. A repository in several projects counts for
/// the last of them.
fn around(cwd: Option<&Path>, repositories: &[(ProjectId, String)]) -> Option<ProjectId> {
    let cwd = cwd?;
    let holds = repositories.iter().filter(|(_, path)| cwd.starts_with(path));
    holds.max_by_key(|(_, path)| path.len()).map(|(project, _)| *project)
}

/// The refusal to name another project from inside an attempt.
fn beyond(own: ProjectId) -> Refusal {
    Refusal::new(
        Code::NotPermitted,
        "a worker inside an attempt reaches the project of that attempt only",
    )
    .hint("Call the tool again without project_id.")
    .detail("project_id", own.to_string())
}
