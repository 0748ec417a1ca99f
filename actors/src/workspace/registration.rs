//! Which folder git keeps in a repository for a worktree, by git's own record of it: a worktree's
//! `.git`, which an agent can write, has to lead to the same one.

use std::fs;
use std::path::{Path, PathBuf};

use super::git::{self, GitError};
use super::regular;

/// The folder of this worktree, existing or not, in the repository.
pub async fn registration(repo: &Path, worktree: &Path) -> Result<Option<PathBuf>, GitError> {
    let common = git::common_dir(repo).await?;
    let worktree = worktree.to_owned();
    let found = tokio::task::spawn_blocking(move || {
        let worktrees = common.join("worktrees");
        linked(&worktrees, &worktree).or_else(|| {
            let entries = fs::read_dir(worktrees).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).find(|admin| is_registration_of(admin, &worktree))
        })
    });
    found.await.map_err(|error| GitError::Failed(error.to_string()))
}

/// The folder that the worktree's own `.git` leads to, if the repository's record confirms it: in
/// a repository with many worktrees that is found sooner.
fn linked(worktrees: &Path, worktree: &Path) -> Option<PathBuf> {
    let link = regular::text(&worktree.join(".git")).ok()?;
    let admin = worktree.join(link.strip_prefix("gitdir: ")?.trim_end()).canonicalize().ok()?;
    let is_here = admin.parent() == Some(&*worktrees.canonicalize().ok()?);
    (is_here && is_registration_of(&admin, worktree)).then_some(admin)
}

/// Whether this folder of the repository is that of the worktree, existing or not.
pub fn is_registration_of(admin: &Path, worktree: &Path) -> bool {
    registered(admin) == Some(real(worktree).join(".git"))
}

/// The `.git` of the worktree whose folder of the repository this is.
pub fn registered(admin: &Path) -> Option<PathBuf> {
    let link = regular::text(&admin.join("gitdir")).ok()?;
    // Relative with `worktree.useRelativePaths` (git-config(1)).
    Some(real(admin.join(link.trim_end()).parent()?).join(".git"))
}

/// A path without links and `..`, as far as it exists.
pub fn real(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, there)) = there else { return path.to_owned() };
    match path.strip_prefix(above) {
        Ok(rest) if !rest.as_os_str().is_empty() => there.join(rest),
        _ => there,
    }
}
