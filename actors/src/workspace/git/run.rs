//! One run of git: with an environment of its own, a closed stdin, no prompts, no hooks, a deadline.
//! Neither git nor what it starts outlives the caller ([`keeper`]).

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

/// The deadline for reading: a large repository on a slow disk takes a good part of a minute.
const DEADLINE: Duration = Duration::from_mins(2);
/// The deadline for writing: the files of a large repository take minutes.
const WRITING: Duration = Duration::from_mins(10);
/// How long git waits for the lock of a reference: longer than a git that is being ended can hold one.
const LOCK_WAIT_MS: u128 = keeper::GRACE.as_millis() + 1000;
/// After this time, and after twice as long each time, look for a file that git waits for.
const LONG: Duration = Duration::from_secs(2);
/// A path at which no file can exist. At an empty file, git would warn that grafts are deprecated.
const NO_FILE: &str = "/dev/null/none";
/// Bytes of git's messages that are kept; the rest is read and dropped, so that git does not block.
const STDERR_MAX: u64 = 16 * 1024;

/// What a run of git gave.
pub struct Output {
    pub status: ExitStatus,
    /// At most as many bytes as the caller allowed.
    pub stdout: Vec<u8>,
    /// git's messages, in English (`LC_ALL=C`), at most 16 KiB.
    pub stderr: String,
    /// git had more output than the limit, and was ended. The status says nothing then.
    pub is_cut: bool,
}

impl Output {
    /// The run as an error: that there was too much output, else git's message, or its exit status where
    /// it printed none.
    pub fn failure(&self) -> GitError {
        GitError::Failed(match self.stderr.trim() {
            _ if self.is_cut => "git has more output than is read".to_owned(),
            "" => self.status.to_string(),
            said => said.to_owned(),
        })
    }
}

/// A git that is about to run. The methods that run it consume it.
pub struct Git {
    /// Takes further options (`-c`) and variables, before the git command itself.
    pub command: Command,
    /// Where to look for a file at which git waits.
    dir: PathBuf,
    /// The repository, where `dir` does not lead to it.
    repository: Option<PathBuf>,
    deadline: Duration,
    /// The box; `None`: git runs outside of any.
    held: Option<Sandbox>,
}

impl Git {
    /// git in `dir` (`-C`), with the base environment that executors get too. It runs no hook, no
    /// fsmonitor, no gc, and fetches nothing by itself.
    pub fn new(dir: &Path) -> Self {
        let mut command = keeper::git();
        let is_passed_on = |name: &OsString| name.to_str().is_some_and(is_base);
        command
            .arg("-C")
            .arg(dir)
            // A hook that hangs or fails would do so to the caller. A gc of a scratch repository would
            // take all objects of the real one for unused.
            .args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"])
            .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
            // The git of a killed daemon holds its locks until its keeper has ended it.
            .arg("-c")
            .arg(format!("core.filesRefLockTimeout={LOCK_WAIT_MS}"))
            .arg("-c")
            .arg(format!("core.packedRefsTimeout={LOCK_WAIT_MS}"))
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| is_passed_on(name)))
            // To fetch a missing object of a partial clone, git would run a configured program.
            .env("GIT_NO_LAZY_FETCH", "1")
            // Replacements and grafts, which an agent can make, would change what a history is.
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_GRAFT_FILE", NO_FILE)
            .env("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        let dir = dir.to_owned();
        Self { command, dir, repository: None, deadline: DEADLINE, held: None }
    }

    /// git with the open folder `dir` as its working directory, usually a
    /// [`proc_path`](crate::workspace::beneath::proc_path): the folder may have another name by now.
    /// `repository` is the one that git reads from.
    pub fn standing_in(dir: &Path, repository: &Path) -> Self {
        let mut git = Self::new(Path::new("."));
        git.command.current_dir(dir);
        Self { dir: dir.to_owned(), repository: Some(repository.to_owned()), ..git }
    }

    /// Gives git the time that writing many files takes.
    pub fn patient(mut self) -> Self {
        self.deadline = WRITING;
        self
    }

    /// Confines git, its keeper and whatever it starts to a box; `None`: to none.
    pub fn held(mut self, sandbox: Option<Sandbox>) -> Self {
        self.held = sandbox;
        self
    }

    /// Gives git this long at most.
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Gives git these bytes to read on stdin. They are in a file without a name in `folder`, so git may
    /// read them late and more than a pipe holds.
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

    /// Runs git and returns its output, whatever its exit status. With more than `limit` bytes, git is
    /// ended, and [`Output::is_cut`] is set.
    ///
    /// # Errors
    /// git can't be run, waits for something that is no file, or misses its deadline.
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

    /// Runs git and returns a new file, positioned at its beginning: `head`, then git's output. The file
    /// has no name; `folder` holds it.
    ///
    /// # Errors
    /// git fails, or has more than `max` bytes of output.
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

    /// Runs git. At most `limit` bytes of output, and one more, go to `out`; `stdout` of the result is
    /// empty.
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
        // Whichever ends first counts. When `run` is dropped, its pipes close, and the keeper ends git.
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

    /// Runs git and returns its output as text, without the newline at the end. What is not UTF-8 is
    /// replaced.
    ///
    /// # Errors
    /// As [`Self::output`]; also [`GitError::Failed`] for any exit status but 0.
    pub async fn text<A: AsRef<OsStr>>(self, args: &[A]) -> Result<String, GitError> {
        let output = self.output(args, usize::MAX).await?;
        if !output.status.success() {
            return Err(output.failure());
        }
        let said = String::from_utf8_lossy(&output.stdout);
        Ok(said.strip_suffix('\n').unwrap_or(&said).to_owned())
    }
}

/// Makes the child enter the box before it becomes git, or git's keeper.
async fn hold(command: &mut Command, sandbox: Sandbox) -> Result<(), GitError> {
    let ready = blocking(move || Ready::make(&sandbox).map_err(std::io::Error::other)).await?;
    let mut ready = Some(ready);
    let enter = move || ready.take().map_or(Ok(()), Ready::enter);
    // SAFETY: between fork and exec, the box is entered by system calls on what was made before, and
    // memory is freed, for which the C library's fork(3) has put its allocator into order.
    unsafe { command.pre_exec(enter) };
    Ok(())
}

/// Runs a command to its end. `out` gets its output, up to one byte more than the limit.
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
            // At the limit, `stdout` is dropped here. Without a reader, git ends.
            bytes = tokio::io::copy(&mut stdout.take(limit.saturating_add(1)), out).await?;
        }
        Ok::<_, std::io::Error>((bytes > limit, child.wait().await?))
    };
    let ((is_cut, status), stderr) = tokio::try_join!(given, complaints)?;
    Ok(Output { status, stdout: Vec::new(), stderr, is_cut })
}

/// Returns once git seems to wait for a file that is none; never, if there is no such file.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn too_much_output_is_named_as_the_failure() {
        let output = Git::new(Path::new("/")).output(&["version"], 1).await.unwrap();
        assert!(output.is_cut);
        assert_eq!(output.failure().to_string(), "git has more output than is read");
    }
}
