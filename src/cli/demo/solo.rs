//! The main job in four chapters: an agent works, continues its session, is stopped with
//! all its processes, and outlives the daemon.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use provost_actors::process::identity::Process;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::scratch::{WAIT_FOR, processes_of};
use super::{Demo, LIMIT, check, fault, list};
use crate::cli::context::text;
use crate::cli::exit::Failure;
use crate::cli::logs::Reader;
use crate::cli::output::short;

const WORK: &str = "\
think A greeting belongs into a file of its own.
write hello.txt Hello, world!
run git add hello.txt && git commit --quiet --message='Greet the world' && git log --oneline
say The greeting is in hello.txt, and committed.";

/// The next prompt of the same session, which waits until the last one is queued.
const NEXT: &str = "\
say A politer greeting, then.
run sh wait-for queued";
const LAST: &str = "\
write hello.txt Good day, world!
say Done. It is not committed.";

const STUBBORN: &str = "\
ignore-term
fork
say I ignore SIGINT and SIGTERM, and I left a process in a session of its own.
hang";

/// Files by which the demo and the agent wait for each other.
const QUEUED: &str = "queued";
const KILLED: &str = "daemon-killed";
const BACK: &str = "daemon-back";
const MEANWHILE: &str = "meanwhile.txt";

struct Attempt {
    id: String,
    branch: String,
}

impl Demo {
    pub(super) async fn solo(&mut self) -> Result<Value, Failure> {
        self.begin().await?;
        self.chapter("1. An agent works on its own branch, in its own worktree")?;
        let greeting = self.start("Greet the world", WORK).await?;
        let mut log = Reader::new(&greeting.id);
        let worked = self.work(&greeting, &mut log).await?;
        self.chapter("2. It gets its next prompts in the same session")?;
        let went_on = self.go_on(&greeting, &mut log).await?;
        self.chapter("3. A stubborn agent is stopped, with all its processes")?;
        let stopped = self.stop().await?;
        self.chapter("4. The daemon is killed, and the agent keeps running")?;
        let survived = self.survive().await?;
        self.end(5).await?;
        Ok(json!({
            "ok": true, "worked": worked, "went_on": went_on, "stopped": stopped,
            "survived": survived,
        }))
    }

    async fn work(&mut self, attempt: &Attempt, log: &mut Reader) -> Result<Value, Failure> {
        let base = self.scratch.git(&["rev-parse", "main"]).await?;
        let status = log.follow(&mut self.context).await?;
        check(text(&status, "state") == "completed", "the attempt is completed")?;

        let range = format!("main..{}", attempt.branch);
        let commits = self.scratch.git(&["log", "--oneline", "--no-color", &range]).await?;
        check(commits.lines().count() == 1, "its branch has one commit")?;
        let changed = self.changed(attempt).await?;
        check(changed == ["repo/hello.txt"], "the new file is all that it changed")?;
        check(self.scratch.git(&["rev-parse", "main"]).await? == base, "main is as it was")?;

        self.claim(&format!("on the branch {}: {commits}", attempt.branch))?;
        self.claim(&format!("what it changed: {}", changed.join(", ")))?;
        self.claim("the branch main is as it was")?;
        Ok(json!({"attempt_id": attempt.id, "branch": attempt.branch, "commit": commits}))
    }

    async fn go_on(&mut self, attempt: &Attempt, log: &mut Reader) -> Result<Value, Failure> {
        let target = json!({"attempt_id": attempt.id});
        let follow_up = |action: &str, prompt: &str| json!({"attempt_id": attempt.id, "action": action, "prompt": prompt});
        self.context.tool("follow_up", follow_up("send", NEXT)).await?;
        self.follow_to(log, "A politer").await?;
        let queue = self.context.tool("follow_up", follow_up("queue", LAST)).await?;
        check(queue["queue"]["length"] == json!(1), "the last prompt waits")?;
        self.claim("while it runs, one more prompt waits")?;
        self.scratch.sign(QUEUED)?;
        let status = log.follow(&mut self.context).await?;
        check(text(&status, "state") == "completed", "both turns are completed")?;

        let messages = self.context.read("tail_session_messages", &target).await?;
        let prompts = list(&messages, "messages").iter();
        let prompts = prompts.filter(|message| text(message, "role") == "user");
        let prompts: Vec<&str> = prompts.map(|message| text(message, "text")).collect();
        check(prompts == [WORK, NEXT, LAST], "the session has had three prompts, in order")?;
        let paths = self.changed(attempt).await?;
        let patch = json!({"attempt_id": attempt.id, "paths": paths});
        let patch = self.context.read("get_attempt_patch", &patch).await?;
        self.scratch.applies(text(&patch, "patch")).await?;
        self.claim("the session has had three prompts, in order")?;
        self.claim("the patch of all changes, committed or not, applies to main")?;
        Ok(json!({"turns": prompts.len(), "patch": patch["patch"]}))
    }

    async fn stop(&mut self) -> Result<Value, Failure> {
        let attempt = self.start("Never stop", STUBBORN).await?;
        self.follow_to(&mut Reader::new(&attempt.id), "I ignore").await?;
        let alive = processes_of(&attempt.id);
        check(alive.len() == 2, "the agent and the process that it left are alive")?;
        self.claim(&format!("its processes: {}", pids(&alive)))?;

        let stopped = self.context.tool("stop_attempt", json!({"attempt_id": attempt.id})).await?;
        let sent: Vec<&str> = list(&stopped, "signals").iter().filter_map(Value::as_str).collect();
        check(sent == ["SIGINT", "SIGTERM", "SIGKILL"], "it was asked twice, then killed")?;
        check(stopped["survivors"] == json!(0), "stop_attempt knows of no survivor")?;
        check(processes_of(&attempt.id).is_empty(), "none of its processes is alive")?;
        self.claim(&format!("stopped, after {}", sent.join(", ")))?;
        self.claim("none of its processes is alive")?;
        Ok(json!({"attempt_id": attempt.id, "signals": sent, "processes": alive.len()}))
    }

