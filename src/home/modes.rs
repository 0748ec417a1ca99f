//! Access rights of a home's folders and files. A sandbox does not protect them: Landlock has no rule
//! for changes of mode, so an agent in a sandbox can change the modes of this user's files. The daemon
//! therefore sets them again, at its start and regularly afterwards.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{Home, HomeError};

impl Home {
    /// Makes the home's folders 0700, and gives their owner the rights to what is directly in them. Rights
    /// of others to a file stay: of the token's file they show that the token has to be renewed.
    pub fn put_right(&self) {
        for folder in self.folders() {
            if fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
                // An error is reported by the call that needs the folder.
                let _ = private_folder(&folder);
            }
        }
        usable_below(&self.data_dir, 1);
        usable_below(&self.run_dir, 1);
    }

    /// Also gives the owner the rights to the folders of attempts, their processes and worktrees. The daemon
    /// calls it at its start only, because there may be many.
    pub fn put_all_right(&self) {
        self.put_right();
        usable_below(&self.attempts(), 2);
        usable_below(&self.worktrees(), 1);
    }
}

/// Creates a folder and its parents, and makes it 0700; returns its path without links. Fails if it is
/// no folder, or belongs to another user.
pub(super) fn private_folder(path: &Path) -> Result<PathBuf, HomeError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| if path.exists() { not_a_folder(path) } else { failed(path)(error) })?;
    let real = fs::canonicalize(path).map_err(failed(path))?;
    close_to_others(&real, &fs::metadata(&real).map_err(failed(path))?)?;
    Ok(real)
}

/// Creates a folder in one that other users can write too, such as `/tmp`, and makes it 0700. It does
/// not follow links: another user may have put a link there first.
pub(super) fn private_folder_in_shared(path: &Path) -> Result<(), HomeError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed(path)(error));
        }
        _ => {}
    }
    close_to_others(path, &fs::symlink_metadata(path).map_err(failed(path))?)
}

/// Makes a folder of this user 0700; `found` is what the caller saw at the path.
fn close_to_others(path: &Path, found: &fs::Metadata) -> Result<(), HomeError> {
    if !found.is_dir() {
        return Err(not_a_folder(path));
    }
    if found.uid() != nix::unistd::geteuid().as_raw() {
        let (path, owner) = (path.display(), found.uid());
        let what = format!("the folder {path} belongs to user {owner}, not to this one");
        return Err(HomeError(what));
    }
    if found.mode() & 0o777 != 0o700 {
        fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(failed(path))?;
    }
    Ok(())
}

/// Gives the owner the rights (0700, or 0600 for files) to what is in a folder, `depth` levels deep. It
/// skips links and what belongs to another user; errors are ignored.
fn usable_below(folder: &Path, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let owner = nix::unistd::geteuid().as_raw();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(found) = entry.metadata() else { continue };
        if found.is_symlink() || found.uid() != owner {
            continue;
        }
        let least = if found.is_dir() { 0o700 } else { 0o600 };
        let mode = found.mode() & 0o7777;
        if mode & least != least {
            let _ = fs::set_permissions(&path, Permissions::from_mode(mode | least));
        }
        if found.is_dir() {
            usable_below(&path, depth);
        }
    }
}

fn not_a_folder(path: &Path) -> HomeError {
    HomeError(format!("{} is not a folder", path.display()))
}

/// Turns an I/O error at a path into a [`HomeError`].
pub(super) fn failed(path: &Path) -> impl Fn(io::Error) -> HomeError {
    let path = path.display();
    move |error| HomeError(format!("the folder {path} can't be created or read: {error}"))
}
