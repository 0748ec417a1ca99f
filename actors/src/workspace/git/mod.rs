//! Runs git, and the few questions that need no owner.

mod common;
mod keeper;
mod run;
mod special;

use std::path::{Path, PathBuf};

use nix::libc::{EAGAIN, EMFILE, ENFILE, ENOMEM};

use crate::blocking::{blocking, if_there};

pub use keeper::enter;
pub(super) use run::{Git, Output};

/// The format of `git for-each-ref` for the name of a branch, which `refname:short` lengthens where
/// a tag has the same.
pub const BRANCH: &str = "--format=%(refname:lstrip=2)";

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git can't be run: {0}")]
    Spawn(#[source] std::io::Error),
    #[error("git can't be prepared: {0}")]
    Prepare(#[from] std::io::Error),
    /// What git said, or its exit status when it said nothing.
    #[error("{0}")]
    Failed(String),
    #[error("git waits for {path}, which is no regular file: remove it", path = .0.display())]
    Waits(PathBuf),
    #[error("git {command} did not end within {seconds} seconds")]
    TimedOut { command: String, seconds: u64 },
}

impl GitError {
    /// Whether the machine lacks descriptors, processes or memory to run git now.
    pub fn is_shortage(&self) -> bool {
        let Self::Spawn(error) = self else { return false };
        matches!(error.raw_os_error(), Some(EMFILE | ENFILE | EAGAIN | ENOMEM))
    }
}

/// Runs git in `dir` and returns its stdout, less the newline at its end.
pub async fn run(dir: &Path, args: &[&str]) -> Result<String, GitError> {
    Git::new(dir).text(args).await
}

/// The working tree (or the bare repository) that holds `path`.
pub async fn root(path: &Path) -> Result<PathBuf, GitError> {
    let bare = run(path, &["rev-parse", "--is-bare-repository"]).await? == "true";
    let question = if bare { "--absolute-git-dir" } else { "--show-toplevel" };
    run(path, &["rev-parse", question]).await.map(PathBuf::from)
}

/// The folder that all worktrees of a repository share: what identifies it.
pub async fn common_dir(repo: &Path) -> Result<PathBuf, GitError> {
    let path = repo.to_owned();
    if let Ok(Some(common)) = tokio::task::spawn_blocking(move || common::of_plain(&path)).await {
        return Ok(common);
    }
    run(repo, &["rev-parse", "--path-format=absolute", "--git-common-dir"]).await.map(PathBuf::from)
}

/// The branch that is checked out; `None` when HEAD is detached.
pub async fn current_branch(repo: &Path) -> Option<String> {
    // A short name is longer where it could mean a tag as well: only the full one is certain.
    let head = run(repo, &["symbolic-ref", "--quiet", "HEAD"]).await.ok()?;
    head.strip_prefix("refs/heads/").map(str::to_owned)
}

/// The commit at the tip of a local branch, if there is one; a tag is no branch.
pub async fn branch_tip(repo: &Path, branch: &str) -> Result<Option<String>, GitError> {
    ref_tip(repo, &format!("refs/heads/{branch}")).await
}

/// Whether there is such a local branch. Unlike [`branch_tip`] it looks at no other one, and mostly
/// without git: in its files of references, unless they have another format (gitformat-reftable(5)).
pub async fn has_branch(repo: &Path, branch: &str) -> Result<bool, GitError> {
    let (common, reference) = (common_dir(repo).await?, format!("refs/heads/{branch}"));
    let name = reference.clone();
    let found = blocking(move || {
        if common.join("reftable").exists() {
            return Ok(None);
        }
        let packed = if_there(std::fs::read(common.join("packed-refs")))?.unwrap_or_default();
        let end = format!(" {name}");
        let is_packed = packed.split(|byte| *byte == b'\n').any(|it| it.ends_with(end.as_bytes()));
        Ok::<_, std::io::Error>(Some(is_packed || common.join(name).is_file()))
    });
    if let Some(found) = found.await? {
        return Ok(found);
    }
    let show = ["show-ref", "--verify", "--quiet", "--", &reference];
    let output = Git::new(repo).output(&show, 1024).await?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(output.failure()),
    }
}

/// The object that a reference names, if there is such a reference.
pub async fn ref_tip(repo: &Path, reference: &str) -> Result<Option<String>, GitError> {
    // git also lists longer names.
    let format = "--format=%(objectname) %(refname)";
    let listed = run(repo, &["for-each-ref", format, "--", reference]).await?;
    let mut tips = listed.lines().filter_map(|line| line.split_once(' '));
    Ok(tips.find(|(_, name)| *name == reference).map(|(tip, _)| tip.to_owned()))
}

/// The best common ancestor of two commits; `None` when they have none.
pub async fn merge_base(repo: &Path, one: &str, other: &str) -> Result<Option<String>, GitError> {
    let output = Git::new(repo).output(&["merge-base", "--", one, other], usize::MAX).await?;
    match output.status.code() {
        Some(0) => Ok(Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())),
        // git-merge-base(1): 1 is "none", anything else a fault.
        Some(1) => Ok(None),
        _ => Err(output.failure()),
    }
}

/// The local branches, newest commit first, at most `limit`.
pub async fn branches(repo: &Path, limit: usize) -> Result<Vec<String>, GitError> {
    let count = format!("--count={limit}");
    let listed =
        run(repo, &["for-each-ref", &count, "--sort=-committerdate", BRANCH, "refs/heads"]).await?;
    Ok(listed.lines().map(str::to_owned).collect())
}
