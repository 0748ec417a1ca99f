//! A small file as a commit has it, read without a checkout: what an agent has put into the worktree
//! since then has no effect. `provost.toml` is read this way.

use std::path::Path;

use super::git::{Git, GitError};

/// Bytes of the longest file that is read.
const TEXT_MAX: usize = 64 * 1024;
/// Bytes of the line that `git ls-tree` prints for one file, at most.
const ENTRY_MAX: usize = 4096;

/// Why the file can't be read: part of a sentence, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum CommittedError {
    #[error("it is a link or a folder: make it a file")]
    NotAFile,
    #[error("it is longer than {TEXT_MAX} bytes: shorten it")]
    TooLong,
    #[error("it is not UTF-8: save it as UTF-8")]
    NotText,
    #[error("git can't read it: {0}")]
    Git(#[from] GitError),
}

/// The text of a file at the root of a commit. `Ok(None)`: the commit has no such file.
pub async fn text(repo: &Path, commit: &str, name: &str) -> Result<Option<String>, CommittedError> {
    let list = ["ls-tree", "-z", "--full-tree", commit, "--", name];
    let listed = Git::new(repo).output(&list, ENTRY_MAX).await?;
    if !listed.status.success() {
        return Err(listed.failure().into());
    }
    // `<mode> <kind> <id>\t<name>\0`
    let entry = String::from_utf8_lossy(&listed.stdout).into_owned();
    let Some((about, _)) = entry.split_once('\t') else { return Ok(None) };
    let id = match about.split(' ').collect::<Vec<_>>().as_slice() {
        ["100644" | "100755", "blob", id] => (*id).to_owned(),
        _ => return Err(CommittedError::NotAFile),
    };
    let content = Git::new(repo).output(&["cat-file", "blob", &id], TEXT_MAX).await?;
    if content.is_cut {
        return Err(CommittedError::TooLong);
    }
    if !content.status.success() {
        return Err(content.failure().into());
    }
    String::from_utf8(content.stdout).map(Some).map_err(|_| CommittedError::NotText)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::git;
    use super::*;

    #[tokio::test]
    async fn only_a_short_regular_file_of_the_commit_is_read() {
        let scratch = tempfile::tempdir().unwrap();
        let repo = scratch.path();
        let git = async |args: &[&str]| git::run(repo, args).await.unwrap();
        git(&["init", "--quiet"]).await;
        fs::write(repo.join("a.toml"), "of the commit").unwrap();
        fs::write(repo.join("long"), "x".repeat(TEXT_MAX + 1)).unwrap();
        fs::write(repo.join("latin"), [0xe4]).unwrap();
        symlink("/etc/passwd", repo.join("link")).unwrap();
        git(&["add", "--all"]).await;
        let who = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
        git(&[&who[..], &["commit", "--quiet", "-m", "first"]].concat()).await;
        fs::write(repo.join("a.toml"), "of the checkout").unwrap();
        let read = async |name: &str| text(repo, "HEAD", name).await;
        assert_eq!(read("a.toml").await.unwrap().as_deref(), Some("of the commit"));
        assert_eq!(read("none").await.unwrap(), None);
        assert!(matches!(read("link").await, Err(CommittedError::NotAFile)));
        assert!(matches!(read("long").await, Err(CommittedError::TooLong)));
        assert!(matches!(read("latin").await, Err(CommittedError::NotText)));
        assert!(matches!(text(repo, "none", "a").await, Err(CommittedError::Git(_))));
    }
}
