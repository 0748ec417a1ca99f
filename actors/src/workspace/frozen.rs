//! A worktree as it is at a moment, as a commit: its HEAD, or where something is
//! not committed, one made of all that git does not ignore. That one is written to
//! a folder of objects beside the repository: no branch, index or reference of the
//! worktree's changes, and the repository gets no object.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;

use super::git;
use super::snapshot::{self, Snapshot, SnapshotError, Source};

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
        snapshot::blocking(move || snapshot::lend_objects(&objects, &[&lender])).await?;
    }
    take_in(&snapshot, objects).await?;
    let tree = git::text(snapshot.writing(objects), &["write-tree"]).await?;
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
    let commit = git::text(snapshot.writing(objects), &args).await?;
    Ok(Frozen { commit, includes_uncommitted: true, is_unchanged })
}

/// Puts the files as they are into the snapshot's index. Not by `git add`, which asks
/// the git of each submodule how it stands and so runs what its configuration says;
/// this reads of a submodule nothing but its HEAD.
async fn take_in(snapshot: &Snapshot, objects: &Path) -> Result<(), SnapshotError> {
    let changed = snapshot.listing(&["ls-files", "--modified", "--deleted", "-z"]).await?;
    if changed.is_empty() {
        return Ok(());
    }
    let mut command = snapshot.writing(objects);
    command.stdin(snapshot::blocking(move || anonymous(&changed)).await?);
    let add = ["update-index", "--add", "--remove", "--replace", "-z", "--stdin"];
    git::text(command, &add).await?;
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
