//! Where a run lies on disk. Paths, and the removal of what only a run that goes on
//! needs.
//!
//! ```text
//! checks/<run id>/
//!   objects/<repo name>/       what of the reported commits is in no repository
//!   work/<repo name>/          the checkout; work.new while it is being made
//!   <process id>/              one for each check: its records and its output, which stay
//!   <process id>.lost-1/       of a try that came to nothing
//! ```

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::ids::{CheckRunId, ProcessId};
use crate::refusal::Refusal;
use crate::world::World;

/// The folder of a run.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn of(world: &World, run: CheckRunId) -> Self {
        Self(world.settings.checks_dir.join(run.to_string()))
    }

    pub fn objects(&self, repo: &str) -> PathBuf {
        self.0.join("objects").join(repo)
    }

    pub fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    pub fn new_work(&self) -> PathBuf {
        self.0.join("work.new")
    }

    pub fn process(&self, process: ProcessId) -> PathBuf {
        self.0.join(process.to_string())
    }

    /// Removes the checkout, whole or not.
    pub async fn remove_work(&self) -> io::Result<()> {
        self.remove(&["work.new", "work"]).await
    }

    /// Removes all but the records and the output of its checks.
    pub async fn strip(&self) -> io::Result<()> {
        self.remove(&["work.new", "work", "objects"]).await
    }

    /// What is not there, or is not ours to remove, is no reason to leave the rest.
    async fn remove(&self, names: &[&'static str]) -> io::Result<()> {
        let (folder, names) = (self.0.clone(), names.to_vec());
        let removed = tokio::task::spawn_blocking(move || {
            let removed: Vec<io::Result<()>> =
                names.into_iter().map(|name| remove_all(&folder.join(name))).collect();
            // With records in it, it stays.
            let _ = fs::remove_dir(&folder);
            removed.into_iter().collect()
        });
        removed.await.map_err(io::Error::other)?
    }
}

fn remove_all(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes what runs have left that an earlier daemon did not live to close, or
/// whose reports were never written down. To be called before any report comes.
pub async fn tidy(world: &World) -> Result<(), Refusal> {
    let open = world.journal.open_checks().await?;
    let open: HashSet<String> = open.iter().map(|run| run.run_id.to_string()).collect();
    let Ok(mut entries) = tokio::fs::read_dir(&world.settings.checks_dir).await else {
        return Ok(());
    };
    while let Ok(Some(entry)) = entries.next_entry().await {
        if !open.contains(&*entry.file_name().to_string_lossy())
            && let Err(error) = Folder(entry.path()).strip().await
        {
            tracing::warn!(path = %entry.path().display(), %error, "it can't be removed");
        }
    }
    Ok(())
}
