//! A copy of the files that a patch is made of. Each is opened beneath the worktree without links. git
//! looks paths up several times while it makes a patch. It reads the copy, so what an agent swaps in
//! during that time has no effect.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::limits::{FILE_MAX, TOTAL_MAX};
use super::{GitError, Snapshot, SnapshotError};
use crate::blocking::{blocking, if_there};
use crate::workspace::tree::{Entry, Tree};

/// Bytes of a file of attributes; git reads no larger one (gitattributes(5)).
const ATTRIBUTES_MAX: u64 = 100 << 20;
const ATTRIBUTES: &[u8] = b".gitattributes";

/// Copies the files at these paths, and returns the folder; `None`: they exceed the limits. If a
/// repository is among them, its commit is added to the snapshot's index.
///
/// # Errors
/// The worktree changed while it was read: another try may work.
pub async fn make(
    snapshot: &Snapshot,
    paths: &[Vec<u8>],
) -> Result<Option<PathBuf>, SnapshotError> {
    let root = snapshot.aside.path().join("files");
    let (to, tree, paths) = (root.clone(), Arc::clone(&snapshot.tree), paths.to_vec());
    let repositories = match blocking(move || copy_all(&tree, &paths, &to)).await {
        Ok(Some(repositories)) => repositories,
        Ok(None) => return Ok(None),
        // The worktree changed: a folder became a file, for example.
        Err(error)
            if matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::AlreadyExists) =>
        {
            return Err(GitError::Failed("the worktree changed while it was read".into()).into());
        }
        Err(error) => return Err(error.into()),
    };
    if !repositories.is_empty() {
        let list = repositories.join(&0);
        snapshot.update_index(snapshot.run(), &["--add", "-z", "--stdin"], list).await?;
    }
    Ok(Some(root))
}

/// Copies the files, and returns the paths among them that are repositories of their own; `None`: the
/// limits. Blocking.
fn copy_all(tree: &Tree, paths: &[Vec<u8>], root: &Path) -> io::Result<Option<Vec<Vec<u8>>>> {
    if_there(fs::remove_dir_all(root))?;
    fs::create_dir(root)?;
    let mut repositories = Vec::new();
    let mut left = TOTAL_MAX;
    for path in paths {
        let to = root.join(std::ffi::OsStr::from_bytes(path));
        copy_attributes(tree, path, root)?;
        match tree.entry(path)? {
            Entry::File(file) => {
                make_room(&to)?;
                let Some(bytes) = copy_file(file, &to, left.min(FILE_MAX))? else {
                    return Ok(None);
                };
                left -= bytes;
            }
            Entry::Link(target) => {
                make_room(&to)?;
                symlink(target, &to)?;
            }
            Entry::Folder => {
                fs::create_dir_all(&to)?;
                if tree.has(&[path, &b"/.git"[..]].concat()) {
                    repositories.push(path.clone());
                }
            }
            Entry::Special | Entry::Nothing => {}
        }
    }
    Ok(Some(repositories))
}

/// Makes the folders above a file, and removes a file of attributes that was copied there before.
fn make_room(to: &Path) -> io::Result<()> {
    if let Some(above) = to.parent() {
        fs::create_dir_all(above)?;
    }
    if_there(fs::remove_file(to)).map(drop)
}

/// Copies a file, and returns its size; `None`: it is larger than `max` bytes. Of its mode, git needs
/// whether it is a program.
fn copy_file(file: File, to: &Path, max: u64) -> io::Result<Option<u64>> {
    let is_program = file.metadata()?.permissions().mode() & 0o100 != 0;
    let mut copy = File::create(to)?;
    let bytes = io::copy(&mut file.take(max + 1), &mut copy)?;
    copy.set_permissions(Permissions::from_mode(if is_program { 0o755 } else { 0o644 }))?;
    Ok((bytes <= max).then_some(bytes))
}

/// Copies the files of attributes that count for a path: in each folder above it.
fn copy_attributes(tree: &Tree, path: &[u8], root: &Path) -> io::Result<()> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
    for at in std::iter::once(0).chain(slashes) {
        let attributes = [&path[..at], ATTRIBUTES].concat();
        let to = root.join(std::ffi::OsStr::from_bytes(&attributes));
        if to.symlink_metadata().is_err()
            && let Entry::File(file) = tree.entry(&attributes)?
        {
            make_room(&to)?;
            copy_file(file, &to, ATTRIBUTES_MAX)?;
        }
    }
    Ok(())
}
