//! The folder of a check run: its paths, the checkout in which the checks run, and the removal of what a
//! run that has ended no longer needs.
//!
//! ```text
//! checks/<run id>/
//!   objects/<repo name>/       objects of the reported commits that are in no repository
//!   work/<repo name>/          the checkout; work.new while it is being made
//!   tmp/                       the temporary folder of checks in a box
//!   <process id>/              one for each check: its records and its output, which stay
//!   <process id>.lost-1/       records and output of a try whose end is unknown
//! ```
//!
//! [`Folder::strip`] removes the first three once the run is closed; [`tidy`] does so at the daemon's
//! start for runs that were closed, or never written down, before a daemon died.

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

/// The folder of one run, below the daemon's folder of check runs. The value is only a path: nothing
/// needs to exist there.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder of this run, whether or not it exists.
    pub fn of(world: &World, run: CheckRunId) -> Self {
        Self(world.settings.folders.checks.join(run.to_string()))
    }

    /// The objects that belong to the reported commit of this repository and that the repository itself
    /// lacks. They are written before the run is written down. The folder is missing where no worktree
    /// was frozen.
    pub fn objects(&self, repo: &str) -> PathBuf {
        self.0.join("objects").join(repo)
    }

    /// The checkout of all repositories, a folder for each by its name. If it exists, it is complete.
    pub fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// `TMPDIR` of checks that run in a box.
    pub fn temporary(&self) -> PathBuf {
        self.0.join("tmp")
    }

    /// The folder in which the shim of this check keeps its records and the output.
    pub fn process(&self, process: ProcessId) -> PathBuf {
        self.0.join(process.to_string())
    }

    /// Checks out the reported commits, unless an earlier call did. The commits go to `work.new`, which a
    /// rename makes `work`: a checkout that a daemon's death cut off never counts as complete. Returns
    /// the folder of the only repository, or the folder that holds all of them.
    ///
    /// # Errors
    /// A sentence for the receipt.
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

    /// Removes the checkout, complete or not, and the temporary folder, so that the next try begins with
    /// a clean one.
    pub async fn remove_work(&self) -> io::Result<()> {
        self.remove(&["work.new", "work", "tmp"]).await
    }

    /// Removes all but the records and the output of the checks, which receipts refer to.
    pub async fn strip(&self) -> io::Result<()> {
        self.remove(&["work.new", "work", "tmp", "objects"]).await
    }

    /// Removes each of the names. A name that is missing is no error, and a name that can't be removed
    /// does not keep the others; the first error is returned.
    async fn remove(&self, names: &[&'static str]) -> io::Result<()> {
        let (folder, names) = (self.0.clone(), names.to_vec());
        let remove = move || {
            let remove_all = |name: &str| if_there(fs::remove_dir_all(folder.join(name))).map(drop);
            let removed: Vec<io::Result<()>> = names.into_iter().map(remove_all).collect();
            // Fails, as intended, where records are left in the folder.
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

/// Removes the leftovers of runs that are closed, and of submissions whose report was never written down.
/// The daemon calls it at its start, before it takes reports: a folder without an open run has no use
/// then.
///
/// # Errors
/// The journal can't be read. Files that can't be removed are only logged.
pub async fn tidy(world: &World) -> Result<(), Refusal> {
    let open = world.journal.open_checks().await?;
    let open: HashSet<String> = open.iter().map(|run| run.run_id.to_string()).collect();
    let Ok(mut entries) = tokio::fs::read_dir(&world.settings.folders.checks).await else {
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
