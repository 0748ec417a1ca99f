//! The demo's scratch folder, with a home and a git repository. Dropping it kills every process that
//! belongs to it, and removes the folder.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use provost_actors::blocking::if_there;
use provost_actors::workspace::git;
use serde_json::json;

use crate::cli::exit::Failure;
use crate::cli::leftovers;
use crate::home::Home;

/// The grace period of a stop: long enough for the demo's agents, and short enough to watch.
const CONFIG: &str = "[daemon]\nstop_grace_ms = 500\n";

/// A script in the repository with which the demo's agent waits until the demo creates a file in the home.
const WAIT_FOR: &str = "until [ -e \"$PROVOST_HOME/$1\" ]; do sleep 0.05; done\n";

/// The folder and the home in it.
pub struct Scratch {
    pub root: PathBuf,
    pub home: Home,
}

impl Scratch {
    /// Makes the folder, private to this user. `is_team` adds the files and settings of the team's script.
    pub async fn make(is_team: bool) -> Result<Self, Failure> {
        let id = uuid::Uuid::now_v7().simple().to_string();
        let root = std::env::temp_dir().join(format!("provost-demo-{}", &id[id.len() - 8..]));
        DirBuilder::new().mode(0o700).create(&root)?;
        let root = root.canonicalize()?;
        let home = match Home::at(root.join("home")) {
            Ok(home) => home,
            Err(error) => {
                fs::remove_dir_all(&root)?;
                return Err(error.into());
            }
        };
        let scratch = Self { root, home };
        let mut config = CONFIG.to_owned();
        let mut files = vec![("repo/wait-for", WAIT_FOR)];
        if is_team {
            files.extend([
                ("repo/docs/plan.md", include_str!("plan.md")),
                ("repo/check.sh", include_str!("check.sh")),
                ("board.json", include_str!("board.json")),
                ("worker.sh", include_str!("worker.sh")),
            ]);
            let (worker, program) = (scratch.root.join("worker.sh"), std::env::current_exe()?);
            let worker = json!(["sh", worker.to_string_lossy(), program.to_string_lossy()]);
            config = format!(
                "{CONFIG}[executors.worker]\nprotocol = \"plain\"\ncommand = {worker}\n\
                 sandbox = \"none\"\nresume_args = []\n\
                 [projects.demo.checks]\ntest = \"sh check.sh\"\n"
            );
        }
        fs::write(scratch.home.config_file(), config)?;
        for (name, content) in files {
            let file = scratch.root.join(name);
            fs::create_dir_all(file.parent().unwrap_or(&scratch.root))?;
            fs::write(file, content)?;
        }
        begin_repository(&scratch.root.join("repo")).await?;
        Ok(scratch)
    }

    /// Kills every process of the demo and removes every file, also the home's runtime folder where it is
    /// elsewhere. It can be called again.
    pub fn remove(&self) -> io::Result<()> {
        leftovers::kill(&self.root)?;
        let run = self.home.socket.parent().filter(|run| !run.starts_with(&self.root));
        for folder in run.into_iter().chain([self.root.as_path()]) {
            if_there(fs::remove_dir_all(folder))?;
        }
        Ok(())
    }
}

/// Makes a folder a git repository, with its content as the first commit.
pub async fn begin_repository(folder: &Path) -> Result<(), Failure> {
    // The repository's settings override the user's own, which may sign commits or run hooks.
    for command in [
        "init --quiet --initial-branch=main",
        "config user.name Provost-demo",
        "config user.email demo@localhost",
        "config commit.gpgSign false",
        "config core.hooksPath /dev/null",
        "add .",
        "commit --quiet --message=Begin",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let done = git::run(folder, &words).await;
        done.map_err(|error| Failure::Fault(format!("git: {error}")))?;
    }
    Ok(())
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            anstream::eprintln!("error: {} is left behind: {error}", self.root.display());
        }
    }
}
