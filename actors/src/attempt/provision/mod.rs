//! Makes new worktrees ready to work in: what is configured for their repositories, the ignored
//! files that they get a copy of, the attempt's ports, and their setup.
//!
//! ```text
//!  worktrees made ─▶ settings ─▶ ports ─▶ copies ─▶ provision.json ─▶ the marker ─▶ setup ─▶ turn
//!                    (declared.rs)        (nothing has run yet)        a script each, once
//! ```
//!
//! Before the marker is there, a crash leads to new worktrees. From then on `provision.json` says what
//! applies, whatever happens to the repositories' files: the next turn and the next daemon continue from
//! it. If nothing is configured, that file does not exist.

mod approval;
mod cached;
pub mod checks;
mod claims;
pub mod cleanup;
pub mod declared;
mod ports;
pub mod preview;
mod script;
mod setup;
mod signals;
mod touched;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::attempt::message::TurnHandle;
use crate::blocking::{blocking, if_there};
use crate::failpoint;
use crate::ids::ProcessId;
use crate::journal::{Attempt, AttemptRepo};
use crate::process::records;
use crate::repo_settings::{RepoSettings, port_clash};
use crate::secret::file;
use crate::text::hex;
use crate::workspace::copy::{
    CopyReceipt, Copying, copy_ignored, credentials_of_checkout, credentials_of_worktree,
};
use crate::workspace::snapshot::SnapshotError;
use crate::workspace::source::Source;
use crate::world::World;
use preview::Preview;

pub use approval::{TRUST, Trusted, is_trusted, trust_command, trusted_by};
pub use cached::{CacheReceipt, CacheState};
pub use script::is_script;
pub use setup::set_up;
pub use signals::{SetupSignals, SetupWord};

/// The file in the attempt's folder.
const FILE: &str = "provision.json";

/// How many paths of a repository an entry of the log names.
const NAMED: usize = 3;

/// What an attempt's worktrees have beside their commits. It is written after each change, as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provision {
    /// By the repository's name; only those for which something is configured.
    pub repos: BTreeMap<String, RepoProvision>,
    /// By the names of the variables that hold them.
    pub ports: BTreeMap<String, u16>,
}

/// The same of one repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RepoProvision {
    /// As they were when the worktree was made. Later changes of the files do not count.
    pub settings: RepoSettings,
    /// What was copied into the worktree; `None`: no pattern is configured.
    pub copied: Option<CopyReceipt>,
    /// SHA-256 of each secret that the copies had when they were made, so that a later value in those
    /// files does not count as a secret.
    pub secrets: BTreeSet<String>,
    /// The latest run of its setup; `None`: none was begun since the last cleanup.
    pub setup: Option<ScriptRun>,
    /// What the cache did for the setup; `None`: nothing is to be cached, or no setup was due yet.
    pub cache: Option<CacheReceipt>,
    /// The run of its cleanup since the worktree was last used, if any.
    pub cleanup: Option<ScriptRun>,
    /// An agent may have worked in the worktree before its next setup, so the cache keeps nothing of that.
    pub used: bool,
}

/// A script's process: written before it starts, and again at its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptRun {
    pub process_id: ProcessId,
    pub state: ScriptState,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of a setup: the tracked files that it changed, each path after its repository's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Of a setup: the keys that it changed in the configuration of the person's repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configured: Vec<String>,
}

impl ScriptRun {
    fn new(process_id: ProcessId, state: ScriptState, reason: Option<String>) -> Self {
        Self { process_id, state, reason, changed: Vec::new(), configured: Vec::new() }
    }
}

/// How far a script is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptState {
    /// It runs, or is about to: the next daemon continues with it.
    Started,
    Done,
    Failed,
}

impl Provision {
    /// Whether an attempt's folder has the file. Cheap; without the file the provision is empty.
    pub fn is_kept(dir: &Path) -> bool {
        dir.join(FILE).try_exists().unwrap_or(true)
    }

