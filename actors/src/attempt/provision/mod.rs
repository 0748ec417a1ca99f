//! Makes new worktrees ready to work in: what is configured for their repositories, the ignored
//! files that they get a copy of, the attempt's ports, and their setup.
//!
//! ```text
//!  worktrees made ─▶ settings ─▶ ports ─▶ copies ─▶ provision.json ─▶ the marker ─▶ setup ─▶ turn
//!                    (a commit's          (nothing has run yet)        a script each, once
//!                     file, config.toml)
//! ```
//!
//! Until the marker is there, a crash begins anew with new worktrees. From then on
//! `provision.json` says what applies, whatever becomes of the files: the next turn and the next
//! daemon go on from it. Without any setting it is not there.

mod approval;
mod cached;
pub mod checks;
pub mod cleanup;
mod ports;
pub mod preview;
mod script;
mod setup;
mod signals;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::blocking::{blocking, if_there};
use crate::failpoint;
use crate::ids::ProcessId;
use crate::journal::{Attempt, AttemptRepo};
use crate::process::records;
use crate::repo_settings::{REPO_FILE, RepoSettings};
use crate::secret::file;
use crate::workspace::committed;
use crate::workspace::copy::{CopyReceipt, Copying, copy_ignored, read_credentials};
use crate::world::World;
use preview::Preview;

pub use approval::{TRUST, Trusted, trusted_by};
pub use cached::{CacheReceipt, CacheState};
pub use script::is_script;
pub use setup::set_up;
pub use signals::{SetupSignals, SetupWord};

/// In the attempt's folder.
const FILE: &str = "provision.json";
/// The list of files to copy, by the name that other tools know too.
const INCLUDE_FILE: &str = ".worktreeinclude";

/// What an attempt's worktrees have beside their commits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provision {
    /// By the repository's name; only those for which anything is configured.
    pub repos: BTreeMap<String, RepoProvision>,
    /// By the names of their variables.
    pub ports: BTreeMap<String, u16>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RepoProvision {
    pub settings: RepoSettings,
    /// `None`: no pattern is configured.
    pub copied: Option<CopyReceipt>,
    /// The latest run of its setup, if any.
    pub setup: Option<ScriptRun>,
    /// `None`: nothing is to be cached, or no setup was due yet.
    pub cache: Option<CacheReceipt>,
    /// The run of its cleanup since its worktree was used last, if any.
    pub cleanup: Option<ScriptRun>,
    /// An agent may have worked in it before its next setup.
    pub used: bool,
}

/// A script's process: the intent first, its end once that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptRun {
    pub process_id: ProcessId,
    pub state: ScriptState,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptState {
    Started,
    Done,
    Failed,
}

impl Provision {
    /// That of an attempt, from its folder; empty where nothing is configured. Blocking.
    pub fn read(dir: &Path) -> io::Result<Self> {
        Ok(records::read(dir, FILE)?.unwrap_or_default())
    }

    pub async fn of(world: &World, attempt: &Attempt) -> Result<Self, String> {
        let dir = world.settings.attempt_dir(attempt.attempt_id);
        blocking(move || Self::read(&dir)).await.map_err(|error| unreadable(&error))
    }

    async fn write(&self, world: &World, attempt: &Attempt) -> Result<(), String> {
        let (dir, provision) = (world.settings.attempt_dir(attempt.attempt_id), self.clone());
        let written = blocking(move || records::write_durably(&dir, FILE, &provision)).await;
        written.map_err(|error| unreadable(&error))
    }

    /// Whether a setup was begun that may not have ended.
    pub fn has_script(&self) -> bool {
        let is_begun = |it: &ScriptRun| it.state == ScriptState::Started;
        self.repos.values().filter_map(|it| it.setup.as_ref()).any(is_begun)
    }

    /// What was done for the worktrees, for people: without the settings.
    pub fn receipt(&self, preview: Option<&Preview>) -> Value {
        let repos = self.repos.iter().map(|(name, it)| {
            let mut copied = json!(it.copied);
            if let Some(copied) = copied.as_object_mut() {
                copied.remove("credentials");
            }
            let mut receipt = json!({"copied": copied, "setup": it.setup});
            if let Some(cache) = &it.cache {
                receipt["cache"] = json!(cache);
            }
            if let Some(cleanup) = &it.cleanup {
                receipt["cleanup"] = json!(cleanup);
            }
            (name.clone(), receipt)
        });
        let mut receipt = json!({"repos": repos.collect::<Map<_, _>>(), "ports": self.ports});
        if let Some(preview) = preview {
            receipt["dev_server"] = json!(preview);
        }
        receipt
    }

