//! A project, its tasks, and attempts at them.

use serde_json::{Value, json};

use super::{Attempt, Provost, Repo};

pub struct Board<'p> {
    pub provost: &'p Provost,
    pub project_id: String,
    pub repo_ids: Vec<String>,
    pub repos: Vec<Repo>,
}

impl<'p> Board<'p> {
    /// A project with these repositories.
    pub fn new(provost: &'p Provost, repos: Vec<Repo>) -> Self {
        let paths: Vec<Value> = repos.iter().map(|repo| json!({"path": repo.path})).collect();
        let made = provost.call("create_project", &json!({"name": "scratch", "repos": paths}));
        let ids = made["repo_ids"].as_array().unwrap().iter();
        Self {
            provost,
            project_id: made["project_id"].as_str().unwrap().to_owned(),
            repo_ids: ids.map(|id| id.as_str().unwrap().to_owned()).collect(),
            repos,
        }
    }

    /// The first repository.
    pub fn repo(&self) -> &Repo {
        &self.repos[0]
    }

    /// Makes a task; returns its id.
    pub fn task(&self, title: &str) -> String {
        self.task_with(title, &json!({}))
    }

    /// Makes a task with more than a title.
    pub fn task_with(&self, title: &str, more: &Value) -> String {
        let mut arguments = json!({"project_id": self.project_id, "title": title});
        extend(&mut arguments, more);
        let made = self.provost.call("create_task", &arguments);
        made["task_id"].as_str().unwrap().to_owned()
    }

    /// Starts an attempt at a new task.
    pub fn start(&self, executor: &str, prompt: &str) -> Attempt<'p> {
        self.start_with(executor, &json!({"prompt": prompt}))
    }

    /// Starts an attempt at a new task, with more fields of `start_task_attempt`.
    pub fn start_with(&self, executor: &str, more: &Value) -> Attempt<'p> {
        self.start_at(&self.task("do something"), executor, more)
    }

    /// Starts an attempt at a task.
    pub fn start_at(&self, task: &str, executor: &str, more: &Value) -> Attempt<'p> {
        let mut arguments = json!({"task_id": task, "executor": executor});
        extend(&mut arguments, more);
        Attempt::new(self.provost, self.provost.call("start_task_attempt", &arguments))
    }
}

fn extend(arguments: &mut Value, more: &Value) {
    let more = more.as_object().unwrap().clone();
    arguments.as_object_mut().unwrap().extend(more);
}
