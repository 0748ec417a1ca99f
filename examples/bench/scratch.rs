//! A home with one executor, a repository, the daemon on them, and a client.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService, ServiceExt};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Result;

/// A call that takes longer has failed.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Dropped, all that ran in it ends.
pub struct Scratch {
    dir: TempDir,
    program: PathBuf,
}

impl Scratch {
    /// With an executor `self`: this program with `args`.
    pub fn make(attempts: usize, args: &[&str]) -> Result<Self> {
        Self::make_with(attempts, args, "")
    }

    /// The same, with more lines of the configuration.
    pub fn make_with(attempts: usize, args: &[&str], more: &str) -> Result<Self> {
        let own = std::env::current_exe()?;
        // This file is target/release/examples/bench.
        let folder = own.ancestors().nth(2).ok_or("an unknown layout of target")?;
        let program = folder.join("provost");
        if !program.exists() {
            return Err(format!("{} is not there: build it first", program.display()).into());
        }
        let scratch = Self { dir: tempfile::Builder::new().prefix("scale-").tempdir()?, program };
        let mut words = vec![own.to_string_lossy().into_owned()];
        words.extend(args.iter().map(|arg| (*arg).to_owned()));
        let config = format!(
            "[daemon]\nmax_running_attempts = {attempts}\n\
             [executors.self]\nprotocol = \"plain\"\nsandbox = \"none\"\n\
             resume_args = []\ncommand = {}\n{more}",
            json!(words)
        );
        std::fs::create_dir(scratch.home())?;
        std::fs::write(scratch.home().join("config.toml"), config)?;
        let repo = scratch.repo();
        run(command("git").args(["init", "--quiet", "--initial-branch=main"]).arg(&repo))?;
        let name = ["-c", "user.name=Scale", "-c", "user.email=scale@localhost"];
        let commit = ["commit", "--quiet", "--allow-empty", "--message=The beginning"];
        run(command("git").arg("-C").arg(&repo).args(name).args(commit))?;
        scratch.start_daemon()?;
        Ok(scratch)
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    /// The program in the home, with its standard streams closed.
    pub fn provost(&self, args: &[&str]) -> std::process::Command {
        let mut provost = command(&self.program);
        provost.args(args).env("PROVOST_HOME", self.home());
        provost.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        provost
    }

    /// Runs a command of the program in the repository; it must work.
    pub fn verb(&self, args: &[&str]) -> Result<()> {
        run(self.provost(args).current_dir(self.repo()))
    }

    /// Starts the daemon; returns at once.
    pub fn start_daemon(&self) -> Result<()> {
        self.provost(&["daemon"]).spawn()?;
        Ok(())
    }

    /// Ends the daemon; executors run on.
    pub fn shut_down(&self) -> Result<()> {
        run(&mut self.provost(&["shutdown"]))
    }

    /// The daemon's pid, once there is one.
    pub async fn daemon(&self) -> Result<i32> {
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            let lock = std::fs::read_to_string(self.home().join("run/daemon.lock"));
            let pid = lock.ok().and_then(|pid| pid.trim().parse().ok());
            if let Some(pid) = pid.filter(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
                return Ok(pid);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Err("no daemon".into())
    }

    /// A bridge, to be started.
    pub fn bridge(&self) -> std::process::Command {
        self.provost(&["mcp", "--role", "all"])
    }

    /// A client over a bridge.
    pub async fn client(&self) -> Result<Client> {
        let mut server = tokio::process::Command::from(self.provost(&["mcp", "--role", "all"]));
        server.kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = server.spawn()?;
        let (stdout, stdin) = server.stdout.take().zip(server.stdin.take()).ok_or("no pipes")?;
        Ok(Client { service: ().serve((stdout, stdin)).await?, _server: server })
    }

    /// A task to make attempts at.
    pub async fn task(&self, client: &Client) -> Result<Value> {
        let repos = json!([{"path": self.repo()}]);
        let project = json!({"name": "scale", "repos": repos});
        let project = client.call("create_project", project).await?;
        let task = json!({"project_id": project["project_id"], "title": "Go on"});
        Ok(client.call("create_task", task).await?["task_id"].clone())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = self.provost(&["shutdown", "--stop-all"]).status();
    }
}

/// An MCP client and its bridge.
pub struct Client {
    service: RunningService<RoleClient, ()>,
    _server: tokio::process::Child,
}

impl Client {
    /// Calls a tool that is to work.
    pub async fn call(&self, tool: &'static str, arguments: Value) -> Result<Value> {
        let Value::Object(arguments) = arguments else { return Err("no object".into()) };
        let request = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = tokio::time::timeout(TIMEOUT, self.service.call_tool(request)).await??;
        let output = result.structured_content.unwrap_or_default();
        match result.is_error {
            Some(true) => Err(format!("{tool}: {output}").into()),
            _ => Ok(output),
        }
    }

    /// The same, and how long it took.
    pub async fn timed(&self, tool: &'static str, arguments: Value) -> Result<Duration> {
        let begun = Instant::now();
        self.call(tool, arguments).await?;
        Ok(begun.elapsed())
    }
}

pub fn run(command: &mut std::process::Command) -> Result<()> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}

pub fn command(program: impl AsRef<OsStr>) -> std::process::Command {
    #[expect(clippy::disallowed_methods, reason = "a client may start programs")]
    std::process::Command::new(program)
}
