//! The methods behind `provost hosts` and `provost host`. Pure.

pub use provost_actors::host::{HostChange, HostRole, HostState, Liveness};

use crate::api::prelude::*;

#[derive(Debug, Serialize, Deserialize)]
pub struct HostsListed {
    pub hosts: Vec<HostLine>,
}

/// A machine that attempts run on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostLine {
    pub host: String,
    pub role: HostRole,
    pub state: HostState,
    pub liveness: Liveness,
    pub labels: Vec<String>,
    /// Attempts that run on it.
    pub slots_used: u64,
    /// Attempts that it runs at once.
    pub slots: u64,
    /// That the attempts that run on it have asked for.
    pub memory_used_bytes: u64,
    pub memory_bytes: u64,
    /// Of its daemon.
    pub version: String,
    /// It is there, and of another version than the daemon that was asked.
    pub version_differs: bool,
    /// Counts its registrations.
    pub incarnation: u64,
    pub registered_at: Timestamp,
    /// The last renewal of its lease.
    pub renewed_at: Timestamp,
    /// Null if it has no lease to renew: the lock of its home is the lease.
    pub lease_until: Option<Timestamp>,
}

#[derive(Debug, Deserialize)]
pub struct ChangeHostParams {
    pub host: String,
    pub change: HostChange,
}

/// Asks a host that has a repository for the tip of a branch.
#[derive(Debug, Deserialize)]
pub struct BaseParams {
    pub repo_id: RepoId,
    pub branch: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct FoundBase {
    pub commit: String,
}
