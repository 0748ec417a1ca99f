//! A home with a daemon, a repository, a first project and attempt, and connections to
//! the daemon by `provost mcp`. Ends all of it when dropped.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Result;
use crate::generate::{Ids, Request};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_mins(2);

/// What the daemon may hold in memory, in KiB.
const MEMORY_MAX: u64 = 512 * 1024;

pub struct Scratch {
    dir: TempDir,
    program: PathBuf,
    daemon: Child,
}

impl Scratch {
    pub fn start(program: &Path) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("fuzz-tools-").tempdir()?;
        let (home, repo) = (dir.path().join("home"), dir.path().join("repo"));
        for folder in [&home, &repo, &dir.path().join("person")] {
            fs::create_dir(folder)?;
        }
        // No limit of calls, and few attempts at once.
        let config = "[daemon]\nmax_running_attempts = 2\nstop_grace_ms = 100\n\
            [worker]\nburst_per_second = 0\nagent_per_minute = 0\nall_per_minute = 0\n";
        fs::write(home.join("config.toml"), config)?;
        let log = fs::File::create(dir.path().join("log"))?;
        let daemon = in_scratch(dir.path(), program).arg("daemon").stderr(log).spawn()?;
        let scratch = Self { dir, program: program.to_owned(), daemon };
        let identity = ["-c", "user.name=Fuzz", "-c", "user.email=fuzz@example.invalid"];
        let commit = ["commit", "--quiet", "--allow-empty", "--message=The beginning"];
        scratch.git(&["init", "--quiet", "--initial-branch=main"])?;
        scratch.git(&[&identity[..], &commit[..]].concat())?;
        let socket = scratch.home().join("run/daemon.sock");
        let deadline = Instant::now() + TIMEOUT;
        while !socket.exists() {
            if Instant::now() > deadline {
                return Err(format!("the daemon does not listen: {}", scratch.log()).into());
            }
            #[expect(clippy::disallowed_methods, reason = "it waits for another process")]
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(scratch)
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn git(&self, arguments: &[&str]) -> Result<()> {
        let mut git = in_scratch(self.dir.path(), Path::new("git"));
        let status = git.current_dir(self.dir.path().join("repo")).args(arguments).status()?;
        if status.success() { Ok(()) } else { Err(format!("git {arguments:?}: {status}").into()) }
    }

    pub fn connect(&self, role: &str) -> Result<Connection> {
        let mut bridge = in_scratch(self.dir.path(), &self.program)
            .args(["mcp", "--role", role])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = bridge.stdout.take().ok_or("no pipe")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(std::io::Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Connection { bridge, lines, last: 0 })
    }

    /// A project, a task and an attempt, so that there is something to call about.
    pub fn board(&self, connection: &mut Connection) -> Result<Ids> {
        let mut ids = Ids::default();
        let repos = json!([{"path": self.dir.path().join("repo")}]);
        let made = connection.call("create_project", &json!({"name": "fuzz", "repos": repos}))?;
        ids.learn(&made);
        let task = json!({"project_id": made["project_id"], "title": "fuzz"});
        let task = connection.call("create_task", &task)?;
        ids.learn(&task);
        let start = json!({"task_id": task["task_id"], "executor": "fake",
            "prompt": "write file.txt hello\nsay done"});
        ids.learn(&connection.call("start_task_attempt", &start)?);
        Ok(ids)
    }

    /// Whether the daemon is the one that was started, serves, kept its memory in bounds,
    /// and has not panicked.
    pub fn is_well(&mut self, connection: &mut Connection) -> Result<()> {
        connection.call("list_projects", &json!({}))?;
        if let Some(status) = self.daemon.try_wait()? {
            return Err(format!("the daemon ended: {status}\n{}", self.log()).into());
        }
        let status = fs::read_to_string(format!("/proc/{}/status", self.daemon.id()))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no peak")?;
        let peak: u64 = peak.trim().trim_end_matches(" kB").parse()?;
        if peak > MEMORY_MAX {
            return Err(format!("the daemon took {peak} KiB of memory").into());
        }
        match self.log().lines().find(|line| line.contains("panicked")) {
            Some(line) => Err(format!("the daemon's log: {line}").into()),
            None => Ok(()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ =
            in_scratch(self.dir.path(), &self.program).args(["shutdown", "--stop-all"]).output();
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// A command in an environment of its own.
#[expect(clippy::disallowed_methods, reason = "an example starts what it tries")]
fn in_scratch(dir: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("LANG", "C.UTF-8")
        .env("HOME", dir.join("person"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("PROVOST_HOME", dir.join("home"))
        .stdin(Stdio::null());
    command
}

/// One bridge.
pub struct Connection {
    bridge: Child,
    lines: Receiver<String>,
    last: u64,
}

impl Connection {
    /// Sends a request; its id, if it has one.
    pub fn send(&mut self, request: &Request) -> Result<Option<u64>> {
        let (method, params) = match request {
            Request::Call { tool, arguments } => {
                ("tools/call", json!({"name": tool, "arguments": arguments}))
            }
            Request::Method { name, params } => (name.as_str(), params.clone()),
            Request::Garbage(line) => {
                self.write(line)?;
                return Ok(None);
            }
        };
        self.last += 1;
        let line = json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params});
        self.write(line.to_string().as_bytes())?;
        Ok(Some(self.last))
    }

    fn write(&mut self, line: &[u8]) -> Result<()> {
        let stdin = self.bridge.stdin.as_mut().ok_or("the bridge has no input")?;
        stdin.write_all(&[line, b"\n"].concat())?;
        Ok(())
    }

    /// The next line.
    pub fn next(&mut self) -> Result<Value> {
        let line = self.lines.recv_timeout(TIMEOUT).map_err(|_| "no answer in time")?;
        Ok(serde_json::from_str(&line)?)
    }

    /// A request that is answered before the next one is sent.
    pub fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.send(&Request::Method { name: method.to_owned(), params: params.clone() })?;
        self.next()
    }

    /// A call that must work.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        if answer["result"]["isError"] == true {
            Err(format!("{tool} was refused: {answer}").into())
        } else {
            Ok(answer["result"]["structuredContent"].clone())
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.bridge.kill();
        let _ = self.bridge.wait();
    }
}
