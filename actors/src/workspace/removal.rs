//! Deletes a file, or a folder with all that is in it. Follows no link. Blocking.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Deletes what is at the path; a link is deleted itself. Folders without write permission are made
/// writable first.
///
/// # Errors
/// Nothing is there, or something in it can't be deleted; some of it may be gone then.
pub fn remove(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    match fs::remove_dir_all(path) {
        // Some tools make the folders of their caches read-only, and nothing can be deleted in those.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_folders(path)?;
            fs::remove_dir_all(path)
        }
        removed => removed,
    }
}

/// Makes a folder and all below it writable for their owner.
fn open_folders(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_folders(&entry.path())?;
        }
    }
    Ok(())
}
