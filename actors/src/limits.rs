//! What an execution process may use, and how that is enforced. Data only.

use serde::{Deserialize, Serialize};

/// Limits of one execution process with all it starts; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Seconds from its start to its end, suspended time not counted.
    pub wall_secs: u64,
    /// Seconds without a byte written and (nearly) without processor time used.
    pub idle_secs: u64,
    /// Bytes of private memory, all its processes together.
    pub memory_bytes: u64,
    /// Processes alive at once.
    pub processes: u64,
    /// Descriptors open in any one of its processes (`RLIMIT_NOFILE`, getrlimit(2)).
    pub open_files: u64,
    /// Added to its niceness, 0 to 19 (nice(2)).
    pub nice: u64,
}

impl Limits {
    /// Whether a cgroup would enforce what is otherwise only watched.
    pub fn want_cgroup(&self) -> bool {
        self.memory_bytes > 0 || self.processes > 0
    }

    /// Those that are set, by the names that the configuration gives them.
    pub fn set(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("wall_secs", self.wall_secs),
            ("idle_secs", self.idle_secs),
            ("memory_bytes", self.memory_bytes),
            ("processes", self.processes),
            ("open_files", self.open_files),
            ("nice", self.nice),
        ]
        .into_iter()
        .filter(|(_, value)| *value > 0)
    }
}

/// Soft limits that the daemon changed for itself, as its children get them, if changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SoftLimits {
    /// Descriptors open at once (`RLIMIT_NOFILE`).
    pub open_files: Option<u64>,
    /// Bytes of a core dump (`RLIMIT_CORE`).
    pub core_bytes: Option<u64>,
}

/// What becomes of an executor while the lease of its host is late, where hosts share a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLeaseLate {
    /// It stands still until the lease is renewed.
    #[default]
    Freeze,
    Kill,
    /// It goes on, perhaps beside its successor on another host.
    RunOn,
}

impl OnLeaseLate {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How a limit is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// By the kernel, at every moment.
    Kernel,
    /// By a look several times a second.
    Watched,
    No,
}

/// A limit that is set, and how it was applied at the start of its process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    pub limit: String,
    pub value: u64,
    pub hold: Hold,
    /// Why the kernel does not enforce it, where it could.
    pub reason: Option<String>,
}
