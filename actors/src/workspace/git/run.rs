//! One run of git: its own environment, a closed stdin, no prompts, no hooks, a deadline.
//! Neither git nor what it starts outlives the caller.

use std::ffi::{OsStr, OsString};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt};
use tokio::process::Command;

use super::{GitError, keeper, special};
use crate::blocking::blocking;
use crate::environment::is_base;
use crate::sandbox::{Ready, Sandbox};

/// For reading: a large repository on a slow disk takes a good part of a minute.
const DEADLINE: Duration = Duration::from_mins(2);
/// For writing: the files of a large repository take minutes.
const WRITING: Duration = Duration::from_mins(10);
/// How long git waits for a lock of a ref: longer than a git that is being ended can hold it.
const LOCK_WAIT_MS: u128 = keeper::GRACE.as_millis() + 1000;
/// After this time, look for a file that git waits for.
const LONG: Duration = Duration::from_secs(2);
/// No file can have this path. Of an empty file, git would say that grafts are deprecated.
const NO_FILE: &str = "/dev/null/none";
const STDERR_MAX: u64 = 16 * 1024;

pub struct Output {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
    /// It had more output than the limit, and was ended.
    pub is_cut: bool,
}

impl Output {
    /// git's message, or its exit status when it printed none.
    pub fn failure(&self) -> GitError {
        let said = self.stderr.trim();
        let said = if said.is_empty() { self.status.to_string() } else { said.to_owned() };
        GitError::Failed(said)
    }
}

pub struct Git {
    pub command: Command,
    dir: PathBuf,
    /// The repository, where `dir` does not lead to it.
    repository: Option<PathBuf>,
    deadline: Duration,
    held: Option<Sandbox>,
}

impl Git {
    /// git in `dir`, with the base environment that executors get, too.
    pub fn new(dir: &Path) -> Self {
        let mut command = keeper::git();
        let is_passed_on = |name: &OsString| name.to_str().is_some_and(is_base);
        command
            .arg("-C")
            .arg(dir)
            // A hook that hangs or fails would hang or fail the making of a worktree. To a
            // scratch repository, all objects of the real one look unused: no gc here.
            .args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"])
            .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
            // The git of a killed daemon holds its locks while it is being ended.
            .arg("-c")
            .arg(format!("core.filesRefLockTimeout={LOCK_WAIT_MS}"))
            .arg("-c")
            .arg(format!("core.packedRefsTimeout={LOCK_WAIT_MS}"))
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| is_passed_on(name)))
            // For a missing commit, a partial clone would run a configured program.
            .env("GIT_NO_LAZY_FETCH", "1")
            // Histories are what their commits say, not what an agent or a tool has replaced.
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_GRAFT_FILE", NO_FILE)
            .env("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        let dir = dir.to_owned();
        Self { command, dir, repository: None, deadline: DEADLINE, held: None }
    }

    /// git in the open folder `dir`, which reads from this repository.
    pub fn standing_in(dir: &Path, repository: &Path) -> Self {
        let mut git = Self::new(Path::new("."));
        git.command.current_dir(dir);
        Self { dir: dir.to_owned(), repository: Some(repository.to_owned()), ..git }
    }

    /// Gives it the time that writing many files takes.
    pub fn patient(mut self) -> Self {
        self.deadline = WRITING;
        self
    }

    /// Holds it, and whatever it starts, to a box.
    pub fn held(mut self, sandbox: Option<Sandbox>) -> Self {
        self.held = sandbox;
        self
    }

    /// Gives it this long at most.
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Gives it this to read; the folder holds it meanwhile.
    pub async fn input(mut self, folder: &Path, bytes: Vec<u8>) -> Result<Self, GitError> {
        let folder = folder.to_owned();
        let stdin = blocking(move || {
            std::fs::create_dir_all(&folder)?;
            let mut file = tempfile::tempfile_in(folder)?;
            file.write_all(&bytes)?;
            file.rewind().map(|()| file)
        });
        self.command.stdin(stdin.await?);
        Ok(self)
    }

    pub async fn output<A: AsRef<OsStr>>(
        self,
        args: &[A],
        limit: usize,
    ) -> Result<Output, GitError> {
        let mut bytes = Vec::new();
        let most = u64::try_from(limit).unwrap_or(u64::MAX);
        let mut output = self.write(args, &mut bytes, most).await?;
        bytes.truncate(limit);
        output.stdout = bytes;
        Ok(output)
    }

    /// A new file that begins with `head` and goes on with its output, at its begin; `folder` holds it,
    /// and it has no name. More than `max` bytes of output are an error.
    pub async fn into_file<A: AsRef<OsStr>>(
        self,
        args: &[A],
        folder: &Path,
        head: Vec<u8>,
        max: u64,
    ) -> Result<std::fs::File, GitError> {
        let folder = folder.to_owned();
        let file = blocking(move || {
            let mut file = tempfile::tempfile_in(folder)?;
            file.write_all(&head).map(|()| file)
        });
        let mut file = tokio::fs::File::from_std(file.await?);
        let output = self.write(args, &mut file, max).await?;
        if output.is_cut {
            return Err(GitError::Failed(format!("it has more than {max} bytes")));
        }
        if !output.status.success() {
            return Err(output.failure());
        }
        file.flush().await?;
        file.rewind().await?;
        Ok(file.into_std().await)
    }

    /// Runs it. Its output, and one byte more than the limit at most, goes to `out`.
    async fn write<A: AsRef<OsStr>>(
        mut self,
        args: &[A],
        out: &mut (impl AsyncWrite + Unpin),
        limit: u64,
    ) -> Result<Output, GitError> {
        if let Some(sandbox) = self.held.take() {
            hold(&mut self.command, sandbox).await?;
        }
        self.command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (dir, repository, deadline) = (self.dir, self.repository, self.deadline);
        // The first one counts; dropping `run` ends git.
        tokio::select! {
            output = run(self.command, out, limit) => output.map_err(GitError::Spawn),
            path = obstacle(&dir, repository.as_deref()) => Err(GitError::Waits(path)),
            () = tokio::time::sleep(deadline) => {
                let args = args.iter().map(|arg| arg.as_ref().to_string_lossy());
                let command = args.collect::<Vec<_>>().join(" ");
                Err(GitError::TimedOut { command, seconds: deadline.as_secs() })
            }
        }
    }

    /// Its output without the newline at the end.
    pub async fn text<A: AsRef<OsStr>>(self, args: &[A]) -> Result<String, GitError> {
        let output = self.output(args, usize::MAX).await?;
        if !output.status.success() {
            return Err(output.failure());
        }
        let said = String::from_utf8_lossy(&output.stdout);
        Ok(said.strip_suffix('\n').unwrap_or(&said).to_owned())
    }
}

