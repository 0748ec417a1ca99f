//! Changes references of the person's repository. A killed git may leave the lock of a reference. If only
//! Provost uses the reference, the lock is removed and the change is made; the lock of any other
//! reference is the person's to remove.

use std::collections::HashMap;
use std::path::Path;

use super::git::{self, Git, GitError};
use crate::blocking::{blocking, if_there};

/// The prefix of the names that only Provost uses.
const OWN: &str = "refs/provost/";

/// The objects of these references, by their full names. A missing reference is not in the map.
pub async fn tips(repo: &Path, names: &[&str]) -> Result<HashMap<String, String>, GitError> {
    // A name is a prefix to git: it also lists the references below.
    let list = ["for-each-ref", "--format=%(objectname) %(refname)", "--"];
    let listed = git::run(repo, &[&list[..], names].concat()).await?;
    let found = listed.lines().filter_map(|line| line.split_once(' '));
    let found = found.filter(|(_, name)| names.contains(name));
    Ok(found.map(|(tip, name)| (name.to_owned(), tip.to_owned())).collect())
}

/// Sets a reference to a commit: only from `old`, or from wherever it is. A symbolic reference is
/// replaced, not followed. `reason` is for the reflog.
///
/// # Errors
/// The reference is not at `old`, or is locked.
pub async fn set(
    repo: &Path,
    name: &str,
    new: &str,
    old: Option<&str>,
    reason: &str,
) -> Result<(), GitError> {
    let mut update = vec!["update-ref", "--no-deref", "-m", reason, name, new];
    update.extend(old);
    changed(repo, name, &update).await
}

/// Carries out commands of git-update-ref(1) in one transaction: all or none. `scratch` holds the input.
pub async fn all(
    repo: &Path,
    scratch: &Path,
    commands: String,
    reason: &str,
) -> Result<(), GitError> {
    let git = Git::new(repo).input(scratch, commands.into_bytes()).await?;
    let args = ["-c", "core.fsync=all", "update-ref", "--no-deref", "-m", reason, "--stdin"];
    git.text(&args).await.map(drop)
}

/// Deletes a reference; a missing one is no error.
pub async fn delete(repo: &Path, name: &str) -> Result<(), GitError> {
    if git::ref_tip(repo, name).await?.is_none() {
        return Ok(());
    }
    changed(repo, name, &["update-ref", "--no-deref", "-d", name]).await
}

/// Runs an update, and once more after the removal of a lock that a killed git left.
async fn changed(repo: &Path, name: &str, update: &[&str]) -> Result<(), GitError> {
    let args = [&["-c", "core.fsync=all"], update].concat();
    match git::run(repo, &args).await {
        // git has waited longer for the lock than a git that is being ended can hold it: its holder is dead.
        Err(GitError::Failed(said))
            if name.starts_with(OWN) && cut_off(repo, name, &said).await? =>
        {
            git::run(repo, &args).await.map(drop)
        }
        changed => changed.map(drop),
    }
}

/// Removes the lock of a reference, if `said`, git's message, is about a lock. Call it only for a
/// reference that nothing but Provost changes. Returns whether there was a lock.
pub async fn cut_off(repo: &Path, name: &str, said: &str) -> Result<bool, GitError> {
    if !said.contains(".lock") && !said.contains("lock ref") {
        return Ok(false);
    }
    let lock = git::common_dir(repo).await?.join(format!("{name}.lock"));
    let removed = blocking(move || if_there(std::fs::remove_file(lock))).await?;
    Ok(removed.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lock_that_a_killed_git_left_goes_and_a_branch_of_the_persons_keeps_its() {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path();
        let git = async |args: &[&str]| git::run(repo, args).await.unwrap();
        git(&["init", "--quiet", "--initial-branch=main"]).await;
        let who = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
        git(&[&who[..], &["commit", "--quiet", "--allow-empty", "-m", "first"]].concat()).await;
        let commit = git(&["rev-parse", "HEAD"]).await;
        let own = "refs/provost/attempts/x/2";
        let locks = ["refs/provost/attempts/x/2.lock", "refs/heads/main.lock"];
        std::fs::create_dir_all(repo.join(".git/refs/provost/attempts/x")).unwrap();
        for lock in locks {
            std::fs::write(repo.join(".git").join(lock), "").unwrap();
        }
        set(repo, own, &commit, None, "t").await.unwrap();
        assert_eq!(tips(repo, &[own, "refs/none"]).await.unwrap()[own], commit);
        set(repo, "refs/heads/main", &commit, None, "t").await.unwrap_err();
        assert!(repo.join(".git").join(locks[1]).exists());
        delete(repo, own).await.unwrap();
        delete(repo, own).await.unwrap();
        assert!(tips(repo, &[own]).await.unwrap().is_empty());
    }
}
