//! The folder of a check run: its paths, the checkout in which the checks run, and the
//! removal of what a finished run no longer needs.
//!
//! ```text
//! checks/<run id>/
//!   objects/<repo name>/       objects of the reported commits that are in no repository
//!   work/<repo name>/          the checkout; work.new while it is being made
//!   tmp/                       the temporary folder of checks in a box
//!   <process id>/              one for each check: its records and its output, which stay
//!   <process id>.lost-1/       those of a try whose end is unknown
//! ```

use std::collections::HashSet;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::blocking::{blocking, if_there};
use crate::failpoint;
use crate::ids::{CheckRunId, ProcessId};
use crate::journal::CheckRun;
use crate::refusal::Refusal;
use crate::workspace::check_out;
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

    /// The checkout of all repositories.
    pub fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    pub fn temporary(&self) -> PathBuf {
        self.0.join("tmp")
    }

    pub fn process(&self, process: ProcessId) -> PathBuf {
        self.0.join(process.to_string())
    }

    /// Lays the reported commits out, if that is not done: it appears whole or not at all.
    /// Returns the folder of the only repository, or the one that holds them all.
    ///
    /// # Errors
    /// A sentence.
    pub async fn checkout(&self, run: &CheckRun) -> Result<PathBuf, String> {
        let failed = |error: &dyn Display| {
            format!("no clean checkout of what was reported can be made: {error}")
        };
        let (work, new) = (self.work(), self.0.join("work.new"));
        if !is_there(&work).await {
            self.remove_work().await.map_err(|error| failed(&error))?;
            for repo in &run.repos {
                let (objects, path) = (self.objects(&repo.name), new.join(&repo.name));
                let made = check_out(repo.path.as_ref(), &repo.commit, objects, path).await;
                made.map_err(|error| failed(&error))?;
                failpoint::hit("checkout", "made");
            }
            tokio::fs::rename(new, &work).await.map_err(|error| failed(&error))?;
            failpoint::hit("checkout", "whole");
        }
        Ok(match run.repos.as_slice() {
            [only] => work.join(&only.name),
            _ => work,
        })
    }

    /// Removes the checkout, whole or not.
    pub async fn remove_work(&self) -> io::Result<()> {
        self.remove(&["work.new", "work", "tmp"]).await
    }

    /// Removes all but the records and the output of its checks.
    pub async fn strip(&self) -> io::Result<()> {
        self.remove(&["work.new", "work", "tmp", "objects"]).await
    }

    /// A name that is missing or can't be removed does not keep the others.
    async fn remove(&self, names: &[&'static str]) -> io::Result<()> {
        let (folder, names) = (self.0.clone(), names.to_vec());
        let remove = move || {
            let remove_all = |name: &str| if_there(fs::remove_dir_all(folder.join(name))).map(drop);
            let removed: Vec<io::Result<()>> = names.into_iter().map(remove_all).collect();
            // A folder with records stays.
            let _ = fs::remove_dir(&folder);
            removed.into_iter().collect()
        };
        blocking(remove).await
    }
}

/// Whether there is anything at a path; what can't be read counts as missing.
pub async fn is_there(path: &Path) -> bool {
    tokio::fs::try_exists(path).await.unwrap_or(false)
}

/// Removes the leftovers of closed runs and unwritten reports, before any report comes.
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
            tracing::warn!(path = %entry.path().display(), %error, "the leftovers of a check run can't be removed");
        }
    }
    Ok(())
}
