//! Where a demo takes place: one folder with a home and a git repository. All
//! that is in it, and every process of it, is gone when it is dropped.

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

/// Killed processes that are still there after this are given up.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// Longer than any real stop of the demo needs, short enough to watch.
const CONFIG: &str = "[daemon]\nstop_grace_ms = 500\n";

/// Lets an agent wait until the demo gives it a sign.
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

    /// What a team needs beside the repository; before the daemon runs.
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
        // A person's own settings must not reach in.
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

    /// What git says in the repository.
    pub async fn git(&self, args: &[&str]) -> Result<String, Failure> {
        git::run(&self.repo(), args).await.map_err(|error| Failure::Fault(format!("git: {error}")))
    }

    /// Fails if a patch does not apply to the branch that is checked out.
    pub async fn applies(&self, patch: &str) -> Result<(), Failure> {
        let file = self.root.join("patch");
        fs::write(&file, patch)?;
        self.git(&["apply", "--check", &file.to_string_lossy()]).await.map(drop)
    }

    /// The folder in which a branch is checked out.
    pub async fn worktree(&self, branch: &str) -> Result<PathBuf, Failure> {
        let listed = self.git(&["worktree", "list", "--porcelain"]).await?;
        let reference = format!("branch refs/heads/{branch}");
        let found = listed.split("\n\n").find(|one| one.lines().any(|line| line == reference));
        let path = found.and_then(|one| one.lines().next()?.strip_prefix("worktree "));
        path.map(PathBuf::from)
            .ok_or_else(|| Failure::Fault(format!("no worktree has the branch {branch}")))
    }

    /// Gives the agent that waits for it a sign.
    pub fn sign(&self, name: &str) -> io::Result<()> {
        fs::write(self.home.data_dir().join(name), "")
    }

    /// Every process that lives here: those that were told that this is their
    /// home, and shims, which are told nothing but work here.
    pub fn processes(&self) -> Vec<Process> {
        let told = format!("{HOME_VARIABLE}={}", self.home.data_dir().display());
        let link = |pid: i32, name: &str| fs::read_link(format!("/proc/{pid}/{name}")).ok();
        let program = link(std::process::id().cast_signed(), "exe");
        let is_shim = |pid: i32| {
            link(pid, "exe") == program
                && link(pid, "cwd").is_some_and(|cwd| cwd.starts_with(&self.root))
        };
        let is_here = |pid: &i32| has_variable(*pid, &told) || is_shim(*pid);
        let own = std::process::id().cast_signed();
        let others = proc::all().into_iter().filter(|pid| *pid != own);
        others.filter(is_here).filter_map(Process::of).collect()
    }

    /// Kills every process that lives here and removes every file.
    pub fn remove(&self) -> io::Result<()> {
        // Those that were being started when the first were found come last.
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
