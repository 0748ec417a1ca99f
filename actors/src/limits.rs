//! What an execution process may use, and how that is enforced. Data only.

use serde::{Deserialize, Serialize};

/// Limits of one execution process with all that it starts; 0: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Seconds from its start to its end; time in which it is suspended does not count.
    pub wall_secs: u64,
    /// Seconds in which it writes nothing and uses (almost) no processor time.
    pub idle_secs: u64,
    /// Bytes of private memory, all its processes together.
    pub memory_bytes: u64,
    /// Processes alive at once.
    pub processes: u64,
    /// Descriptors open in any one of its processes (`RLIMIT_NOFILE`, getrlimit(2)).
    pub open_files: u64,
    /// Added to its niceness, 0 to 19 (nice(2)): larger is less urgent.
    pub nice: u64,
}

impl Limits {
    /// Whether a cgroup is worth making: it would enforce limits that are otherwise only watched.
    pub fn want_cgroup(&self) -> bool {
        self.memory_bytes > 0 || self.processes > 0
    }

    /// The limits that are set, by their names in the configuration.
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

/// Soft limits that the daemon changed for itself: its children get the values from before. `None`: it did
/// not change this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SoftLimits {
    /// Descriptors open at once (`RLIMIT_NOFILE`).
    pub open_files: Option<u64>,
    /// Bytes of a core dump (`RLIMIT_CORE`).
    pub core_bytes: Option<u64>,
}

/// What happens to an executor while the renewal of its host's lease is late, where hosts share a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLeaseLate {
    /// It is frozen until the lease is renewed.
    #[default]
    Freeze,
    Kill,
    /// It keeps running, perhaps beside its successor on another host.
    RunOn,
}

impl OnLeaseLate {
    /// For serde: a configuration that says nothing of this shows nothing.
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
    /// By the shim, which looks several times a second: a peak may be missed.
    Watched,
    No,
}

/// A limit that is set, and how it was applied at the start of its process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// Its name in the configuration.
    pub limit: String,
    pub value: u64,
    pub hold: Hold,
    /// Why the kernel does not enforce it, although it could.
    pub reason: Option<String>,
}
