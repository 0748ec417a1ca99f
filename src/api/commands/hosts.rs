//! The methods behind `provost hosts` and `provost host`. Pure.

pub use provost_actors::host::{HostChange, HostRole, HostState, Liveness};

use crate::api::prelude::*;

/// What `provost/hosts` returns.
#[derive(Debug, Serialize, Deserialize)]
pub struct HostsListed {
    pub hosts: Vec<HostLine>,
}

/// A machine that attempts run on, as its daemon has registered it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostLine {
    pub host: String,
    pub role: HostRole,
    pub state: HostState,
    pub liveness: Liveness,
    pub labels: Vec<String>,
    /// How many attempts run there now.
    pub slots_used: u64,
    /// How many attempts may run there at once.
    pub slots: u64,
    /// The memory that the running attempts have asked for.
    pub memory_used_bytes: u64,
    pub memory_bytes: u64,
    /// The version of its daemon.
    pub version: String,
    /// Its daemon is running, in another version than the daemon that answers.
    pub version_differs: bool,
    /// The number of its registrations.
    pub incarnation: u64,
    pub registered_at: Timestamp,
    /// When its lease was last renewed.
    pub renewed_at: Timestamp,
    /// Null if there is no lease: the lock of the home takes its place.
    pub lease_until: Option<Timestamp>,
}

/// What `provost/change_host` takes.
#[derive(Debug, Deserialize)]
pub struct ChangeHostParams {
    pub host: String,
    pub change: HostChange,
}

/// What `provost/base` takes: asks a host that has a repository for the newest commit of a branch.
#[derive(Debug, Deserialize)]
pub struct BaseParams {
    pub repo_id: RepoId,
    pub branch: String,
}

/// What `provost/base` returns.
#[derive(Debug, Serialize, Deserialize)]
pub struct FoundBase {
    pub commit: String,
}
