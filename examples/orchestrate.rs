//! An orchestrator in small: an MCP client over stdio that starts attempts,
//! waits for them, reads their logs as they grow, looks at what one changed and
//! gives it its next prompt, and stops another. The executor is the example
//! `fake_executor`; home and repository are scratch.
//!
//! ```text
//! cargo run --example orchestrate [PROVOST]
//! ```

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService, ServiceExt};
use serde_json::{Value, json};
use tempfile::TempDir;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let provost = provost()?;
    let scratch = Scratch::make(&provost)?;
    tokio::select! {
        done = orchestrate(&provost, &scratch) => done,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    }
}

async fn orchestrate(provost: &Path, scratch: &Scratch) -> Result<()> {
    let mut server = tokio::process::Command::from(command(provost));
    server.arg("mcp").env("PROVOST_HOME", scratch.home());
    let mut server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (stdout, stdin) = server.stdout.take().zip(server.stdin.take()).ok_or("no pipes")?;
    let client = Client(().serve((stdout, stdin)).await?);

    let repos = json!([{"path": scratch.repo()}]);
    let project = client.call("create_project", json!({"name": "example", "repos": repos})).await?;
    let task = json!({"project_id": project["project_id"], "title": "Take notes"});
    let task = client.call("create_task", task).await?;

    let attempt = client.start(&task, "remember the milk").await?;
    let mut log = Log::of(&attempt);
    client.follow(&mut log, |_| false).await?;
    let next = json!({"attempt_id": attempt, "action": "send", "prompt": "and the bread"});
    client.call("follow_up", next).await?;
    let ended = client.follow(&mut log, |_| false).await?;
    let newest = json!({"attempt_id": attempt, "limit": 1});
    let answer = client.call("tail_session_messages", newest).await?;
    println!("{}: {}", text(&ended["state"]), text(&answer["messages"][0]["text"]));
    let changes = client.call("get_attempt_changes", json!({"attempt_id": attempt})).await?;
    println!("changed: {}\n", changes["files"]);

    let attempt = client.start(&task, "hang until stopped").await?;
    client.follow(&mut Log::of(&attempt), |entry| entry["kind"] == "system_message").await?;
    let stopped = client.call("stop_attempt", json!({"attempt_id": attempt})).await?;
    println!("stopped with {}, {} survivors", stopped["signals"], stopped["survivors"]);

    // The server ends when its standard input does.
    client.0.cancel().await?;
    server.wait().await?;
    Ok(())
}

/// How far an attempt's log has been read.
struct Log {
    attempt: Value,
    /// The index of the last entry seen; -1 before the first.
    after: Value,
}

impl Log {
    fn of(attempt: &Value) -> Self {
        Self { attempt: attempt.clone(), after: json!(-1) }
    }
}

struct Client(RunningService<RoleClient, ()>);

impl Client {
    /// Calls a tool. A refusal says what to do about it.
    async fn call(&self, tool: &'static str, arguments: Value) -> Result<Value> {
        let Value::Object(arguments) = arguments else { return Err("no object".into()) };
        let request = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = self.0.call_tool(request).await?;
        let output = result.structured_content.unwrap_or_default();
        match result.is_error {
            Some(true) => Err(format!("{} {}", output["error"], output["hint"]).into()),
            _ => Ok(output),
        }
    }

    /// Starts an attempt and returns its id.
    async fn start(&self, task: &Value, prompt: &str) -> Result<Value> {
        let start = json!({"task_id": task["task_id"], "executor": "scripted", "prompt": prompt});
        let started = self.call("start_task_attempt", start).await?;
        println!("attempt on {}", text(&started["workspace_branch"]));
        Ok(started["attempt_id"].clone())
    }

    /// Prints the log until the attempt has settled, or an entry is the last
    /// one wanted; returns how it stands. It asks only for what is new.
    async fn follow(&self, log: &mut Log, last: impl Fn(&Value) -> bool) -> Result<Value> {
        loop {
            // Until it settles, but not for long: its log grows meanwhile.
            let wait = json!({"attempt_ids": [log.attempt], "timeout_ms": 100});
            let mut waited = self.call("wait_for_attempts", wait).await?;
            // Asked after that: what a settled attempt has written is on the page.
            let page = json!({"attempt_id": log.attempt, "after_entry_index": log.after});
            let page = self.call("tail_attempt_logs", page).await?;
            let entries = page["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
            for entry in entries {
                println!("  {:<18}{}", text(&entry["kind"]), text(&entry["text"]));
                log.after = entry["entry_index"].clone();
            }
            if entries.iter().any(&last) || (entries.is_empty() && waited["timed_out"] == false) {
                return Ok(waited["attempts"][0].take());
            }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A home that knows the scripted executor, and a repository. Dropped, the
/// daemon that serves the home ends as well.
struct Scratch {
    dir: TempDir,
    provost: PathBuf,
}

impl Scratch {
    fn make(provost: &Path) -> Result<Self> {
        let scratch = Self { dir: tempfile::tempdir()?, provost: provost.to_owned() };
        let executor = std::env::current_exe()?.with_file_name("fake_executor");
        let config = format!(
            "[executors.scripted]\nprotocol = \"events\"\nsandbox = \"none\"\ncommand = [{}]\n",
            json!(executor)
        );
        std::fs::create_dir(scratch.home())?;
        std::fs::write(scratch.home().join("config.toml"), config)?;
        let repo = scratch.repo();
        run(command("git").args(["init", "--quiet", "--initial-branch=main"]).arg(&repo))?;
        let name = ["-c", "user.name=Example", "-c", "user.email=example@localhost"];
        let commit = ["commit", "--quiet", "--allow-empty", "--message=The beginning"];
        run(command("git").arg("-C").arg(&repo).args(name).args(commit))?;
        Ok(scratch)
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut shutdown = command(&self.provost);
        shutdown.args(["shutdown", "--stop-all"]).env("PROVOST_HOME", self.home());
        // It fails when no daemon was started, which is as good.
        let _ = shutdown.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// The program to talk to: the one that was given, or this package's own, which
/// Cargo builds together with the executor.
fn provost() -> Result<PathBuf> {
    if let Some(given) = std::env::args_os().nth(1) {
        return Ok(std::path::absolute(given)?);
    }
    let cargo = std::env::var_os("CARGO").ok_or("give the path of provost")?;
    let targets = ["--bin", "provost", "--example", "fake_executor"];
    run(command(cargo).args(["build", "--quiet"]).args(targets))?;
    // This file is target/debug/examples/orchestrate.
    let folder = std::env::current_exe()?.ancestors().nth(2).map(Path::to_owned);
    Ok(folder.ok_or("an unknown layout of target")?.join("provost"))
}

fn run(command: &mut std::process::Command) -> Result<()> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}

fn command(program: impl AsRef<std::ffi::OsStr>) -> std::process::Command {
    #[expect(clippy::disallowed_methods, reason = "a client may start programs")]
    std::process::Command::new(program)
}
