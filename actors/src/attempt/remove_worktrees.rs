//! Takes worktrees away: their folder goes to the trash, the references that
//! they needed are deleted, and their ports are
//! free. What an attempt has is said by a marker in its folder.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::blocking::{blocking, if_there};
use crate::failpoint;
use crate::journal::Attempt;
use crate::workspace::{forget_worktree, own};
use crate::world::World;

/// Written when all worktrees of an attempt are whole. Until it is there,
/// nothing has run in them and they may be made anew.
pub const MARKER: &str = "worktrees.json";
/// What the own repositories are called in the trash, beside their worktrees.
const OWN_GIT: &str = "repositories";
/// What the marker is called once the worktrees were taken away.
pub const COLLECTED: &str = "collected.json";

/// Ends what is left of worktrees whose folder has gone.
pub async fn forget(world: &World, attempt: &Attempt) {
    for repo in &attempt.repos {
        let forgotten = forget_worktree(repo.path.as_ref(), attempt.attempt_id).await;
        if let Err(error) = forgotten {
            tracing::warn!(attempt = %attempt.attempt_id, %error, repo = repo.path,
                "references that a worktree needed stay");
        }
        failpoint::hit("collect", "forgotten");
    }
    // Nothing that uses them is left. If this fails, the next daemon does it.
    if let Err(refusal) = world.journal.give_back_ports(attempt.attempt_id).await {
        tracing::warn!(attempt = %attempt.attempt_id, %refusal, "its ports stay taken");
    }
}

/// Takes away worktrees that could not be made to the end. If this fails, a collection does it.
pub async fn take_away_unmarked(world: &World, attempt: &Attempt) {
    let folder = world.settings.worktrees_dir.join(&attempt.folder);
    // One that is empty need not go to the trash.
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

/// Moves their folder to the trash.
pub async fn taken_away(world: &World, attempt: &Attempt) -> io::Result<()> {
    let settings = &world.settings;
    let dir = settings.attempt_dir(attempt.attempt_id);
    let (worktrees, trash) = (settings.worktrees_dir.clone(), settings.trash_dir.clone());
    let name = attempt.folder.clone();
    blocking(move || take_away(&dir, &worktrees, &trash, &name)).await
}

/// Three renames; when the second fails the first is taken back. Without the marker, only two. Their own
/// repositories go last: a crash before that leaves what the next worktrees set aside.
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
