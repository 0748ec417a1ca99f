//! What one CLI is tried in: a home folder, a repository, a daemon with a clean
//! environment, and an MCP client that speaks to it as an orchestrator does.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Instant;

use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService, ServiceExt};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clis::Setup;
use crate::{Result, TIMEOUT, command, processes};

/// Dropped, all that ran in it ends.
pub struct Lab {
    dir: TempDir,
    provost: PathBuf,
    env: Vec<(&'static str, String)>,
    executor: &'static str,
    pub sandbox: Sandbox,
    daemon: Option<Child>,
}

/// The sandbox of the executor.
pub struct Sandbox {
    pub level: String,
    /// The one host that is allowed beside the executor's own.
    pub host: String,
}

impl Lab {
    /// In `dir`, for the executor of this name. `path` is the variable `PATH`.
    pub fn make(
        executor: &'static str,
        setup: &Setup,
        path: String,
        provost: PathBuf,
        sandbox: Sandbox,
        dir: TempDir,
    ) -> Result<Self> {
        let within = |name: &str| dir.path().join(name);
        let env = vec![
            ("PATH", path),
            ("HOME", within("home").display().to_string()),
            // Several leave something there.
            ("TMPDIR", within("tmp").display().to_string()),
            ("PROVOST_HOME", within("provost").display().to_string()),
            ("LANG", "C.UTF-8".to_owned()),
            ("TERM", "dumb".to_owned()),
        ];
        for (name, content) in &setup.files {
            let file = within("home").join(name);
            fs::create_dir_all(file.parent().unwrap_or(&file))?;
            fs::write(file, content)?;
        }
        fs::create_dir_all(within("home"))?;
        let person = "[user]\n\tname = Real\n\temail = real@localhost\n";
        fs::write(within("home").join(".gitconfig"), person)?;
        fs::create_dir(within("home").join(".ssh"))?;
        fs::write(within("home").join(".ssh/id"), "a key")?;
        fs::create_dir(within("provost"))?;
        fs::create_dir(within("tmp"))?;
        let Sandbox { level, host } = &sandbox;
        let mut config = format!("[executors.{executor}]\nsandbox = {level:?}\n");
        if level == "strict" {
            writeln!(config, "allow_hosts = [{host:?}]")?;
        }
        writeln!(config, "[executors.{executor}.env]")?;
        for (name, value) in &setup.env {
            writeln!(config, "{name} = {}", json!(value))?;
        }
        fs::write(within("provost").join("config.toml"), config)?;
        let mut lab = Self { dir, provost, env, executor, sandbox, daemon: None };
        lab.repository()?;
        lab.start_daemon()?;
        Ok(lab)
    }

    /// The folder that holds an attempt's worktree, named by the end of its id.
    pub fn worktree(&self, attempt: &str) -> Result<PathBuf> {
        let short = &attempt[attempt.len().saturating_sub(8)..];
        let folders = fs::read_dir(self.dir.path().join("provost/worktrees"))?.flatten();
        let mut own =
            folders.filter(|entry| entry.file_name().to_string_lossy().starts_with(short));
        Ok(own.next().ok_or("the attempt has no worktree")?.path())
    }

    /// Starts the daemon; returns at once.
    pub fn start_daemon(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.daemon_log())?;
        let mut daemon = self.command(&["daemon"]);
        self.daemon = Some(daemon.stdout(Stdio::null()).stderr(log).spawn()?);
        Ok(())
    }

    /// Kills the daemon, and waits until it is dead.
    pub fn kill_daemon(&mut self) -> Result<()> {
        let mut daemon = self.daemon.take().ok_or("there is no daemon")?;
        daemon.kill()?;
        daemon.wait()?;
        Ok(())
    }

