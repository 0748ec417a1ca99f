//! Runs an executor's program to ask it about itself: its version, or whether it is logged in.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// How long to wait for an answer.
const DEADLINE: Duration = Duration::from_secs(5);
/// How much of it is read, in bytes.
const ANSWER_MAX: u64 = 4096;

/// What a program said, and its exit code; `None` if a signal ended it.
pub struct Answer {
    pub said: Vec<u8>,
    pub code: Option<i32>,
}

/// Runs a program in an empty folder with this environment alone. `None`: it can't be run, or did
/// not end in time.
pub async fn run(
    program: &Path,
    args: &[String],
    env: &BTreeMap<String, String>,
) -> Option<Answer> {
    #[expect(clippy::disallowed_methods, reason = "a program asked about itself is no attempt's")]
    let mut command = Command::new(program);
    let nowhere = tempfile::Builder::new().prefix("provost-ask-").tempdir().ok()?;
    command
        .args(args)
        .env_clear()
        .envs(env)
        .current_dir(nowhere.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command.spawn().ok()?;
    let answer = async {
        let mut said = Vec::new();
        let stdout = child.stdout.take()?;
        stdout.take(ANSWER_MAX).read_to_end(&mut said).await.ok()?;
        let code = child.wait().await.ok()?.code();
        Some(Answer { said, code })
    };
    let answer = tokio::time::timeout(DEADLINE, answer).await.ok().flatten();
    // A process that was waited for has no pid any more: another may have it.
    if let Some(leader) = child.id().filter(|_| answer.is_none()) {
        let _ = killpg(Pid::from_raw(leader.cast_signed()), Signal::SIGKILL);
    }
    answer
}