    async fn survive(&mut self) -> Result<Value, Failure> {
        let prompt = format!(
            "say one: there is a daemon\n\
             run sh {WAIT_FOR} {KILLED}\n\
             say two: there is none, and I go on\n\
             write {MEANWHILE} written without a daemon\n\
             run sh {WAIT_FOR} {BACK}\n\
             say three: there is a new one"
        );
        let attempt = self.start("Outlive the daemon", &prompt).await?;
        let mut reader = Reader::new(&attempt.id);
        self.follow_to(&mut reader, "one:").await?;
        let agent = agent_of(&attempt)?;

        let first = self.daemon().await?;
        kill(first).await?;
        self.claim(&format!("the daemon, pid {}, is killed with SIGKILL", first.pid))?;
        self.scratch.sign(KILLED)?;
        let meanwhile = self.scratch.worktree(&attempt.branch).await?.join(MEANWHILE);
        appears(&meanwhile).await?;
        check(agent_of(&attempt)? == agent, "the agent is the same process")?;
        self.claim(&format!("the agent, pid {}, keeps working without a daemon", agent.pid))?;

        self.follow_to(&mut reader, "two:").await?;
        let second = self.daemon().await?;
        check(first != second, "the daemon is another one")?;
        check(agent_of(&attempt)? == agent, "the agent is the same process")?;
        self.claim(&format!("a new daemon, pid {}, has adopted it", second.pid))?;
        self.scratch.sign(BACK)?;
        let status = reader.follow(&mut self.context).await?;
        check(text(&status, "state") == "completed", "the attempt is completed")?;
        check(status["exit_code"] == json!(0), "its exit code is known")?;
        let said = self.said(&attempt).await?;
        let words: Vec<&str> = said.iter().filter_map(|text| text.split(':').next()).collect();
        check(words == ["one", "two", "three"], "the log has each of its messages once")?;
        self.claim("the log has each of its messages once, and its exit code is known")?;
        Ok(json!({
            "attempt_id": attempt.id, "agent_pid": agent.pid, "daemon_pids": [first.pid, second.pid],
        }))
    }
}

impl Demo {
    async fn start(&mut self, title: &str, prompt: &str) -> Result<Attempt, Failure> {
        let task = json!({"project_id": self.project, "title": title});
        let task = self.context.tool("create_task", task).await?;
        let start = json!({"task_id": task["task_id"], "executor": "fake", "prompt": prompt});
        let started = self.context.tool("start_task_attempt", start).await?;
        let id = text(&started, "attempt_id").to_owned();
        let branch = text(&started, "workspace_branch").to_owned();
        self.claim(&format!("attempt {} started, executor fake", short(&id)))?;
        Ok(Attempt { id, branch })
    }

    /// The files that an attempt has changed.
    async fn changed(&mut self, attempt: &Attempt) -> Result<Vec<String>, Failure> {
        let changes = json!({"attempt_id": attempt.id});
        let changes = self.context.read("get_attempt_changes", &changes).await?;
        let files = list(&changes, "files").iter();
        Ok(files.map(|file| text(file, "path").to_owned()).collect())
    }

    /// Prints the log as it comes, until the agent says something that begins so.
    async fn follow_to(&mut self, reader: &mut Reader, said: &str) -> Result<(), Failure> {
        let is_said = |entry: &Value| {
            text(entry, "kind") == "assistant_message" && text(entry, "text").starts_with(said)
        };
        let status = reader.follow_until(&mut self.context, is_said).await?;
        check(text(&status, "phase") != "settled", "the agent goes on")
    }

    /// All messages of the agent.
    async fn said(&mut self, attempt: &Attempt) -> Result<Vec<String>, Failure> {
        let all = json!({"attempt_id": attempt.id, "after_entry_index": -1, "limit": 1000});
        let log = self.context.read("tail_attempt_logs", &all).await?;
        let entries = list(&log, "entries").iter();
        let said = entries.filter(|entry| text(entry, "kind") == "assistant_message");
        Ok(said.map(|entry| text(entry, "text").to_owned()).collect())
    }

    async fn daemon(&mut self) -> Result<Process, Failure> {
        let pid = self.context.client().await?.welcome().pid;
        Process::of(pid.cast_signed()).ok_or_else(|| fault("the daemon is not alive"))
    }
}

fn agent_of(attempt: &Attempt) -> Result<Process, Failure> {
    let agent = processes_of(&attempt.id).into_iter().next();
    agent.ok_or_else(|| fault("the agent is not alive"))
}

async fn kill(process: Process) -> Result<(), Failure> {
    let handle = process.open().ok_or_else(|| fault("the daemon is not alive"))?;
    handle.signal(Signal::SIGKILL as i32)?;
    Ok(handle.dead().await?)
}

/// Waits for a file, as long as the demo may take.
async fn appears(path: &Path) -> Result<(), Failure> {
    let deadline = Instant::now() + LIMIT;
    while !path.exists() {
        check(Instant::now() < deadline, "the agent works on")?;
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

fn pids(processes: &[Process]) -> String {
    let pids: Vec<String> = processes.iter().map(|process| process.pid.to_string()).collect();
    pids.join(", ")
}
