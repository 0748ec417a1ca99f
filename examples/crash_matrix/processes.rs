//! Processes as `/proc` shows them: who is alive, whose it is, and what it holds.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Result, wait_until};

/// A pid alone is nobody: it is handed out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    pub pid: i32,
    /// Field 22 of `/proc/PID/stat` (proc(5)).
    pub start_time: u64,
}

impl Process {
    /// The living process that has this pid now; a zombie is dead.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let is_dead = matches!(*fields.first()?, "Z" | "X");
        let start_time = fields.get(19)?.parse().ok()?;
        (!is_dead).then_some(Self { pid, start_time })
    }

    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// One that has ended meanwhile needs no signal.
    pub fn kill(self) {
        if self.is_alive() {
            let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
        }
    }

    /// Kills it, and waits until it is dead.
    pub fn kill_and_wait(self) -> Result<()> {
        self.kill();
        wait_until("a killed process is dead", || Ok(!self.is_alive()))
    }

    /// What its descriptors lead to.
    pub fn holds(self) -> Vec<PathBuf> {
        let fds = fs::read_dir(format!("/proc/{}/fd", self.pid)).into_iter().flatten().flatten();
        fds.filter_map(|fd| fs::read_link(fd.path()).ok()).collect()
    }

    /// The pipe that is its standard output.
    pub fn stdout(self) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{}/fd/1", self.pid)).ok()
    }
}

/// Who was started as the executor of an execution process, as its folder tells.
pub fn started(folder: &Path) -> Result<Option<Process>> {
    let Ok(bytes) = fs::read(folder.join("started.json")) else { return Ok(None) };
    let started: serde_json::Value = serde_json::from_slice(&bytes)?;
    let pid = started["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let process = pid.zip(started["start_time"].as_u64());
    Ok(process.map(|(pid, start_time)| Process { pid, start_time }))
}

/// A shim, by the folder that it works in.
#[derive(Clone, Debug)]
pub struct Shim {
    pub process: Process,
    pub process_id: String,
    /// It was told to die somewhere.
    pub is_armed: bool,
}

/// One that an attempt started, by its environment.
#[derive(Clone, Debug)]
pub struct Marked {
    pub process: Process,
    pub attempt_id: String,
    pub process_id: String,
}

/// All that is alive of a home.
#[derive(Debug, Default)]
pub struct Census {
    pub shims: Vec<Shim>,
    pub marked: Vec<Marked>,
    /// Daemons, bridges and what they run for themselves.
    pub others: Vec<Process>,
}

impl Census {
    pub fn of(home: &Path) -> Self {
        let mut census = Self::default();
        let root = format!("PROVOST_HOME={}", home.display());
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
            let Some(process) = Process::of(pid) else { continue };
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let environ = String::from_utf8_lossy(&environ).into_owned();
            let value = |name: &str| {
                let mut values = environ.split('\0').filter_map(|it| it.strip_prefix(name));
                values.find_map(|it| it.strip_prefix('=')).map(str::to_owned)
            };
            if environ.split('\0').any(|variable| variable == root) {
                match value("PROVOST_ATTEMPT_ID").zip(value("PROVOST_PROCESS_ID")) {
                    Some((attempt_id, process_id)) => {
                        census.marked.push(Marked { process, attempt_id, process_id });
                    }
                    None => census.others.push(process),
                }
            } else if let Ok(cwd) = fs::read_link(format!("/proc/{pid}/cwd"))
                && cwd.starts_with(home.join("attempts"))
                && let Some(process_id) = cwd.file_name()
            {
                let process_id = process_id.to_string_lossy().into_owned();
                let is_armed = value("PROVOST_FAILPOINT").is_some();
                census.shims.push(Shim { process, process_id, is_armed });
            }
        }
        census
    }

    pub fn shim_of(&self, process_id: &str) -> Option<&Shim> {
        self.shims.iter().find(|shim| shim.process_id == process_id)
    }

    /// Whether anything of an execution process is alive.
    pub fn has(&self, process_id: &str) -> bool {
        let is_marked = self.marked.iter().any(|marked| marked.process_id == process_id);
        is_marked || self.shim_of(process_id).is_some()
    }
}