    /// What the daemon wrote last.
    pub fn daemon_said(&self) -> String {
        let log = fs::read_to_string(self.daemon_log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    fn daemon_log(&self) -> PathBuf {
        self.dir.path().join("daemon.log")
    }

    /// A client over a bridge, and a project to make attempts in.
    pub async fn client(&self) -> Result<Client> {
        let mut bridge = tokio::process::Command::from(self.command(&["mcp", "--role", "all"]));
        bridge.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut bridge = bridge.kill_on_drop(true).spawn()?;
        let (stdout, stdin) = bridge.stdout.take().zip(bridge.stdin.take()).ok_or("no pipes")?;
        let service = ().serve((stdout, stdin)).await?;
        let mut client =
            Client { service, _bridge: bridge, executor: self.executor, task: Value::Null };
        let repos = json!([{"path": self.repo()}]);
        let project =
            client.call("create_project", json!({"name": "real", "repos": repos})).await?;
        let task = json!({"project_id": project["project_id"], "title": "Try"});
        client.task = client.call("create_task", task).await?["task_id"].take();
        Ok(client)
    }

    fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    fn repository(&self) -> Result<()> {
        let repo = self.repo();
        run(command("git").args(["init", "--quiet", "--initial-branch=main"]).arg(&repo))?;
        let name = ["-c", "user.name=Real", "-c", "user.email=real@localhost"];
        let commit = ["commit", "--quiet", "--allow-empty", "--message=The beginning"];
        run(command("git").arg("-C").arg(&repo).args(name).args(commit))
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut provost = command(&self.provost);
        provost.args(args).env_clear().envs(self.env.clone()).current_dir(self.dir.path());
        provost.stdin(Stdio::null());
        provost
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let mut shutdown = self.command(&["shutdown", "--stop-all"]);
        let _ = shutdown.stdout(Stdio::null()).stderr(Stdio::null()).status();
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill().and_then(|()| daemon.wait());
        }
        // Whatever a daemon that fails has left behind.
        for process in processes::working_below(self.dir.path()) {
            process.kill();
        }
    }
}

fn run(command: &mut std::process::Command) -> Result<()> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}

/// An MCP client, and the task of which it makes attempts.
pub struct Client {
    service: RunningService<RoleClient, ()>,
    _bridge: tokio::process::Child,
    executor: &'static str,
    task: Value,
}

impl Client {
    /// Calls a tool that is to work.
    pub async fn call(&self, tool: &'static str, arguments: Value) -> Result<Value> {
        let Value::Object(arguments) = arguments else { return Err("no object".into()) };
        let request = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = tokio::time::timeout(TIMEOUT, self.service.call_tool(request)).await;
        let result = result.map_err(|_| format!("{tool} does not answer"))??;
        let output = result.structured_content.unwrap_or_default();
        match result.is_error {
            Some(true) => Err(format!("{tool}: {output}").into()),
            _ => Ok(output),
        }
    }

    /// What `list_executors` says of the executor.
    pub async fn capabilities(&self) -> Result<Value> {
        let mut list = self.call("list_executors", json!({})).await?;
        let executors = list["executors"].as_array_mut().into_iter().flatten();
        let mut own = executors.filter(|executor| executor["executor"] == self.executor);
        Ok(own.next().ok_or("not listed")?.take())
    }

    /// Starts an attempt; its id. `None`: the default variant.
    pub async fn start(&self, prompt: &str, variant: Option<&str>) -> Result<String> {
        self.start_with(json!({"variant": variant, "prompt": prompt})).await
    }

    /// The same with these arguments.
    pub async fn start_with(&self, mut start: Value) -> Result<String> {
        start["task_id"] = self.task.clone();
        start["executor"] = json!(self.executor);
        let started = self.call("start_task_attempt", start).await?;
        Ok(started["attempt_id"].as_str().unwrap_or_default().to_owned())
    }

    /// Waits until an attempt has settled: how it stands.
    pub async fn settled(&self, attempt: &str) -> Result<Value> {
        let settled = self.settled_by(attempt, Instant::now() + TIMEOUT).await?;
        settled.ok_or_else(|| "the attempt does not settle".into())
    }

    /// The same; `None`: it runs still at the deadline.
    pub async fn settled_by(&self, attempt: &str, deadline: Instant) -> Result<Option<Value>> {
        loop {
            let wait = json!({"attempt_ids": [attempt], "timeout_ms": 30_000});
            if self.call("wait_for_attempts", wait).await?["timed_out"] == false {
                let status = json!({"attempt_id": attempt});
                return self.call("get_attempt_status", status).await.map(Some);
            }
            if Instant::now() > deadline {
                return Ok(None);
            }
        }
    }

    /// A channel's entries from the beginning.
    pub async fn log(&self, attempt: &str, channel: &str) -> Result<Vec<Value>> {
        let mut entries: Vec<Value> = Vec::new();
        loop {
            let after = entries.last().map_or(json!(-1), |entry| entry["entry_index"].clone());
            let tail = json!({"attempt_id": attempt, "channel": channel, "limit": 1000,
                "max_bytes": 1_000_000, "after_entry_index": after});
            let mut page = self.call("tail_attempt_logs", tail).await?;
            let Value::Array(more) = page["entries"].take() else { return Ok(entries) };
            if more.is_empty() {
                return Ok(entries);
            }
            entries.extend(more);
        }
    }
}
