//! A worktree as it is at a moment, as a commit: its HEAD, or where something is
//! not committed, one made of all that git does not ignore. That one is written to
//! a folder of objects beside the repository: no branch, index or reference of the
//! worktree's changes, and the repository gets no object.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::sync::Arc;

use super::snapshot::{Snapshot, SnapshotError, Source};
use super::tree::Tree;
use super::{aside, git};
use crate::blocking::blocking;

/// Bytes that are taken in of what is not committed; git reads them all, and writes
/// them.
const BYTES_MAX: u64 = 1 << 30;

/// What a worktree held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frozen {
    pub commit: String,
    /// The commit was made for it.
    pub includes_uncommitted: bool,
    /// Nothing in it is other than at the merge base with the target branch.
    pub is_unchanged: bool,
}

/// Freezes a worktree. `objects` gets what the repository doesn't have, and is
/// made; a [`checkout`](super::checkout) reads both.
pub async fn freeze(source: &Source, objects: &Path) -> Result<Frozen, SnapshotError> {
    let snapshot = Snapshot::take(source).await?;
    {
        let (objects, lender) = (objects.to_owned(), snapshot.common().join("objects"));
        blocking(move || aside::lend_objects(&objects, &[&lender])).await?;
    }
    take_in(&snapshot, objects).await?;
    let tree = snapshot.writing(objects).text(&["write-tree"]).await?;
    let head = snapshot.head();
    let [of_base, of_head] = [snapshot.base(), head].map(|commit| format!("{commit}^{{tree}}"));
    let trees = git::run(&source.repo, &["rev-parse", &of_base, &of_head]).await?;
    let (of_base, of_head) = trees.split_once('\n').unwrap_or_default();
    let is_unchanged = tree == of_base;
    if tree == of_head {
        let commit = head.to_owned();
        return Ok(Frozen { commit, includes_uncommitted: false, is_unchanged });
    }
    let args = ["commit-tree", &tree, "-p", head, "-m", "What was not committed"];
    let commit = snapshot.writing(objects).text(&args).await?;
    Ok(Frozen { commit, includes_uncommitted: true, is_unchanged })
}

/// Puts the files as they are into the snapshot's index. Not by `git add`, which asks
/// the git of each submodule how it stands and so runs what its configuration says;
/// this reads of a submodule nothing but its HEAD.
async fn take_in(snapshot: &Snapshot, objects: &Path) -> Result<(), SnapshotError> {
    // Other than `git ls-files --modified`, it reads no file.
    let list = ["diff-files", "--name-only", "--ignore-submodules=dirty", "-z"];
    let changed = snapshot.listing(&list).await?;
    if changed.is_empty() {
        return Ok(());
    }
    let tree = Arc::clone(snapshot.tree());
    let stdin = blocking(move || measured(&tree, &changed).map(|()| changed)).await?;
    let mut git = snapshot.writing(objects);
    git.command.stdin(blocking(move || anonymous(&stdin)).await?);
    git.text(&["update-index", "--add", "--remove", "--replace", "-z", "--stdin"]).await?;
    Ok(())
}

/// That the files are no more than can be taken in; paths end with a NUL each.
fn measured(tree: &Tree, paths: &[u8]) -> Result<(), SnapshotError> {
    let mut total = 0;
    for path in paths.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
        let (_, bytes) = tree.look(path);
        total += bytes;
        if total > BYTES_MAX {
            let path = String::from_utf8_lossy(path).into_owned();
            return Err(SnapshotError::TooLarge { path, bytes, max: BYTES_MAX });
        }
    }
    Ok(())
}

/// A file without a name, at its beginning.
fn anonymous(content: &[u8]) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}

#[cfg(test)]
mod tests;
