//! A copy of the files that are to be in a patch. Each is opened beneath the worktree,
//! by no link: git, which looks up paths again and again, reads the copy and so nothing
//! that an agent puts in a folder's place meanwhile.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::plenty::{FILE_MAX, TOTAL_MAX};
use super::{GitError, Snapshot, SnapshotError};
use crate::blocking::blocking;
use crate::workspace::tree::{Entry, Tree};

/// Bytes of a file of attributes; git reads no more (gitattributes(5)).
const ATTRIBUTES_MAX: u64 = 100 << 20;
const ATTRIBUTES: &[u8] = b".gitattributes";

/// Copies the files at these paths, and returns the folder; `None` when they are more
/// than is read. Of a repository among them the snapshot's index gets the commit.
pub async fn make(
    snapshot: &Snapshot,
    paths: &[Vec<u8>],
) -> Result<Option<PathBuf>, SnapshotError> {
    let root = snapshot.aside.path().join("files");
    let copied = {
        let (root, tree, paths) = (root.clone(), Arc::clone(&snapshot.tree), paths.to_vec());
        blocking(move || copy_all(&tree, &paths, &root)).await
    };
    let repositories = match copied {
        Ok(Copied::All { repositories }) => repositories,
        Ok(Copied::TooMuch) => return Ok(None),
        // A folder became a file, or the like.
        Err(error)
            if matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::AlreadyExists) =>
        {
            return Err(GitError::Failed("the worktree changed while it was read".into()).into());
        }
        Err(error) => return Err(error.into()),
    };
    if !repositories.is_empty() {
        let list = repositories.join(&0);
        snapshot.update_index(&["--add", "-z", "--stdin"], list, None).await?;
    }
    Ok(Some(root))
}

enum Copied {
    /// With the paths that are repositories of their own.
    All {
        repositories: Vec<Vec<u8>>,
    },
    TooMuch,
}

fn copy_all(tree: &Tree, paths: &[Vec<u8>], root: &Path) -> io::Result<Copied> {
    match fs::remove_dir_all(root) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir(root)?,
    }
    let mut repositories = Vec::new();
    let mut left = TOTAL_MAX;
    for path in paths {
        let to = root.join(std::ffi::OsStr::from_bytes(path));
        copy_attributes(tree, path, root)?;
        match tree.entry(path)? {
            Entry::File(file) => {
                make_room(&to)?;
                let Some(bytes) = copy_file(file, &to, left.min(FILE_MAX))? else {
                    return Ok(Copied::TooMuch);
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
    Ok(Copied::All { repositories })
}

/// Makes the folders above. A file of attributes may be copied already.
fn make_room(to: &Path) -> io::Result<()> {
    if let Some(above) = to.parent() {
        fs::create_dir_all(above)?;
    }
    match fs::remove_file(to) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Copies a file of `max` bytes at most; returns how many they are.
fn copy_file(file: File, to: &Path, max: u64) -> io::Result<Option<u64>> {
    let is_program = file.metadata()?.permissions().mode() & 0o100 != 0;
    let mut copy = File::create(to)?;
    let bytes = io::copy(&mut file.take(max + 1), &mut copy)?;
    copy.set_permissions(Permissions::from_mode(if is_program { 0o755 } else { 0o644 }))?;
    Ok((bytes <= max).then_some(bytes))
}

/// Copies the attributes that apply to a path: those of each folder above it.
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
