//! Removes worktrees: their folder goes to the trash, the references that they needed are deleted, and
//! their ports are free again. A marker in the attempt's folder says what the attempt has.
//!
//! ```text
//!  worktrees.json ─ rename ─▶ collected.json   (synced before the folder moves)
//!  worktrees/<folder> ─ rename ─▶ trash/<uuid>-<folder>
//!  the attempt's own repositories ─ rename ─▶ trash/<uuid>-<folder>/repositories
//! ```

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::blocking::{blocking, if_there};
use crate::failpoint;
use crate::journal::Attempt;
use crate::workspace::{forget_worktree, own};
use crate::world::World;

/// The marker, in the attempt's folder: all worktrees of the attempt are whole. Until it is there,
/// nothing has run in them, and they may be made again.
pub const MARKER: &str = "worktrees.json";
/// The name of the attempt's own repositories in the trash, beside the worktrees.
const OWN_GIT: &str = "repositories";
/// The name of the marker once the worktrees were removed.
pub const COLLECTED: &str = "collected.json";

/// Deletes what is left of worktrees whose folder is gone: references in the person's repositories, and the
/// record of the ports. What fails is logged, and done by the next collection or daemon.
pub async fn forget(world: &World, attempt: &Attempt) {
    for repo in &attempt.repos {
        let forgotten = forget_worktree(repo.path.as_ref(), attempt.attempt_id).await;
        if let Err(error) = forgotten {
            tracing::warn!(attempt = %attempt.attempt_id, %error, repo = repo.path,
                "references that a worktree needed stay");
        }
        failpoint::hit("collect", "forgotten");
    }
    // No process is left that uses the ports. If this fails, the next daemon does it.
    if let Err(refusal) = world.journal.give_back_ports(attempt.attempt_id).await {
        tracing::warn!(attempt = %attempt.attempt_id, %refusal, "its ports stay taken");
    }
}

/// Removes worktrees that could not be made to the end. If this fails, a collection does it.
pub async fn take_away_unmarked(world: &World, attempt: &Attempt) {
    let folder = world.settings.folders.worktrees.join(&attempt.folder);
    // An empty folder need not go to the trash.
    let own = world.settings.attempt_dir(attempt.attempt_id).join(own::FOLDER);
    let has_own = tokio::fs::symlink_metadata(own).await.is_ok();
    let taken = match tokio::fs::remove_dir(&folder).await {
        Ok(()) if !has_own => Ok(()),
        _ => taken_away(world, attempt).await,
    };
    match taken {
        Ok(()) => forget(world, attempt).await,
        Err(error) => {
            tracing::warn!(attempt = %attempt.attempt_id, %error, "half-made worktrees stay");
        }
    }
}

/// Moves the folder of the worktrees, and the attempt's own repositories, to the trash.
///
/// # Errors
/// The folder can't be moved; the marker is as it was then.
pub async fn taken_away(world: &World, attempt: &Attempt) -> io::Result<()> {
    let settings = &world.settings;
    let dir = settings.attempt_dir(attempt.attempt_id);
    let (worktrees, trash) = (settings.folders.worktrees.clone(), settings.folders.trash.clone());
    let name = attempt.folder.clone();
    blocking(move || take_away(&dir, &worktrees, &trash, &name)).await
}

/// Three renames: the marker, the folder, the own repositories. If the second fails, the first is taken back.
/// Half-made worktrees have no marker. After a crash before the third, the next worktrees set the own
/// repositories aside. Blocking.
fn take_away(dir: &Path, worktrees: &Path, trash: &Path, name: &str) -> io::Result<()> {
    let (marker, collected) = (dir.join(MARKER), dir.join(COLLECTED));
    DirBuilder::new().recursive(true).mode(0o700).create(trash)?;
    let is_marked = if_there(fs::rename(&marker, &collected))?.is_some();
    File::open(dir)?.sync_all()?;
    failpoint::hit("collect", "marked");
    let away = trash.join(format!("{}-{name}", uuid::Uuid::now_v7()));
    if let Err(error) = if_there(fs::rename(worktrees.join(name), &away)) {
        if is_marked {
            fs::rename(&collected, &marker)?;
        }
        return Err(error);
    }
    failpoint::hit("collect", "files_moved");
    if_there(fs::create_dir(&away)).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Ok(None),
        _ => Err(error),
    })?;
    if_there(fs::rename(dir.join(own::FOLDER), away.join(OWN_GIT)))?;
    for folder in [trash, worktrees, dir] {
        File::open(folder)?.sync_all()?;
    }
    failpoint::hit("collect", "moved");
    Ok(())
}
