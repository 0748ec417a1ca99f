//! Runs git, and answers the few questions about a repository that need no owner: where it is, and where
//! its references are.

mod common;
mod keeper;
mod run;
mod special;

use std::path::{Path, PathBuf};

use nix::libc::{EAGAIN, EMFILE, ENFILE, ENOMEM};

use crate::blocking::{blocking, if_there};

pub use keeper::enter;
pub(super) use run::{Git, Output};

/// The `--format` of `git for-each-ref` for the name of a branch. `refname:short` would be longer where a
/// tag has the same name.
pub const BRANCH: &str = "--format=%(refname:lstrip=2)";

/// Why git has no result: part of a sentence.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The process, or its keeper, could not be started.
    #[error("git can't be run: {0}")]
    Spawn(#[source] std::io::Error),
    /// A file that git was to read or write could not be made.
    #[error("git can't be prepared: {0}")]
    Prepare(#[from] std::io::Error),
    /// git ended with an error: its message, or its exit status where it printed none.
    #[error("{0}")]
    Failed(String),
    /// git hung at a named pipe or a device that is where it reads a file.
    #[error("git waits for {path}, which is no regular file: remove it", path = .0.display())]
    Waits(PathBuf),
    /// git was ended at its deadline.
    #[error("git {command} did not end within {seconds} seconds")]
    TimedOut { command: String, seconds: u64 },
}

impl GitError {
    /// Whether the machine lacks descriptors, processes or memory to run git now. A later try may work.
    pub fn is_shortage(&self) -> bool {
        let Self::Spawn(error) = self else { return false };
        matches!(error.raw_os_error(), Some(EMFILE | ENFILE | EAGAIN | ENOMEM))
    }
}

/// Runs git in `dir`, with the deadline for reading, and returns its stdout less the newline at its end.
/// The call ends git if it is dropped.
pub async fn run(dir: &Path, args: &[&str]) -> Result<String, GitError> {
    Git::new(dir).text(args).await
}

/// The root of the working tree that holds `path`; of a bare repository, its folder.
pub async fn root(path: &Path) -> Result<PathBuf, GitError> {
    let bare = run(path, &["rev-parse", "--is-bare-repository"]).await? == "true";
    let question = if bare { "--absolute-git-dir" } else { "--show-toplevel" };
    run(path, &["rev-parse", question]).await.map(PathBuf::from)
}

/// The folder that all worktrees of a repository share, absolute. It identifies the repository.
pub async fn common_dir(repo: &Path) -> Result<PathBuf, GitError> {
    let path = repo.to_owned();
    if let Ok(Some(common)) = tokio::task::spawn_blocking(move || common::of_plain(&path)).await {
        return Ok(common);
    }
    run(repo, &["rev-parse", "--path-format=absolute", "--git-common-dir"]).await.map(PathBuf::from)
}

/// The branch that is checked out; `None`: HEAD is detached, or can't be read.
pub async fn current_branch(repo: &Path) -> Option<String> {
    // `--short` would give a longer name where a tag has the same, so the full name is cut here.
    let head = run(repo, &["symbolic-ref", "--quiet", "HEAD"]).await.ok()?;
    head.strip_prefix("refs/heads/").map(str::to_owned)
}

/// The commit at the tip of a local branch; `None`: there is none. A tag of that name does not count.
pub async fn branch_tip(repo: &Path, branch: &str) -> Result<Option<String>, GitError> {
    ref_tip(repo, &format!("refs/heads/{branch}")).await
}

/// Whether there is such a local branch. This is cheaper than [`branch_tip`]: it mostly needs no git, and
/// looks in the files of the references, unless they have another format (gitformat-reftable(5)).
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

/// The object that a full reference name (`refs/…`) has; `None`: there is no such reference.
pub async fn ref_tip(repo: &Path, reference: &str) -> Result<Option<String>, GitError> {
    // The name is a prefix to git: it also lists the references below.
    let format = "--format=%(objectname) %(refname)";
    let listed = run(repo, &["for-each-ref", format, "--", reference]).await?;
    let mut tips = listed.lines().filter_map(|line| line.split_once(' '));
    Ok(tips.find(|(_, name)| *name == reference).map(|(tip, _)| tip.to_owned()))
}

/// The best common ancestor of two commits, one of them where there are several; `None`: they have none.
pub async fn merge_base(repo: &Path, one: &str, other: &str) -> Result<Option<String>, GitError> {
    let output = Git::new(repo).output(&["merge-base", "--", one, other], usize::MAX).await?;
    match output.status.code() {
        Some(0) => Ok(Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())),
        // git-merge-base(1): 1 means that there is none; anything else is a fault.
        Some(1) => Ok(None),
        _ => Err(output.failure()),
    }
}

/// The local branches, the one with the newest commit first, at most `limit`.
pub async fn branches(repo: &Path, limit: usize) -> Result<Vec<String>, GitError> {
    let count = format!("--count={limit}");
    let listed =
        run(repo, &["for-each-ref", &count, "--sort=-committerdate", BRANCH, "refs/heads"]).await?;
    Ok(listed.lines().map(str::to_owned).collect())
}