/// Has the child enter a box before it becomes git, or its keeper.
async fn hold(command: &mut Command, sandbox: Sandbox) -> Result<(), GitError> {
    let ready = blocking(move || Ready::make(&sandbox).map_err(std::io::Error::other)).await?;
    let mut ready = Some(ready);
    let enter = move || ready.take().map_or(Ok(()), Ready::enter);
    // SAFETY: between fork and exec, the box is entered by system calls on what was made before, and
    // memory is freed, for which the C library's fork(3) has put its allocator into order.
    unsafe { command.pre_exec(enter) };
    Ok(())
}

async fn run(
    mut command: Command,
    out: &mut (impl AsyncWrite + Unpin),
    limit: u64,
) -> std::io::Result<Output> {
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
        let mut bytes = 0;
        if let Some(stdout) = stdout {
            // Then it is dropped, and once stdout has no reader, git ends.
            bytes = tokio::io::copy(&mut stdout.take(limit.saturating_add(1)), out).await?;
        }
        Ok::<_, std::io::Error>((bytes > limit, child.wait().await?))
    };
    let ((is_cut, status), stderr) = tokio::try_join!(given, complaints)?;
    Ok(Output { status, stdout: Vec::new(), stderr, is_cut })
}

async fn obstacle(dir: &Path, repository: Option<&Path>) -> PathBuf {
    let mut pause = LONG;
    loop {
        tokio::time::sleep(pause).await;
        let (dir, repository) = (dir.to_owned(), repository.map(Path::to_owned));
        let look = move || special::find(&dir, repository.as_deref());
        if let Ok(Some(path)) = tokio::task::spawn_blocking(look).await {
            return path;
        }
        pause *= 2;
    }
}
