//! The content of a worktree at one moment as a commit: its HEAD; or, where something is not committed, a
//! new commit of all files that git does not ignore. New objects go to a folder beside the repository,
//! which itself does not change.

use std::path::Path;
use std::sync::Arc;

use super::snapshot::{Snapshot, SnapshotError};
use super::source::Source;
use super::tree::Tree;
use super::{git, scratch_repo};
use crate::blocking::blocking;

/// Most bytes of files that are not committed: git reads and writes all of them.
const BYTES_MAX: u64 = 1 << 30;

/// The content of a worktree as a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedTree {
    pub commit: String,
    /// The commit was made for this; otherwise it is HEAD.
    pub includes_uncommitted: bool,
    /// The files equal those of the merge base with the target branch.
    pub is_unchanged: bool,
}

/// Captures a worktree. The new folder `objects` gets what the repository doesn't have; it borrows the
/// rest.
///
/// # Errors
/// As [`Snapshot::take`]; also if the files that are not committed are too large together.
pub async fn freeze(source: &Source, objects: &Path) -> Result<CapturedTree, SnapshotError> {
    let snapshot = Snapshot::take(source).await?;
    let (folder, lender) = (objects.to_owned(), snapshot.aside.common.join("objects"));
    blocking(move || scratch_repo::lend_objects(&folder, &[&lender])).await?;
    let tree = write_tree(&snapshot, objects).await?;
    let head = &*snapshot.head;
    let [of_base, of_head] = [&*snapshot.base, head].map(|commit| format!("{commit}^{{tree}}"));
    let trees = git::run(&source.repo, &["rev-parse", &of_base, &of_head]).await?;
    let (of_base, of_head) = trees.split_once('\n').unwrap_or_default();
    let is_unchanged = tree == of_base;
    if tree == of_head {
        let commit = head.to_owned();
        return Ok(CapturedTree { commit, includes_uncommitted: false, is_unchanged });
    }
    let args = ["commit-tree", &tree, "-p", head, "-m", "What was not committed"];
    let commit = snapshot.writing(objects).text(&args).await?;
    Ok(CapturedTree { commit, includes_uncommitted: true, is_unchanged })
}

/// The tree of all files that git does not ignore, with new objects in `objects`. The snapshot's index
/// has the files from now on.
pub(super) async fn write_tree(
    snapshot: &Snapshot,
    objects: &Path,
) -> Result<String, SnapshotError> {
    snapshot.aside.keep_lfs().await?;
    take_in(snapshot, objects).await?;
    snapshot.aside.refuse_storing_filters().await?;
    Ok(snapshot.writing(objects).text(&["write-tree"]).await?)
}

/// Puts the changed files into the snapshot's index. `git add` would run git in each submodule, and so
/// what its configuration says; `git update-index` reads only a submodule's HEAD.
async fn take_in(snapshot: &Snapshot, objects: &Path) -> Result<(), SnapshotError> {
    // `git ls-files --modified` would read the files to compare them; this only lists candidates.
    let list = ["diff-files", "--name-only", "--ignore-submodules=dirty", "-z"];
    let changed = snapshot.listing(&list).await?;
    if changed.is_empty() {
        return Ok(());
    }
    let tree = Arc::clone(&snapshot.tree);
    let stdin = blocking(move || measured(&tree, &changed, BYTES_MAX).map(|()| changed)).await?;
    let options = ["--add", "--remove", "--replace", "-z", "--stdin"];
    snapshot.update_index(snapshot.writing(objects), &options, stdin).await
}

/// Checks the total size of files, whose paths end with a NUL each.
fn measured(tree: &Tree, paths: &[u8], max: u64) -> Result<(), SnapshotError> {
    let (mut total, mut largest) = (0_u64, (0, &b""[..]));
    for path in paths.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
        let bytes = tree.size(path).unwrap_or_default();
        total = total.saturating_add(bytes);
        largest = largest.max((bytes, path));
    }
    if total > max {
        let (bytes, path) = largest;
        let path = String::from_utf8_lossy(path).into_owned();
        return Err(SnapshotError::TooLarge { path, bytes, max });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
