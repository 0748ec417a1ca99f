//! The methods about what worktrees are provided with: settings, trust, dev servers, and the cache of setups.

pub use provost_actors::attempt::provision::preview::{Preview, PreviewState};

use crate::api::prelude::*;

/// Repositories of a project at a branch, or those of an attempt as they are for that attempt.
#[derive(Debug, Serialize, Deserialize)]
pub struct RepoParams {
    pub project_id: Option<ProjectId>,
    pub attempt_id: Option<AttemptId>,
    /// The name of one repository; `None`: all of them.
    pub repo: Option<String>,
    /// `None`: the default branch of each repository.
    pub branch: Option<String>,
}

/// What `provost/repo_settings` returns: the settings for the worktrees of repositories.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShownRepos {
    pub repos: Vec<ShownRepo>,
}

/// The settings of one repository.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShownRepo {
    pub repo_name: String,
    pub path: String,
    pub branch: String,
    /// The commit whose `provost.toml` was read.
    pub commit: String,
    pub settings: Vec<ShownSetting>,
    /// What its `provost.toml` wants and a person must approve, one item in each line; mostly commands.
    pub commands: String,
    /// The hash of `commands`, by which a person approves them; `None`: there is nothing to approve.
    pub hash: Option<String>,
    /// Whether `commands` are approved.
    pub is_trusted: bool,
}

/// One setting, with where it is written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShownSetting {
    /// The dotted path of the setting.
    pub key: String,
    pub value: Value,
    /// The file and line that set it.
    pub origin: String,
}

/// What `provost/preview` takes.
#[derive(Debug, Deserialize)]
pub struct PreviewParams {
    pub attempt_id: AttemptId,
    /// The repository whose dev server is meant, if several repositories have one.
    pub repo: Option<String>,
    /// Ends the dev server instead of starting it.
    #[serde(default)]
    pub stop: bool,
}

/// The dev server of an attempt; `preview` is `None` if it never had one.
#[derive(Debug, Serialize, Deserialize)]
pub struct PreviewedAttempt {
    pub attempt_id: AttemptId,
    #[serde(flatten)]
    pub preview: Option<Preview>,
}

/// What `provost/trust` takes.
#[derive(Debug, Deserialize)]
pub struct TrustParams {
    #[serde(flatten)]
    pub repos: RepoParams,
    /// Approves the commands; `false`: they are only shown.
    #[serde(default)]
    pub yes: bool,
    /// Approves only commands with one of these hashes: those that the person has seen.
    pub seen: Option<Vec<String>>,
    /// Takes back all approvals of the repositories instead.
    #[serde(default)]
    pub revoke: bool,
}

/// What `provost/trust` returns.
#[derive(Debug, Serialize, Deserialize)]
pub struct TrustedRepos {
    /// The repositories in their state after the call.
    pub repos: Vec<ShownRepo>,
    /// The attempts that waited for the approval, and continue now.
    pub released: Vec<AttemptId>,
    /// The attempts that continue when the daemon of their host runs again.
    #[serde(default)]
    pub later: Vec<ReleasedLater>,
    /// How many approvals were taken back.
    pub revoked: u64,
}

/// An attempt that waited for an approval, on a host whose daemon does not run.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReleasedLater {
    pub attempt_id: AttemptId,
    pub host: String,
}

/// What `provost/empty_cache` returns: the cached results of setups, and which of them were removed.
#[derive(Debug, Serialize, Deserialize)]
pub struct CachedSetups {
    pub dry_run: bool,
    /// Least recently used first.
    pub entries: Vec<CachedSetup>,
}

/// One cached result of a setup.
#[derive(Debug, Serialize, Deserialize)]
pub struct CachedSetup {
    pub name: String,
    pub bytes: u64,
    /// When it was last used; if it never was, when it was made.
    pub used: Timestamp,
    /// `removable`, `removed` or `kept`.
    pub verdict: String,
    /// Why it is kept; `None`: it is not.
    pub reason: Option<String>,
}
