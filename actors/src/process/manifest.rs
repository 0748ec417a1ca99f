//! The small files beside a spool: what to run, who runs, how it ended. Data
//! and its durable reading and writing; no decisions.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::event::Timestamp;
use crate::ids::{AttemptId, ProcessId};
use crate::limits::{Applied, Limits, SoftLimits};

use super::cgroup::Cgroup;

/// What the shim has to run: the intent, on disk before anything is spawned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this file and of the control socket's protocol.
    pub v: u32,
    pub attempt_id: AttemptId,
    pub process_id: ProcessId,
    /// Counts the starts of the attempt; a later one fences off an earlier.
    pub epoch: u64,
    /// Absolute path of the program.
    pub program: PathBuf,
    pub args: Vec<String>,
    /// The environment, secrets apart: nothing is inherited beyond it.
    pub env: BTreeMap<String, String>,
    /// The variables that are or hold secrets: their values are handed to the
    /// shim in memory, and do not show in the spool.
    #[serde(default)]
    pub secrets: Vec<String>,
    pub cwd: PathBuf,
    pub stdin: StdinSource,
    /// Oldest segments go when more is held, in bytes.
    pub spool_max_bytes: u64,
    #[serde(default)]
    pub limits: Limits,
    /// What holds them, where the daemon may make such.
    #[serde(default)]
    pub cgroup: Option<Cgroup>,
    /// From the SIGTERM of a passed limit to its SIGKILL, in milliseconds.
    #[serde(default)]
    pub grace_ms: u64,
    /// Given back before the program runs.
    #[serde(flatten)]
    pub soft_limits: SoftLimits,
    /// The folder beneath which `cwd` must lie without any link on the way; `None`:
    /// anywhere.
    #[serde(default)]
    pub cwd_beneath: Option<PathBuf>,
}

/// Where the process's standard input comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdinSource {
    /// `/dev/null`.
    Empty,
    /// The file `stdin` beside the manifest, then end of file.
    File,
    /// A pipe fed through the control socket.
    Pipe,
}

/// Who runs: written by the child itself, after its fork and before its exec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    pub v: u32,
    pub epoch: u64,
    pub pid: i32,
    /// Clock ticks after boot, field 22 of `/proc/PID/stat` (proc(5)).
    pub start_time: u64,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    pub at: Timestamp,
    /// How its limits are held.
    #[serde(default)]
    pub limits: Vec<Applied>,
}

/// How it ended. A process is finished when this is on disk, and not before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    pub v: u32,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// Why neither is known, or why the program could not be run at all.
    pub reason: Option<String>,
    /// The limit for which it was ended, in a sentence.
    #[serde(default)]
    pub limit: Option<String>,
    /// A stop had been asked for when it ended.
    #[serde(default)]
    pub stopped: Option<StopKind>,
    pub at: Timestamp,
    /// Bytes of each stream spooled when the end had been seen and the pipes
    /// held no more; what daemonized children write later comes after these.
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
}

/// The kind of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopKind {
    /// Signals first.
    Soft,
    /// Kills at once.
    Forced,
}

/// The current version of all these.
pub const VERSION: u32 = 1;

impl Manifest {
    pub const FILE: &str = "manifest.json";
}

impl Started {
    pub const FILE: &str = "started.json";
}

impl ExitRecord {
    pub const FILE: &str = "exit.json";

    /// Whether it tells how a process that ran has ended.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.exit_code.is_some() || self.exit_signal.is_some()
    }

    /// Of an end that was not seen, as of now.
    #[must_use]
    pub fn unknown(reason: &str) -> Self {
        Self {
            v: VERSION,
            exit_code: None,
            exit_signal: None,
            reason: Some(reason.to_owned()),
            limit: None,
            stopped: None,
            at: Timestamp::now(),
            stdout_bytes: 0,
            stderr_bytes: 0,
        }
    }
}

/// Writes `value` so that the file is there whole or not at all, also after a
/// power cut: a temporary file, fsync, rename, fsync of the folder.
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
    match fs::read(dir.join(name)) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
