//! The demo's scratch folder, with a home and a git repository. Dropping it removes the
//! folder and kills every process that belongs to it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use provost_actors::process::identity::Process;
use provost_actors::process::proc;
use provost_actors::workspace::git;
use serde_json::json;

use super::board;
use crate::cli::exit::Failure;
use crate::cli::output::short;
use crate::home::{HOME_VARIABLE, Home};

/// How long to wait for a killed process.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// The grace of a stop is long enough for the demo's agents, and short enough to watch.
const CONFIG: &str = "[daemon]\nstop_grace_ms = 500\n";

/// The script by which an agent waits for a sign from the demo.
pub const WAIT_FOR: &str = "wait-for";
const WAIT_FOR_SCRIPT: &str = "until [ -e \"$PROVOST_HOME/$1\" ]; do sleep 0.05; done\n";

pub struct Scratch {
    root: PathBuf,
    home: Home,
}

impl Scratch {
    pub async fn make() -> Result<Self, Failure> {
        let name = format!("provost-demo-{}", short(&uuid::Uuid::now_v7().to_string()));
        let root = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&root)?;
        let root = root.canonicalize()?;
        let scratch = match Home::at(root.join("home")) {
            Ok(home) => Self { root, home },
            Err(error) => {
                fs::remove_dir_all(&root)?;
                return Err(error.into());
            }
        };
        fs::write(scratch.home.config_file(), CONFIG)?;
        scratch.make_repository().await?;
        Ok(scratch)
    }

    /// Adds what a team needs, before the daemon runs.
    pub async fn prepare_for_a_team(&self) -> Result<(), Failure> {
        let files = [(board::PLAN_FILE, board::PLAN), (board::CHECK_FILE, board::CHECK)];
        for (name, content) in files {
            let file = self.repo().join(name);
            fs::create_dir_all(file.parent().unwrap_or(&self.root))?;
            fs::write(file, content)?;
        }
        self.git(&["add", "."]).await?;
        self.git(&["commit", "--quiet", "--message=The plan"]).await?;
        let program = json!(std::env::current_exe()?.to_string_lossy());
        let config = format!(
            "{CONFIG}[executors.worker]\nprotocol = \"plain\"\n\
             command = [{program}, \"demo\", \"--play-worker\"]\n\
             [projects.demo.checks]\ntest = \"sh {check}\"\n",
            check = board::CHECK_FILE
        );
        Ok(fs::write(self.home.config_file(), config)?)
    }

    async fn make_repository(&self) -> Result<(), Failure> {
        let repo = self.repo();
        fs::create_dir(&repo)?;
        fs::write(repo.join(WAIT_FOR), WAIT_FOR_SCRIPT)?;
        self.git(&["init", "--quiet", "--initial-branch=main"]).await?;
        // These override the user's own settings.
        for (key, value) in [
            ("user.name", "Provost demo"),
            ("user.email", "demo@localhost"),
            ("commit.gpgSign", "false"),
            ("core.hooksPath", "/dev/null"),
        ] {
            self.git(&["config", key, value]).await?;
        }
        self.git(&["add", "."]).await?;
        self.git(&["commit", "--quiet", "--message=The beginning"]).await?;
        Ok(())
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn home(&self) -> &Home {
        &self.home
    }

    pub fn repo(&self) -> PathBuf {
        self.root.join("repo")
    }

    /// Runs git in the repository; its output.
    pub async fn git(&self, args: &[&str]) -> Result<String, Failure> {
        git::run(&self.repo(), args).await.map_err(|error| Failure::Fault(format!("git: {error}")))
    }

    /// Fails if a patch does not apply to the branch that is checked out.
    pub async fn applies(&self, patch: &str) -> Result<(), Failure> {
        let file = self.root.join("patch");
        fs::write(&file, patch)?;
        self.git(&["apply", "--check", &file.to_string_lossy()]).await.map(drop)
    }

    /// The worktree of a branch.
    pub async fn worktree(&self, branch: &str) -> Result<PathBuf, Failure> {
        let listed = self.git(&["worktree", "list", "--porcelain"]).await?;
        let reference = format!("branch refs/heads/{branch}");
        let found = listed.split("\n\n").find(|one| one.lines().any(|line| line == reference));
        let path = found.and_then(|one| one.lines().next()?.strip_prefix("worktree "));
        path.map(PathBuf::from)
            .ok_or_else(|| Failure::Fault(format!("no worktree has the branch {branch}")))
    }

    /// Gives a waiting agent its sign.
    pub fn sign(&self, name: &str) -> io::Result<()> {
        fs::write(self.home.data_dir().join(name), "")
    }

    /// Every process that belongs to the demo: those with its home in their environment, and
    /// shims, which lack the variable but work in its folders.
    pub fn processes(&self) -> Vec<Process> {
        let marker = format!("{HOME_VARIABLE}={}", self.home.data_dir().display());
        let link = |pid: i32, name: &str| fs::read_link(format!("/proc/{pid}/{name}")).ok();
        let program = link(std::process::id().cast_signed(), "exe");
        let is_shim = |pid: i32| {
            link(pid, "exe") == program
                && link(pid, "cwd").is_some_and(|cwd| cwd.starts_with(&self.root))
        };
        let is_here = |pid: &i32| has_variable(*pid, &marker) || is_shim(*pid);
        let own = std::process::id().cast_signed();
        let others = proc::all().into_iter().filter(|pid| *pid != own);
        others.filter(is_here).filter_map(Process::of).collect()
    }

    /// Kills every process and removes every file of the demo.
    pub fn remove(&self) -> io::Result<()> {
        // Processes may start while others are killed, so each round looks again.
        for process in std::iter::from_fn(|| self.processes().into_iter().next()) {
            let Some(handle) = process.open() else { continue };
            let _ = handle.signal(Signal::SIGKILL as i32);
            if !handle.wait_dead(KILL_LIMIT) {
                return Err(io::Error::other(format!("process {} can't be killed", process.pid)));
            }
        }
        let run = self.home.socket().parent().filter(|run| !run.starts_with(&self.root));
        for folder in run.into_iter().chain([self.root()]) {
            match fs::remove_dir_all(folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            anstream::eprintln!("error: {} is left behind: {error}", self.root.display());
        }
    }
}

/// The living processes of an attempt, the agent first.
pub fn processes_of(attempt: &str) -> Vec<Process> {
    let marker = format!("PROVOST_ATTEMPT_ID={attempt}");
    let mut found: Vec<Process> = proc::all()
        .into_iter()
        .filter(|pid| has_variable(*pid, &marker))
        .filter_map(Process::of)
        .collect();
    found.sort_by_key(|process| (process.start_time, process.pid));
    found
}

fn has_variable(pid: i32, variable: &str) -> bool {
    proc::environ(pid).split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
}
