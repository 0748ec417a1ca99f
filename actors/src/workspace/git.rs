//! Runs git, and the few questions that need no owner. Every run has a closed
//! stdin, no prompts, no hooks, no inherited `GIT_*`, a deadline, and is killed
//! when its caller goes away. None but a checkout fetches anything.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
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

/// How a run of git went that was not to give more than so many bytes.
#[derive(Debug)]
pub(super) struct Output {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    /// What it complained of, cut.
    pub stderr: String,
    /// It would have given more; it was killed.
    pub is_cut: bool,
}

impl Output {
    /// What git said, or its exit status when it said nothing.
    pub fn failure(&self) -> GitError {
        let said = self.stderr.trim();
        let said = if said.is_empty() { self.status.to_string() } else { said.to_owned() };
        GitError::Failed(said)
    }
}

/// Complaints longer than this say nothing new.
const STDERR_MAX: u64 = 16 * 1024;

/// git in `dir`, with nothing of this process's own git about it.
pub(super) fn command(dir: &Path) -> Command {
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
        .args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"])
        // A commit that is missing from a partial clone would be asked for at its
        // remote, by whatever program the configuration names.
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    // SAFETY: between fork and exec, prctl(2) is async-signal-safe and touches no
    // memory of ours.
    unsafe { command.pre_exec(die_with_us) };
    command
}

/// Has a git end when the daemon is killed: by SIGTERM, at which it removes its
/// locks. The signal comes when the thread that forked ends (prctl(2)); those of
/// a runtime that await live as long as it does.
fn die_with_us() -> std::io::Result<()> {
    Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM)?)
}

/// Runs a [`command`], and reads `limit` bytes of its stdout at most: one that
/// gives more is killed.
pub(super) async fn output<A: AsRef<OsStr>>(
    mut command: Command,
    args: &[A],
    limit: usize,
) -> Result<Output, GitError> {
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    let timed_out = || {
        let args = args.iter().map(|arg| arg.as_ref().to_string_lossy());
        GitError::TimedOut { command: args.collect::<Vec<_>>().join(" ") }
    };
    let run = async {
        let mut child = command.spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let complaints = async {
            let mut said = Vec::new();
            if let Some(mut stderr) = stderr {
                (&mut stderr).take(STDERR_MAX).read_to_end(&mut said).await?;
                tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await?;
            }
            Ok::<_, std::io::Error>(String::from_utf8_lossy(&said).into_owned())
        };
        let given = async {
            let (stdout, is_cut) = read_up_to(stdout, limit).await?;
            if is_cut {
                child.start_kill()?;
            }
            Ok::<_, std::io::Error>((stdout, is_cut, child.wait().await?))
        };
        let ((stdout, is_cut, status), stderr) = tokio::try_join!(given, complaints)?;
        Ok::<_, std::io::Error>(Output { status, stdout, stderr, is_cut })
    };
    let output = tokio::time::timeout(DEADLINE, run).await.map_err(|_| timed_out())?;
    output.map_err(GitError::Spawn)
}

/// Reads to the end, or one byte beyond `limit` to know that there is more.
async fn read_up_to(
    from: Option<impl AsyncRead + Unpin>,
    limit: usize,
) -> std::io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        from.take(most).read_to_end(&mut bytes).await?;
    }
    let is_cut = bytes.len() > limit;
    bytes.truncate(limit);
    Ok((bytes, is_cut))
}

/// Runs git in `dir` and returns its stdout, less the newline at its end.
pub async fn run(dir: &Path, args: &[&str]) -> Result<String, GitError> {
    text(command(dir), args).await
}

/// The same where files are checked out, which a partial clone has yet to fetch.
pub(super) async fn run_fetching(dir: &Path, args: &[&str]) -> Result<String, GitError> {
    let mut command = command(dir);
    command.env_remove("GIT_NO_LAZY_FETCH");
    text(command, args).await
}

/// What a [`command`] says, less the newline at its end.
pub(super) async fn text(command: Command, args: &[&str]) -> Result<String, GitError> {
    let output = output(command, args, usize::MAX).await?;
    if !output.status.success() {
        return Err(output.failure());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
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

/// A commit that both are descended from, the best one git knows; `None` when
/// they have nothing in common.
pub async fn merge_base(repo: &Path, one: &str, other: &str) -> Result<Option<String>, GitError> {
    let output = output(command(repo), &["merge-base", "--", one, other], usize::MAX).await?;
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
    let format = "--format=%(refname:short)";
    let listed =
        run(repo, &["for-each-ref", &count, "--sort=-committerdate", format, "refs/heads"]).await?;
    Ok(listed.lines().map(str::to_owned).collect())
}
