//! The small files beside a spool: what to run, who runs, how it ended; and the lock, whose
//! holder supervises the process, or decides that no shim does.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::event::Timestamp;
use crate::ids::{AttemptId, ProcessId};
use crate::limits::{Applied, Limits, OnLeaseLate, SoftLimits};
use crate::sandbox::{Receipt, Sandbox};

use super::cgroup::Cgroup;
use super::identity::Process;
use super::lease::StartedUnder;
use super::proc;
use super::tree::Marker;
use crate::blocking::if_there;

/// What the shim has to run: the intent, on disk before anything is spawned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this file and of the control socket's protocol.
    pub v: u32,
    pub attempt_id: AttemptId,
    pub process_id: ProcessId,
    /// Counts the starts of the attempt; a later one fences off an earlier.
    pub epoch: u64,
    pub program: PathBuf,
    pub args: Vec<String>,
    /// The environment, secrets apart: nothing is inherited beyond it.
    pub env: BTreeMap<String, String>,
    /// The variables with secrets: the shim gets their values in memory.
    #[serde(default)]
    pub secrets: Vec<String>,
    pub cwd: PathBuf,
    pub stdin: StdinSource,
    /// Bytes beyond which the oldest segments are removed.
    pub spool_max_bytes: u64,
    #[serde(default)]
    pub limits: Limits,
    /// Enforces the limits, where the daemon may make one.
    #[serde(default)]
    pub cgroup: Option<Cgroup>,
    /// From the SIGTERM of an exceeded limit to its SIGKILL, in milliseconds.
    #[serde(default)]
    pub grace_ms: u64,
    /// Restored before the program runs.
    #[serde(flatten)]
    pub soft_limits: SoftLimits,
    /// The folder beneath which `cwd` must lie without any link on the way, if any.
    #[serde(default)]
    pub cwd_beneath: Option<PathBuf>,
    /// What the program, and all that it starts, is held to. `None`: it has no box, as the
    /// manifests of earlier versions had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// The lease of its host. [`Shims::spawn`](super::Shims::spawn) sets it; `None`: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<StartedUnder>,
    #[serde(default)]
    pub on_lease_late: OnLeaseLate,
}

/// What standard input is read from with [`StdinSource::File`].
pub const STDIN_FILE: &str = "stdin";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdinSource {
    Empty,
    /// The file `stdin` beside the manifest, then end of file.
    File,
    Pipe,
}

/// Who runs: the child itself writes it, after its fork and before its exec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    pub v: u32,
    pub epoch: u64,
    pub pid: i32,
    /// Clock ticks after boot, field 22 of `/proc/PID/stat` (proc(5)).
    pub start_time: u64,
    pub boot_id: String,
    pub at: Timestamp,
    #[serde(default)]
    pub limits: Vec<Applied>,
    /// What holds it: its program runs only once this is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Receipt>,
}

/// How it ended. A process is finished when this is on disk, and not before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    pub v: u32,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// Why neither is known, or why the program could not be run at all.
    pub reason: Option<String>,
    /// The limit that it exceeded and was ended for, in a sentence.
    #[serde(default)]
    pub limit: Option<String>,
    /// A stop had been requested when it ended.
    #[serde(default)]
    pub stopped: Option<StopKind>,
    pub at: Timestamp,
    /// Bytes of each stream that were spooled when the leader had ended and its pipes were
    /// empty; daemonized children may write more later.
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopKind {
    Soft,
    Forced,
}

pub const VERSION: u32 = 1;
/// The file whose flock(2) a shim holds for life.
const LOCK: &str = "lock";

/// The pause between two looks at a folder whose shim neither answers nor has ended.
pub const AGAIN: Duration = Duration::from_millis(20);

impl Manifest {
    pub const FILE: &str = "manifest.json";

    pub fn marker(&self) -> Marker {
        Marker { attempt: self.attempt_id, process: self.process_id }
    }
}

impl Started {
    pub const FILE: &str = "started.json";

    /// The leader, in the boot in which it was started.
    pub fn process(&self) -> Process {
        Process { pid: self.pid, start_time: self.start_time }
    }

    /// The leader, unless it was started in another boot.
    pub fn of_this_boot(&self) -> Option<Process> {
        proc::boot_id().is_ok_and(|boot_id| boot_id == self.boot_id).then(|| self.process())
    }
}

impl ExitRecord {
    pub const FILE: &str = "exit.json";

    /// Whether the leader ran and its status is known.
    pub fn is_known(&self) -> bool {
        self.exit_code.is_some() || self.exit_signal.is_some()
    }

    /// A record of an unknown end, as of now.
    pub fn unknown(reason: &str) -> Self {
        let (reason, at) = (Some(reason.to_owned()), Timestamp::now());
        Self { v: VERSION, reason, at, ..Self::default() }
    }
}

/// Writes `value` so that the file is there whole or not at all, also after a power cut.
pub fn write_durably<T: Serialize>(dir: &Path, name: &str, value: &T) -> io::Result<()> {
    let temporary = dir.join(format!(".{name}.tmp"));
    let mut file =
        File::options().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    file.write_all(&bytes)?;
    file.sync_all()?;
    // Closed before the folder is opened: a shim may have few descriptors.
    drop(file);
    fs::rename(&temporary, dir.join(name))?;
    File::open(dir)?.sync_all()
}

/// Reads what [`write_durably`] wrote; `None` when the file isn't there.
pub fn read<T: DeserializeOwned>(dir: &Path, name: &str) -> io::Result<Option<T>> {
    let bytes = if_there(fs::read(dir.join(name)))?;
    bytes.map(|bytes| Ok(serde_json::from_slice(&bytes)?)).transpose()
}

/// The lock, unless a shim holds it.
pub fn try_lock(dir: &Path) -> io::Result<Option<File>> {
    let lock = File::options().write(true).create(true).truncate(false).open(dir.join(LOCK))?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The same for a caller that knows that no shim should hold it. Waits: a process that is
/// being spawned holds a copy of every open file, and so the lock, until its exec. Blocks for
/// 5 s at most.
#[expect(clippy::disallowed_methods, reason = "it runs where blocking is allowed")]
pub fn lock_soon(dir: &Path) -> io::Result<Option<File>> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let lock = try_lock(dir)?;
        if lock.is_some() || Instant::now() > deadline {
            return Ok(lock);
        }
        std::thread::sleep(AGAIN);
    }
}
