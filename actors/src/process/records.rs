//! The small files of an execution process, beside its spool:
//!
//! ```text
//!  manifest.json   what to run         the daemon, before it starts a shim
//!  stdin           standard input      the daemon, if the manifest says so
//!  started.json    who runs            the child of the shim, before its exec
//!  exit.json       how it ended        the shim; a sweep; `Shims::adopt` for what was never started
//!  lock            flock(2)            whoever supervises the process, or decides that no shim does
//! ```
//!
//! The JSON files are written whole ([`write_durably`]). Files of older versions lack newer fields, so each
//! new field has a serde default.

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

/// What the shim has to run. It is the record of the intent, on disk before the shim is spawned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this file and of the control socket's protocol.
    pub v: u32,
    pub attempt_id: AttemptId,
    pub process_id: ProcessId,
    /// Counts the starts of the attempt. `started.json` repeats it.
    pub epoch: u64,
    pub program: PathBuf,
    pub args: Vec<String>,
    /// The executor's whole environment except its secrets. The shim's own environment is not inherited.
    pub env: BTreeMap<String, String>,
    /// The names of the secrets, sorted. The shim gets their values in memory, and refuses to start if they
    /// are not the same ones: those of another start.
    #[serde(default)]
    pub secrets: Vec<String>,
    pub cwd: PathBuf,
    pub stdin: StdinSource,
    /// The most bytes that the spool keeps. Beyond them its oldest segments are removed.
    pub spool_max_bytes: u64,
    #[serde(default)]
    pub limits: Limits,
    /// The cgroup that enforces the limits. `None`: the daemon may make none, or no limit wants one.
    #[serde(default)]
    pub cgroup: Option<Cgroup>,
    /// When a limit is exceeded: the time from SIGTERM to SIGKILL, in milliseconds.
    #[serde(default)]
    pub grace_ms: u64,
    /// The limits that the daemon has changed for itself. The child restores them before the program runs.
    #[serde(flatten)]
    pub soft_limits: SoftLimits,
    /// A folder beneath which `cwd` must lie, without a symbolic link on the way: an agent may have planted
    /// one. `None`: no such rule.
    #[serde(default)]
    pub cwd_beneath: Option<PathBuf>,
    /// The box of the program and of all that it starts. `None`: it has no box. Manifests of earlier versions
    /// lack the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// The lease of its host; `None`: the host has none. [`Shims::spawn`](super::Shims::spawn) sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<StartedUnder>,
    #[serde(default)]
    pub on_lease_late: OnLeaseLate,
}

/// What standard input is read from with [`StdinSource::File`].
pub const STDIN_FILE: &str = "stdin";

/// What the executor gets as its standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdinSource {
    /// `/dev/null`.
    Empty,
    /// The content of [`STDIN_FILE`] beside the manifest, then end of file.
    File,
    /// A pipe, fed by `Control::write_stdin`.
    Pipe,
}

/// Who runs. The child itself writes it, after its fork and before its exec: so no program ever runs whose
/// identity is not on disk. The exec can still fail afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    pub v: u32,
    pub epoch: u64,
    pub pid: i32,
    /// Clock ticks after boot, field 22 of `/proc/PID/stat` (proc(5)).
    pub start_time: u64,
    pub boot_id: String,
    /// [`lease::suspended`](super::lease::suspended) at the start; `None`: an older shim wrote the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_ns: Option<u64>,
    pub at: Timestamp,
    /// How each limit that is set is enforced.
    #[serde(default)]
    pub limits: Vec<Applied>,
    /// The box. The child enters it after it has written this, and before its exec: if it can't, the program
    /// does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Receipt>,
}

/// How the leader ended. The execution process is finished when this is on disk, and not before. Of
/// `exit_code` and `exit_signal` one is set, or neither.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    pub v: u32,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// Why neither is known, or why the program could not be run at all.
    pub reason: Option<String>,
    /// Why the shim ended it, in a sentence: a limit that it exceeded, or a late lease.
    #[serde(default)]
    pub limit: Option<String>,
    /// The strongest stop that had been requested when the leader ended; `None`: it ended by itself.
    #[serde(default)]
    pub stopped: Option<StopKind>,
    pub at: Timestamp,
    /// Bytes of each stream that were spooled when the leader had ended and its pipes had been emptied.
    /// Processes that the leader left behind may write more later.
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
}

/// How hard a stop is. The order matters: of two stops the record keeps the stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopKind {
    Soft,
    Forced,
}

/// The version that new manifests and records have in `v`.
pub const VERSION: u32 = 1;
/// The file whose flock(2) a shim holds for its whole life.
const LOCK: &str = "lock";

/// The pause before the next look at a folder whose shim neither answers nor has ended.
pub const AGAIN: Duration = Duration::from_millis(20);

impl Manifest {
    pub const FILE: &str = "manifest.json";

    /// The marker in the environment of the executor and of its descendants.
    pub fn marker(&self) -> Marker {
        Marker { attempt: self.attempt_id, process: self.process_id }
    }
}

impl Started {
    pub const FILE: &str = "started.json";

    /// The leader's identity. It is valid only in the boot of [`Self::boot_id`]: [`Self::of_this_boot`]
    /// checks.
    pub fn process(&self) -> Process {
        Process { pid: self.pid, start_time: self.start_time }
    }

    /// The leader; `None`: it was started in another boot, and so is dead.
    pub fn of_this_boot(&self) -> Option<Process> {
        proc::boot_id().is_ok_and(|boot_id| boot_id == self.boot_id).then(|| self.process())
    }
}

impl ExitRecord {
    pub const FILE: &str = "exit.json";

    /// Whether the leader's exit status is known. `false`: see `reason`.
    pub fn is_known(&self) -> bool {
        self.exit_code.is_some() || self.exit_signal.is_some()
    }

    /// A record without a status, with the current time.
    pub fn unknown(reason: &str) -> Self {
        let (reason, at) = (Some(reason.to_owned()), Timestamp::now());
        Self { v: VERSION, reason, at, ..Self::default() }
    }
}

/// Writes `value` as JSON so that after a crash or a power cut the file is there whole or not at all: syncs a
/// temporary file, renames it, and syncs the folder.
pub fn write_durably<T: Serialize>(dir: &Path, name: &str, value: &T) -> io::Result<()> {
    let temporary = dir.join(format!(".{name}.tmp"));
    let mut file =
        File::options().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    file.write_all(&bytes)?;
    file.sync_all()?;
    // Closed before the folder is opened: a limit of open files may leave few descriptors.
    drop(file);
    fs::rename(&temporary, dir.join(name))?;
    File::open(dir)?.sync_all()
}

/// Reads what [`write_durably`] wrote. `None`: there is no such file. A file that is not such JSON is an
/// error.
pub fn read<T: DeserializeOwned>(dir: &Path, name: &str) -> io::Result<Option<T>> {
    let bytes = if_there(fs::read(dir.join(name)))?;
    bytes.map(|bytes| Ok(serde_json::from_slice(&bytes)?)).transpose()
}

/// The lock of a folder; `None`: another process holds it. It is released when all duplicates of the file are
/// closed.
pub fn try_lock(dir: &Path) -> io::Result<Option<File>> {
    let lock = File::options().write(true).create(true).truncate(false).open(dir.join(LOCK))?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// [`try_lock`] for a caller that expects no shim to hold the lock. Blocks until it has the lock, about 5 s
/// at most. The wait is needed because any process that is being spawned has a copy of every open file, and
/// so holds the lock, until its exec.
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
