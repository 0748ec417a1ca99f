//! The checkout in which a run's checks run: the reported commits, laid out once.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use crate::failpoint;
use crate::journal::CheckRun;
use crate::workspace::checkout::{self, Checkout};

use super::folder::Folder;

/// The folder to run in: that of the only repository, or the one that holds them all.
/// Made if needed; it appears whole or not at all. `Err` is a sentence.
pub async fn ready(run: &CheckRun, folder: &Folder) -> Result<PathBuf, String> {
    let failed = |error: &dyn Display| {
        format!("no clean checkout of what was reported can be made: {error}")
    };
    let work = folder.work();
    if !is_there(&work).await {
        folder.remove_work().await.map_err(|error| failed(&error))?;
        for repo in &run.repos {
            let checkout = Checkout {
                repo: PathBuf::from(&repo.path),
                commit: repo.commit.clone(),
                objects: folder.objects(&repo.name),
                path: folder.new_work().join(&repo.name),
            };
            checkout::make(&checkout).await.map_err(|error| failed(&error))?;
            failpoint::hit("checkout", "made");
        }
        tokio::fs::rename(folder.new_work(), &work).await.map_err(|error| failed(&error))?;
        failpoint::hit("checkout", "whole");
    }
    Ok(match run.repos.as_slice() {
        [only] => work.join(&only.name),
        _ => work,
    })
}

/// Whether there is anything at a path; what can't be looked at is not there.
pub async fn is_there(path: &Path) -> bool {
    tokio::fs::try_exists(path).await.unwrap_or(false)
}
