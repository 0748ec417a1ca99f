//! A home, a repository, and the daemon on them; gone when all is well, kept for
//! a look when it is not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

use crate::processes::{Census, Process};
use crate::session::Home;
use crate::{Result, command, wait_until};

/// A file of the repository that git ignores, and its content: each worktree gets a copy.
pub const IGNORED: &str = "ignored.txt";
pub const IGNORED_TEXT: &str = "copied whole\n";

/// What a setup script appends a line to, and its content after one run.
pub const MADE: &str = "made.txt";
pub const MADE_BY_ONE_RUN: &str = "made\n";

pub struct Scratch {
    dir: Option<TempDir>,
    root: PathBuf,
    program: PathBuf,
}

impl Scratch {
    /// `running`: how many attempts may run at once.
    pub fn make(program: &Path, running: usize) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("crash-matrix-").tempdir()?;
        let root = dir.path().canonicalize()?;
        let scratch = Self { dir: Some(dir), root, program: program.to_owned() };
        for folder in [scratch.home(), scratch.person(), scratch.witnesses()] {
            fs::create_dir(folder)?;
        }
        let identity = "[user]\nname = Matrix\nemail = matrix@example.invalid\n";
        fs::write(scratch.person().join(".gitconfig"), identity)?;
        let command = json!([std::env::current_exe()?, "executor", scratch.witnesses()]);
        let ready = format!("copy = [\"/{IGNORED}\"]\nports = {{ names = [\"PORT\"] }}\n");
        let config = format!(
            "[daemon]\nmax_running_attempts = {running}\nstop_grace_ms = 2000\n\
             [executors.scripted]\nprotocol = \"plain\"\ncommand = {command}\n\
             sandbox = \"none\"\nresume_args = []\n\
             [worktrees]\nports = \"10000-65535\"\n[projects.matrix.repos.repo]\n{ready}\
             [projects.prepared.repos.repo]\n{ready}setup.run = \"echo made >> {MADE}\"\n"
        );
        fs::write(scratch.home().join("config.toml"), config)?;
        fs::create_dir(scratch.repo())?;
        scratch.git(&["init", "--quiet", "--initial-branch=main"])?;
        scratch.git(&["commit", "--quiet", "--allow-empty", "--message=The beginning"])?;
        let remote = scratch.root.join("remote");
        let remote = remote.to_str().ok_or("the folder's name is not UTF-8")?;
        scratch.git(&["init", "--quiet", "--bare", remote])?;
        scratch.git(&["remote", "add", "origin", remote])?;
        fs::write(scratch.repo().join(".git/info/exclude"), format!("/{IGNORED}\n/{MADE}\n"))?;
        fs::write(scratch.repo().join(IGNORED), IGNORED_TEXT)?;
        Ok(scratch)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    pub fn repo(&self) -> PathBuf {
        self.root.join("repo")
    }

    fn person(&self) -> PathBuf {
        self.root.join("person")
    }

    /// Where executors leave their witness, a file each.
    pub fn witnesses(&self) -> PathBuf {
        self.root.join("witnesses")
    }

    /// The folder of an execution process.
    pub fn folder(&self, attempt_id: &str, process_id: &str) -> PathBuf {
        self.home().join("attempts").join(attempt_id).join(process_id)
    }

    /// What git says, a line each.
    pub fn git(&self, args: &[&str]) -> Result<Vec<String>> {
        let output = self.in_environment(Path::new("git")).args(args).output()?;
        if !output.status.success() {
            return Err(format!("git {args:?}: {output:?}").into());
        }
        Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
    }

    fn in_environment(&self, program: &Path) -> Command {
        let mut command = command(program);
        command
            .current_dir(self.repo())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .env("HOME", self.person())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::null());
        command
    }

    pub fn census(&self) -> Census {
        Census::of(&self.home())
    }

    /// The daemon that holds the home, if one lives.
    pub fn daemon(&self) -> Option<Process> {
        let lock = fs::read_to_string(self.home().join("run/daemon.lock")).ok()?;
        Process::of(lock.trim().parse().ok()?)
    }

    /// Starts a daemon that is to die at a place, instead of whichever runs, and
    /// waits until it listens or is dead.
    pub fn start_to_die_at(&self, place: &str) -> Result<Child> {
        loop {
            if let Some(daemon) = self.daemon() {
                daemon.kill_and_wait()?;
            }
            let _ = fs::remove_file(self.home().join("run/daemon.sock"));
            let log = self.home().join("daemon.log");
            let log = fs::File::options().append(true).create(true).open(log)?;
            let mut daemon = self
                .provost(&["daemon"])
                .env("PROVOST_FAILPOINT", place)
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()?;
            let pid = daemon.id().cast_signed();
            wait_until("a daemon listens", || {
                let listens = self.home().join("run/daemon.sock").exists();
                Ok(listens || daemon.try_wait()?.is_some())
            })?;
            // One that a bridge set going may have been first.
            let is_it = self.daemon().is_some_and(|daemon| daemon.pid == pid);
            match daemon.try_wait()? {
                Some(status) if status.code().is_some_and(|code| code != 3) => {
                    return Err(
                        format!("a daemon that was to die at {place} ended: {status}").into()
                    );
                }
                Some(status) if status.code().is_none() => return Ok(daemon),
                None if is_it => return Ok(daemon),
                _ => {
                    let _ = daemon.kill();
                    daemon.wait()?;
                }
            }
        }
    }

    /// Ends every process of the home, by force.
    pub fn kill_all(&self) {
        let _ = wait_until("nothing of the home is alive", || {
            let Census { shims, marked, others } = self.census();
            let shims = shims.into_iter().map(|shim| shim.process);
            let marked = marked.into_iter().map(|marked| marked.process);
            // Daemons first: they would start what replaces the others.
            let all: Vec<Process> = others.into_iter().chain(shims).chain(marked).collect();
            for process in &all {
                process.kill();
            }
            Ok(all.is_empty())
        });
    }

    /// Leaves the files where they are.
    pub fn keep(&mut self) {
        if let Some(dir) = self.dir.take() {
            let _ = dir.keep();
        }
    }
}

impl Home for Scratch {
    /// In an environment of its own.
    fn provost(&self, args: &[&str]) -> Command {
        let mut provost = self.in_environment(&self.program);
        provost.args(args).env("PROVOST_HOME", self.home()).stderr(Stdio::null());
        provost
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.kill_all();
    }
}
