//! Runs git, and the few questions that need no owner. Every run has a closed
//! stdin, no prompts, no hooks, no inherited `GIT_*`, a deadline, and is killed
//! when its caller goes away.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// A checkout of a large repository on a slow disk takes minutes; nothing takes longer.
const DEADLINE: Duration = Duration::from_mins(10);

/// A git command that did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git can't be run: {0}")]
    Spawn(#[source] std::io::Error),
    /// What git said, or its exit status when it said nothing.
    #[error("{0}")]
    Failed(String),
    #[error("git {command} did not end within {} seconds", DEADLINE.as_secs())]
    TimedOut { command: String },
}

/// Runs git in `dir` and returns its stdout, less the newline at its end.
pub async fn run(dir: &Path, args: &[&str]) -> Result<String, GitError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the git runner is one of the two places that spawn"
    )]
    let mut command = Command::new("git");
    for name in std::env::vars_os().map(|(name, _)| name) {
        if name.as_encoded_bytes().starts_with(b"GIT_") {
            command.env_remove(name);
        }
    }
    command
        .arg("-C")
        .arg(dir)
        // A hook that hangs or fails would hang or fail the making of a worktree,
        // and outlive it. Those of the agent's own git are not touched.
        .args(["-c", "core.hooksPath=/dev/null"])
        .args(args)
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(DEADLINE, command.output())
        .await
        .map_err(|_| GitError::TimedOut { command: args.join(" ") })?
        .map_err(GitError::Spawn)?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(GitError::Failed(if said.is_empty() { output.status.to_string() } else { said }))
    }
}

/// The working tree (or the bare repository) that holds `path`.
pub async fn root(path: &Path) -> Result<PathBuf, GitError> {
    let bare = run(path, &["rev-parse", "--is-bare-repository"]).await? == "true";
    let question = if bare { "--absolute-git-dir" } else { "--show-toplevel" };
    run(path, &["rev-parse", question]).await.map(PathBuf::from)
}

/// The folder that all worktrees of a repository share: what identifies it.
pub async fn common_dir(repo: &Path) -> Result<PathBuf, GitError> {
    run(repo, &["rev-parse", "--path-format=absolute", "--git-common-dir"]).await.map(PathBuf::from)
}

/// The branch that is checked out; `None` when HEAD is detached.
pub async fn current_branch(repo: &Path) -> Option<String> {
    run(repo, &["symbolic-ref", "--quiet", "--short", "HEAD"]).await.ok()
}

/// The commit at the tip of a local branch; `None` when there is no such branch.
pub async fn branch_tip(repo: &Path, branch: &str) -> Option<String> {
    let reference = format!("refs/heads/{branch}^{{commit}}");
    run(repo, &["rev-parse", "--verify", "--quiet", "--end-of-options", &reference]).await.ok()
}

/// The local branches, newest commit first, at most `limit`.
pub async fn branches(repo: &Path, limit: usize) -> Result<Vec<String>, GitError> {
    let count = format!("--count={limit}");
    let format = "--format=%(refname:short)";
    let listed =
        run(repo, &["for-each-ref", &count, "--sort=-committerdate", format, "refs/heads"]).await?;
    Ok(listed.lines().map(str::to_owned).collect())
}
