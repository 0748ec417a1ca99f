//! The methods about what worktrees are provided with: settings, trust, dev servers, and the cache
//! of setups.

pub use provost_actors::attempt::provision::preview::{Preview, PreviewState};

use crate::api::prelude::*;

/// Repositories of a project, at a branch; or those of an attempt, as they are for it.
#[derive(Debug, Serialize, Deserialize)]
pub struct RepoParams {
    pub project_id: Option<ProjectId>,
    pub attempt_id: Option<AttemptId>,
    /// The name of one; all if it is left out.
    pub repo: Option<String>,
    /// The repository's default branch if it is left out.
    pub branch: Option<String>,
}

/// What is configured for the worktrees of repositories.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShownRepos {
    pub repos: Vec<ShownRepo>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShownRepo {
    pub repo_name: String,
    pub path: String,
    pub branch: String,
    /// The commit whose `provost.toml` was read.
    pub commit: String,
    pub settings: Vec<ShownSetting>,
    /// What its `provost.toml` wants and a person approves: commands, mostly; one in a line.
    pub commands: String,
    /// Of these commands: what a person approves.
    pub hash: Option<String>,
    /// Whether they may run.
    pub is_trusted: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShownSetting {
    /// Its dotted path.
    pub key: String,
    pub value: Value,
    /// File and line.
    pub origin: String,
}

#[derive(Debug, Deserialize)]
pub struct PreviewParams {
    pub attempt_id: AttemptId,
    /// The repository whose dev server is meant, if several have one.
    pub repo: Option<String>,
    /// Ends it instead.
    #[serde(default)]
    pub stop: bool,
}

/// The dev server of an attempt; `None`: it never had one.
#[derive(Debug, Serialize, Deserialize)]
pub struct PreviewedAttempt {
    pub attempt_id: AttemptId,
    #[serde(flatten)]
    pub preview: Option<Preview>,
}

#[derive(Debug, Deserialize)]
pub struct TrustParams {
    #[serde(flatten)]
    pub repos: RepoParams,
    /// Approves the commands; else they are only shown.
    #[serde(default)]
    pub yes: bool,
    /// Only commands with one of these hashes: those that a person has seen.
    pub seen: Option<Vec<String>>,
    /// Takes back all approvals of the repositories instead.
    #[serde(default)]
    pub revoke: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct TrustedRepos {
    /// As they are now.
    pub repos: Vec<ShownRepo>,
    /// Attempts that waited for it, and go on.
    pub released: Vec<AttemptId>,
    /// Those that go on when the daemon of their host is there again.
    #[serde(default)]
    pub later: Vec<ReleasedLater>,
    /// How many approvals were taken back.
    pub revoked: u64,
}

/// An attempt that waited for an approval, on a host whose daemon is not there.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReleasedLater {
    pub attempt_id: AttemptId,
    pub host: String,
}

/// The cached results of setups, and what became of them.
#[derive(Debug, Serialize, Deserialize)]
pub struct CachedSetups {
    pub dry_run: bool,
    /// The one that was used longest ago first.
    pub entries: Vec<CachedSetup>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct CachedSetup {
    pub name: String,
    pub bytes: u64,
    /// When it was used last, or made.
    pub used: Timestamp,
    /// `removable`, `removed` or `kept`.
    pub verdict: String,
    /// Why it is kept.
    pub reason: Option<String>,
}