    /// The secrets of the credentials that were copied, each with a name: read anew for each
    /// process, and never on file.
    pub async fn secrets(&self, world: &World, attempt: &Attempt) -> Vec<(String, String)> {
        let mut secrets = Vec::new();
        for repo in &attempt.repos {
            let copied = self.repos.get(&repo.name).and_then(|it| it.copied.as_ref());
            let Some(copied) = copied.filter(|copied| !copied.credentials.is_empty()) else {
                continue;
            };
            let (checkout, below) = (PathBuf::from(&repo.path), below(attempt, repo));
            let (worktrees, paths) =
                (world.settings.worktrees_dir.clone(), copied.credentials.clone());
            let read = move || read_credentials(&checkout, (&worktrees, &below), &paths);
            // A panic is logged by its hook.
            let texts = tokio::task::spawn_blocking(read).await.unwrap_or_default();
            let is_secret = |name: &str| world.settings.secret_names.name(name);
            secrets
                .extend(texts.iter().flat_map(|(path, text)| file::values(path, text, is_secret)));
        }
        secrets
    }
}

fn unreadable(error: &io::Error) -> String {
    format!("{FILE} of the attempt can't be read or written: {error}")
}

/// A worktree, beneath the folder of all worktrees.
fn below(attempt: &Attempt, repo: &AttemptRepo) -> PathBuf {
    Path::new(&attempt.folder).join(&repo.name)
}

/// Provides for new worktrees in which nothing has run. `Err` is a sentence.
pub async fn provide(world: &World, attempt: &Attempt) -> Result<(), String> {
    let mut provision = Provision::default();
    let mut patterns: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for repo in &attempt.repos {
        let settings = settings(world, attempt, repo).await?;
        let include = committed(world, attempt, repo, INCLUDE_FILE).await?.unwrap_or_default();
        let mut lines: Vec<String> = include.lines().map(str::to_owned).collect();
        lines.extend(settings.copy.iter().flat_map(|copy| copy.value.iter().cloned()));
        lines.retain(|line| !line.trim().is_empty() && !line.starts_with('#'));
        if settings.is_empty() && lines.is_empty() {
            continue;
        }
        if !lines.is_empty() {
            patterns.insert(&repo.name, lines);
        }
        let provided = RepoProvision { settings, ..RepoProvision::default() };
        provision.repos.insert(repo.name.clone(), provided);
    }
    let dir = world.settings.attempt_dir(attempt.attempt_id);
    if provision.repos.is_empty() {
        // An earlier worktree, which was collected, may have had something.
        let removed = blocking(move || if_there(std::fs::remove_file(dir.join(FILE)))).await;
        return removed.map(drop).map_err(|error| unreadable(&error));
    }
    provision.ports = ports::take(world, attempt.attempt_id, &provision.repos).await?;
    for repo in &attempt.repos {
        let Some(lines) = patterns.remove(&*repo.name) else { continue };
        failpoint::hit("copy", "next");
        let copied = copy_ignored(Copying {
            repo: PathBuf::from(&repo.path),
            worktrees: world.settings.worktrees_dir.clone(),
            below: below(attempt, repo),
            patterns: lines,
            max_bytes: world.settings.copy_max_bytes,
            scratch: world.settings.scratch_dir.clone(),
        });
        let copied = copied.await.map_err(|error| format!("setup of {}: {error}", repo.name))?;
        if let Some(provided) = provision.repos.get_mut(&repo.name) {
            provided.copied = Some(copied);
        }
        failpoint::hit("copy", "made");
    }
    provision.write(world, attempt).await
}

/// What applies to a repository: its own file, and the person's settings over it.
async fn settings(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
) -> Result<RepoSettings, String> {
    let config = &world.settings.repos;
    let own = match committed(world, attempt, repo, REPO_FILE).await? {
        Some(text) => (config.read)(&text).map_err(|error| {
            format!(
                "setup of {}: {error} (in commit {}). Mend it on {}, and start another attempt",
                repo.name, repo.base_commit, repo.target_branch
            )
        })?,
        None => RepoSettings::default(),
    };
    let project = attempt.project_id.to_string();
    Ok(own.under(config.of(&project, &attempt.project_name, &repo.name)))
}

/// A file of the base commit. A look at the worktree, in which nothing has run, spares git where
/// there is none.
async fn committed(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    name: &str,
) -> Result<Option<String>, String> {
    let path = world.settings.worktrees_dir.join(below(attempt, repo)).join(name);
    if tokio::fs::symlink_metadata(&path).await.is_err() {
        return Ok(None);
    }
    let text = committed::text(Path::new(&repo.path), &repo.base_commit, name).await;
    text.map_err(|error| format!("setup of {}: {name}: {error}", repo.name))
}
