//! What the command line asks about the remotes of repositories, and the discard of an attempt
//! with its branch: a person's to do.

use provost_actors::ids::{AttemptId, ProjectId};
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize)]
pub struct RemotesParams {
    pub project_id: ProjectId,
    /// Its name; all of the project's by default.
    pub repo: Option<String>,
    /// Records them as they are now; else they are only shown.
    #[serde(default)]
    pub yes: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Remotes {
    pub remotes: Vec<ShownRemote>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShownRemote {
    pub repo_name: String,
    pub remote: String,
    /// Where the repository's configuration says that it leads; `None`: it has no such remote.
    pub url: Option<String>,
    /// Where it led when a person recorded it.
    pub recorded: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct DiscardParams {
    pub attempt_id: AttemptId,
    /// The same for each call of one discard.
    pub request_id: String,
    pub timeout_ms: u64,
}
