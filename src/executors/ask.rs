//! Runs an executor's program to ask it about itself: its version, or whether it is logged in. If turns
//! of the executor have a sandbox, this run has one too, because the program then reads files that
//! agents may have written.
//!
//! ```text
//!  run ▸ without a sandbox: the program
//!      ▸ with one: this binary with `__ask` ◂ stdin: sandbox, program, arguments, environment
//!                  enter() ▸ enters the sandbox ▸ exec: the program
//! ```

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use provost_actors::attempt::Machine;
use provost_actors::sandbox::{Ready, Sandbox, Wanted};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// Time limit of an answer; the program is killed then.
const DEADLINE: Duration = Duration::from_secs(5);
/// Most bytes that are read of an answer.
const ANSWER_MAX: u64 = 4096;
/// The argument by which `main` recognises a process that enters a sandbox and becomes the program.
const ARGUMENT: &str = "__ask";

/// What a program wrote to standard output, and its exit code; `None` if a signal ended it.
pub struct Answer {
    pub said: Vec<u8>,
    pub code: Option<i32>,
}

/// A program to ask.
#[derive(Clone)]
pub struct Asked<'a> {
    pub program: PathBuf,
    /// All of its environment.
    pub env: BTreeMap<String, String>,
    /// The sandbox to run it in; `None`: turns of its executor have none.
    pub held: Option<(&'a Machine, Wanted)>,
}

/// What the process that enters the sandbox reads from its standard input.
#[derive(Serialize, Deserialize)]
struct Entry {
    sandbox: Sandbox,
    program: PathBuf,
    args: Vec<String>,
    env: BTreeMap<String, String>,
}

/// Runs a program in an empty folder, without standard input. `None`: it can't be run, no sandbox can be
/// made for it, or it did not end in time.
pub async fn run(asked: Asked<'_>, args: &[&str]) -> Option<Answer> {
    let nowhere = tempfile::Builder::new().prefix("provost-ask-").tempdir().ok()?;
    let mut child = started(asked, args, nowhere.path()).await?;
    let answer = async {
        let mut said = Vec::new();
        let stdout = child.stdout.take()?;
        stdout.take(ANSWER_MAX).read_to_end(&mut said).await.ok()?;
        let code = child.wait().await.ok()?.code();
        Some(Answer { said, code })
    };
    let answer = tokio::time::timeout(DEADLINE, answer).await.ok().flatten();
    // After a wait the pid may belong to another process, so only an unfinished one is killed. It is
    // the leader of its group, and what it started is killed with it.
    if let Some(leader) = child.id().filter(|_| answer.is_none()) {
        let _ = killpg(Pid::from_raw(leader.cast_signed()), Signal::SIGKILL);
    }
    answer
}

async fn started(asked: Asked<'_>, args: &[&str], folder: &Path) -> Option<Child> {
    let Asked { program, mut env, held } = asked;
    let Some((machine, wanted)) = held else {
        return command(&program, folder).args(args).envs(&env).spawn().ok();
    };
    let folder = folder.canonicalize().ok()?;
    let boxed = machine.around(&wanted, &program, &folder).ok()?;
    boxed.change(&mut env);
    let args = args.iter().map(|it| (*it).to_owned()).collect();
    let entry = serde_json::to_vec(&Entry { sandbox: boxed.sandbox, program, args, env }).ok()?;
    let mut command = command(Path::new("/proc/self/exe"), &folder);
    let mut child = command.arg(ARGUMENT).stdin(Stdio::piped()).spawn().ok()?;
    child.stdin.take()?.write_all(&entry).await.ok()?;
    Some(child)
}

fn command(program: &Path, folder: &Path) -> Command {
    #[expect(clippy::disallowed_methods, reason = "a program asked about itself is no attempt's")]
    let mut command = Command::new(program);
    command
        .env_clear()
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    command
}

/// `Some` if this process was started with [`ARGUMENT`] and could not become the program. `main` calls
/// it before anything else: the process must have one thread and no open files when it enters a sandbox.
pub fn enter() -> Option<ExitCode> {
    if std::env::args_os().nth(1)? != ARGUMENT {
        return None;
    }
    // It returns only if it failed.
    let _ = become_asked();
    Some(ExitCode::FAILURE)
}

fn become_asked() -> io::Result<()> {
    let Entry { sandbox, program, args, env } = serde_json::from_reader(io::stdin().lock())?;
    let ready = Ready::make(&sandbox).map_err(io::Error::other)?;
    #[expect(clippy::disallowed_methods, reason = "this process becomes it")]
    let mut command = std::process::Command::new(program);
    command.args(args).env_clear().envs(env).stdin(Stdio::null());
    ready.enter()?;
    Err(command.exec())
}
