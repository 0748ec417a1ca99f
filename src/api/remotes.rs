//! The methods for the remotes of repositories, and for the discard of an attempt together with its branch.
//! Only a person may call them.

use provost_actors::ids::{AttemptId, ProjectId};
use serde::{Deserialize, Serialize};

/// What `provost/remotes` takes.
#[derive(Debug, Deserialize)]
pub struct RemotesParams {
    pub project_id: ProjectId,
    /// The name of one repository; `None`: all repositories of the project.
    pub repo: Option<String>,
    /// Records the remotes as they are now; `false`: they are only shown.
    #[serde(default)]
    pub yes: bool,
}

/// What `provost/remotes` returns.
#[derive(Debug, Serialize, Deserialize)]
pub struct Remotes {
    pub remotes: Vec<ShownRemote>,
}

/// A remote, as it is configured now and as it was recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShownRemote {
    pub repo_name: String,
    pub remote: String,
    /// The URL in the repository's configuration; `None`: the remote is gone.
    pub url: Option<String>,
    /// The URL that a person has recorded; `None`: none. Only a recorded remote is pushed to.
    pub recorded: Option<String>,
}

/// What `provost/discard` takes.
#[derive(Debug, Serialize, Deserialize)]
pub struct DiscardParams {
    pub attempt_id: AttemptId,
    /// The idempotency key: the same in each call for one discard.
    pub request_id: String,
    pub timeout_ms: u64,
}