    /// The provision in an attempt's folder; empty if nothing is configured. Blocking.
    pub fn read(dir: &Path) -> io::Result<Self> {
        Ok(records::read(dir, FILE)?.unwrap_or_default())
    }

    /// The provision of an attempt. `Err` is a sentence.
    pub async fn of(world: &World, attempt: &Attempt) -> Result<Self, String> {
        let dir = world.settings.attempt_dir(attempt.attempt_id);
        blocking(move || Self::read(&dir)).await.map_err(|error| unreadable(&error))
    }

    /// Writes the file durably. `Err` is a sentence.
    async fn write(&self, world: &World, attempt: &Attempt) -> Result<(), String> {
        let (dir, provision) = (world.settings.attempt_dir(attempt.attempt_id), self.clone());
        let written = blocking(move || records::write_durably(&dir, FILE, &provision)).await;
        written.map_err(|error| unreadable(&error))
    }

    /// The files of credentials that were copied into a repository's worktree: no snapshot or commit has
    /// them.
    pub fn credentials(&self, repo: &str) -> &[String] {
        let copied = self.repos.get(repo).and_then(|it| it.copied.as_ref());
        copied.map_or(&[], |copied| &copied.credentials)
    }

    /// The tracked files of a repository that its setup changed, each path after the repository's name.
    pub fn changed_by_setup(&self, repo: &str) -> &[String] {
        let setup = self.repos.get(repo).and_then(|it| it.setup.as_ref());
        setup.map_or(&[], |run| &run.changed)
    }

    /// A sentence for the log: what was not copied into the worktrees, and why. `None`: everything was.
    pub fn left_out(&self) -> Option<String> {
        let copied = self.repos.iter().filter_map(|(name, it)| Some((name, it.copied.as_ref()?)));
        let copied = copied.filter(|(_, copied)| copied.left_out_count > 0);
        let parts = copied.map(|(name, CopyReceipt { left_out_count, left_out, .. })| {
            let first = left_out.iter().take(NAMED);
            let first: Vec<String> =
                first.map(|it| format!("{} ({})", it.path, it.reason)).collect();
            format!("{left_out_count} in the worktree of {name}, such as {}", first.join(", "))
        });
        let parts: Vec<String> = parts.collect();
        let of_all = parts.join("; ");
        (!parts.is_empty())
            .then(|| format!("Of the files that `copy` names, some were left out: {of_all}."))
    }

    /// Whether a setup was begun that may still run.
    pub fn has_script(&self) -> bool {
        let is_begun = |it: &ScriptRun| it.state == ScriptState::Started;
        self.repos.values().filter_map(|it| it.setup.as_ref()).any(is_begun)
    }

    /// What was done for the worktrees, as people see it: without settings and names of credential files.
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

    /// The secrets in the credentials that were copied, each with a name: read for each process, and never
    /// written down. From the worktree, only those that it had when it was made: an agent could otherwise add
    /// texts to its files, and have them removed from what a person reads.
    pub async fn secrets(&self, world: &World, attempt: &Attempt) -> Vec<(String, String)> {
        let mut secrets = Vec::new();
        for repo in &attempt.repos {
            let paths = self.credentials(&repo.name).to_vec();
            let Some(provided) = self.repos.get(&repo.name).filter(|_| !paths.is_empty()) else {
                continue;
            };
            let own = values_of_worktree(world, attempt, repo, paths.clone()).await.into_iter();
            secrets.extend(own.filter(|(_, value)| provided.secrets.contains(&hash(value))));
            let checkout = PathBuf::from(&repo.path);
            secrets.extend(values(world, move || credentials_of_checkout(&checkout, &paths)).await);
        }
        secrets
    }
}

/// The secrets in the files that `read` returns. `read` blocks.
async fn values(
    world: &World,
    read: impl FnOnce() -> Vec<(String, String)> + Send + 'static,
) -> Vec<(String, String)> {
    // A panic is logged by the panic hook.
    let texts = tokio::task::spawn_blocking(read).await.unwrap_or_default();
    let is_secret = |name: &str| world.settings.launch.secret_names.name(name);
    texts.iter().flat_map(|(path, text)| file::values(path, text, is_secret)).collect()
}

/// The secrets in these files of a worktree.
async fn values_of_worktree(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    paths: Vec<String>,
) -> Vec<(String, String)> {
    let (worktrees, below) = (world.settings.folders.worktrees.clone(), below(attempt, repo));
    values(world, move || credentials_of_worktree((&worktrees, &below), &paths)).await
}

/// As [`RepoProvision::secrets`] has a secret.
fn hash(value: &str) -> String {
    hex(&Sha256::digest(value))
}

/// One repository of an attempt, with its worktree, for whoever makes snapshots or commits of it: it
/// names the credentials that no commit may contain, and what is on record of the attempt's work.
pub async fn source(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
) -> Result<Source, SnapshotError> {
    let source = world.settings.source(attempt, repo);
    let failed = |why| SnapshotError::Worktree { path: source.worktree(), why };
    let provision = Provision::of(world, attempt).await.map_err(failed)?;
    let withheld = provision.credentials(&repo.name).to_vec();
    let history = world.history(attempt.attempt_id, repo).await.map_err(|it| failed(it.message))?;
    Ok(Source { history, withheld, ..source })
}

fn unreadable(error: &io::Error) -> String {
    format!("{FILE} of the attempt can't be read or written: {error}")
}

/// A worktree, beneath the folder of all worktrees.
fn below(attempt: &Attempt, repo: &AttemptRepo) -> PathBuf {
    Path::new(&attempt.folder).join(&repo.name)
}

/// Provides for new worktrees in which nothing has run; waits for a person's approval if a file asks for what
/// needs it before anything is copied. The setup is not part of this. `Err` is a sentence.
pub async fn provide(
    world: &World,
    attempt: &Attempt,
    handle: &TurnHandle,
    signals: &SetupSignals,
) -> Result<(), String> {
    let mut provision = Provision::default();
    for repo in &attempt.repos {
        let settings = declared::of_made(world, attempt, repo).await?;
        if settings.asks_first() {
            approval::wait(world, attempt, repo, &settings, handle, signals).await?;
        }
        if !settings.is_empty() {
            let provided = RepoProvision { settings, ..RepoProvision::default() };
            provision.repos.insert(repo.name.clone(), provided);
        }
    }
    let dir = world.settings.attempt_dir(attempt.attempt_id);
    if provision.repos.is_empty() {
        // An earlier worktree, which was collected, may have had something.
        let removed = blocking(move || if_there(std::fs::remove_file(dir.join(FILE)))).await;
        return removed.map(drop).map_err(|error| unreadable(&error));
    }
    let settings = provision.repos.iter().map(|(name, it)| (name.as_str(), &it.settings));
    if let Some(clash) = port_clash(settings) {
        return Err(format!("setup: {clash}"));
    }
    provision.ports = ports::take(world, attempt.attempt_id, &provision.repos).await?;
    for repo in &attempt.repos {
        let Some(provided) = provision.repos.get_mut(&repo.name) else { continue };
        let patterns = provided.settings.patterns();
        if patterns.is_empty() {
            continue;
        }
        failpoint::hit("copy", "next");
        let copied = copy_ignored(Copying {
            repo: PathBuf::from(&repo.path),
            worktrees: world.settings.folders.worktrees.clone(),
            below: below(attempt, repo),
            patterns,
            max_bytes: world.settings.worktrees.copy_max_bytes,
            scratch: world.settings.folders.scratch.clone(),
        });
        let copied = copied.await.map_err(|error| format!("setup of {}: {error}", repo.name))?;
        let own = values_of_worktree(world, attempt, repo, copied.credentials.clone()).await;
        provided.secrets = own.iter().map(|(_, value)| hash(value)).collect();
        provided.copied = Some(copied);
        failpoint::hit("copy", "made");
    }
    provision.write(world, attempt).await
}
