//! Taking an attempt's worktrees away once nothing would be lost with them. All
//! of them or none: what goes is the folder that holds them, to the trash.
//!
//! ```text
//!  examined ──▶ worktrees.json becomes collected.json ──▶ folder to the trash ──▶ git forgets it
//!  (a task)     (rename; from here on it has none)        (rename)                (the git owner)
//! ```
//!
//! A crash in between leaves an attempt without worktrees whose folder is still
//! there, or one that git still knows. The first is made whole again by whoever
//! comes next, the second is forgotten by the next collection. The two renames are
//! made by the actor, so that a follow-up comes before or after both.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ractor::RpcReplyPort;
use serde::Serialize;

use crate::failpoint;
use crate::ids::ProcessId;
use crate::journal::{Attempt, Phase};
use crate::process::held;
use crate::refusal::Refusal;
use crate::workspace::proof;
use crate::workspace::snapshot::Source;
use crate::world::World;

use super::message::Message;
use super::prepare::{COLLECTED, MARKER};
use super::run::State;

/// The port of one who asked for a collection; `None`: there is nothing to collect.
pub type CollectPort = RpcReplyPort<Result<Option<Collection>, Refusal>>;

/// How worktrees are to be collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collect {
    /// Only to tell what would be.
    pub is_dry: bool,
    /// What would be lost is kept under a reference first.
    pub snapshot: bool,
}

/// What becomes of an attempt's worktrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// They would be collected.
    Collectable,
    Collected,
    Kept,
}

/// How a collection went, or would go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Collection {
    pub verdict: Verdict,
    /// Why they are kept, or what was to be saved first.
    pub reason: Option<String>,
    /// The folder of all its worktrees.
    pub folder: PathBuf,
    /// Files and folders in them that git ignores.
    pub ignored: usize,
    /// Where what would have been lost is kept.
    pub snapshots: Vec<Saved>,
}

/// What was kept of a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Saved {
    /// The repository.
    pub repo: String,
    pub reference: String,
    pub commit: String,
}

/// What a look at the worktrees came to.
pub enum Examined {
    /// They are not there, and git does not know them any more.
    Nothing,
    /// They are not there; git is to forget them.
    Unforgotten,
    Told(Collection),
}

impl State {
    pub fn collect(&mut self, how: Collect, port: CollectPort) {
        self.collecting += 1;
        let (myself, world) = (self.myself.clone(), self.world.clone());
        let (attempt, busy) = (self.attempt.clone(), self.busy());
        let newest = attempt.process.process_id;
        tokio::spawn(async move {
            let examined = examine(&world, &attempt, how, busy).await;
            if !how.is_dry {
                failpoint::hit("collect", "examined");
            }
            let _ = myself.send_message(Message::Examined(how, newest, examined, port));
        });
    }

    /// `newest` was the newest process when the look began.
    pub async fn examined(
        &mut self,
        how: Collect,
        newest: ProcessId,
        examined: Examined,
        port: CollectPort,
    ) {
        self.collecting -= 1;
        let mut told = match examined {
            Examined::Told(collection) => collection,
            Examined::Unforgotten if !how.is_dry => {
                forget(self, None, port);
                return;
            }
            Examined::Nothing | Examined::Unforgotten => {
                let _ = port.send(Ok(None));
                return;
            }
        };
        // A turn may have begun and ended meanwhile: what it left was not looked at.
        let is_stale = newest != self.attempt.process.process_id;
        let worked = || is_stale.then(|| "a turn ran in it meanwhile".to_owned());
        if let Some(reason) = self.busy().or_else(worked) {
            told = kept(&told.folder, reason);
        }
        if how.is_dry || told.verdict != Verdict::Collectable {
            let _ = port.send(Ok(Some(told)));
            return;
        }
        let (world, attempt) = (self.world.clone(), self.attempt.clone());
        let away = tokio::task::spawn_blocking(move || take_away(&world, &attempt)).await;
        match away.map_err(io::Error::other).flatten() {
            Ok(()) => {
                told.verdict = Verdict::Collected;
                forget(self, Some(told), port);
            }
            Err(error) => {
                let reason = format!("its folder can't be moved to the trash: {error}");
                let _ = port.send(Ok(Some(kept(&told.folder, reason))));
            }
        }
    }

    /// Why its worktrees are needed, if they are.
    fn busy(&self) -> Option<String> {
        let is_settled = matches!(self.attempt.phase, Phase::Settled | Phase::Idle);
        if !is_settled || self.queue.is_active() {
            Some("it has not settled".to_owned())
        } else if !self.turns.is_empty() {
            Some("something that it started is alive".to_owned())
        } else if !self.queue.waiting().is_empty() {
            Some("follow-ups wait in its queue".to_owned())
        } else {
            None
        }
    }
}

/// Ends the registrations in git, then answers. The worktrees are in the trash by
/// now: a registration that stays is pruned by the next collection.
fn forget(state: &State, told: Option<Collection>, port: CollectPort) {
    let (world, attempt) = (state.world.clone(), state.attempt.clone());
    tokio::spawn(async move {
        let folder = world.settings.worktrees_dir.join(&attempt.folder);
        for repo in &attempt.repos {
            let worktree = folder.join(&repo.name);
            let path = Path::new(&repo.path);
            if let Err(error) = world.repositories.forget_worktree(path, worktree).await {
                tracing::warn!(attempt = %attempt.attempt_id, %error, repo = repo.path,
                    "git has not forgotten a worktree that is gone");
            }
            failpoint::hit("collect", "forgotten");
        }
        let _ = port.send(Ok(told));
    });
}

fn kept(folder: &Path, reason: String) -> Collection {
    Collection {
        verdict: Verdict::Kept,
        reason: Some(reason),
        folder: folder.to_owned(),
        ignored: 0,
        snapshots: Vec::new(),
    }
}

async fn examine(world: &World, attempt: &Attempt, how: Collect, busy: Option<String>) -> Examined {
    let dir = world.settings.attempt_dir(attempt.attempt_id);
    let folder = world.settings.worktrees_dir.join(&attempt.folder);
    let exists = async |path: PathBuf| tokio::fs::symlink_metadata(path).await.is_ok();
    let is_made = exists(dir.join(MARKER)).await;
    let was_collected = exists(dir.join(COLLECTED)).await;
    if !is_made && !was_collected {
        return Examined::Nothing;
    }
    let is_there = exists(folder.clone()).await;
    if !is_made && !is_there {
        for repo in &attempt.repos {
            let worktree = folder.join(&repo.name);
            let known = proof::registration(Path::new(&repo.path), &worktree).await;
            if known.is_ok_and(|known| known.is_some()) {
                return Examined::Unforgotten;
            }
        }
        return Examined::Nothing;
    }
    let told = match busy {
        Some(reason) => Err(reason),
        None => prove(world, attempt, how, &folder).await,
    };
    if !is_made && !how.is_dry {
        // A collection was cut off before the folder went: it is whole again.
        if let Err(error) = tokio::fs::rename(dir.join(COLLECTED), dir.join(MARKER)).await {
            return Examined::Told(kept(&folder, format!("{}: {error}", dir.display())));
        }
    }
    Examined::Told(told.unwrap_or_else(|reason| kept(&folder, reason)))
}

/// Whether nothing would be lost with the worktrees. `Err` says what would.
async fn prove(
    world: &World,
    attempt: &Attempt,
    how: Collect,
    folder: &Path,
) -> Result<Collection, String> {
    {
        let names: Vec<String> = attempt.repos.iter().map(|repo| repo.name.clone()).collect();
        let folder = folder.to_owned();
        let looked = tokio::task::spawn_blocking(move || obstacle(&folder, &names)).await;
        looked.map_err(|error| error.to_string())??;
    }
    let mut told = Collection { verdict: Verdict::Collectable, ..kept(folder, String::new()) };
    told.reason = None;
    let mut proofs = Vec::new();
    for repo in &attempt.repos {
        let source = Source {
            repo: PathBuf::from(&repo.path),
            worktrees: world.settings.worktrees_dir.clone(),
            folder: attempt.folder.clone(),
            name: repo.name.clone(),
            branch: attempt.branch.clone(),
            target_branch: repo.target_branch.clone(),
            scratch: world.settings.scratch_dir.clone(),
        };
        let about = |why: String| match attempt.repos.len() {
            1 => why,
            _ => format!("{}: {why}", repo.name),
        };
        let proof = proof::examine(&source, &repo.base_commit)
            .await
            .map_err(|keep| about(keep.to_string()))?;
        told.ignored += proof.ignored;
        if let Some(unsaved) = &proof.unsaved {
            if !how.snapshot {
                return Err(about(unsaved.clone()));
            }
            told.reason.get_or_insert(about(unsaved.clone()));
        }
        proofs.push((repo, proof));
    }
    // Nothing is written before all have been looked at.
    let reference = format!("refs/provost/snapshots/{}", attempt.attempt_id);
    for (repo, proof) in proofs.iter().filter(|(_, proof)| !how.is_dry && proof.unsaved.is_some()) {
        let saved = proof.save(&reference).await;
        let saved = saved.map_err(|keep| format!("no snapshot can be made: {keep}"))?;
        told.snapshots.extend(saved.map(|commit| Saved {
            repo: repo.path.clone(),
            reference: reference.clone(),
            commit,
        }));
    }
    Ok(told)
}

/// What speaks against taking the folder away, whatever is in its repositories.
fn obstacle(folder: &Path, names: &[String]) -> Result<(), String> {
    let found = fs::symlink_metadata(folder).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "its folder is not there: moved, or deleted by hand".to_owned(),
        _ => error.to_string(),
    })?;
    if !found.is_dir() {
        return Err("a link or a file lies where its folder should be".to_owned());
    }
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
    for entry in entries {
        let name = entry.map_err(|error| error.to_string())?.file_name();
        if !names.iter().any(|known| name == known.as_str()) {
            return Err(format!("{} lies beside its worktrees", name.display()));
        }
    }
    if let Some(mount) = held::mount_below(folder) {
        return Err(format!("{} is mounted in it", mount.display()));
    }
    match held::user_of(folder) {
        Some(pid) => Err(format!("process {pid} works in it or has a file of it open")),
        None => Ok(()),
    }
}

/// Two renames; when the second fails the first is taken back.
fn take_away(world: &World, attempt: &Attempt) -> io::Result<()> {
    let settings = &world.settings;
    let dir = settings.attempt_dir(attempt.attempt_id);
    let (marker, collected) = (dir.join(MARKER), dir.join(COLLECTED));
    DirBuilder::new().recursive(true).mode(0o700).create(&settings.trash_dir)?;
    fs::rename(&marker, &collected)?;
    File::open(&dir)?.sync_all()?;
    failpoint::hit("collect", "marked");
    let name = format!("{}-{}", uuid::Uuid::now_v7(), attempt.folder);
    let moved =
        fs::rename(settings.worktrees_dir.join(&attempt.folder), settings.trash_dir.join(name));
    if let Err(error) = moved {
        fs::rename(&collected, &marker)?;
        return Err(error);
    }
    for folder in [&settings.trash_dir, &settings.worktrees_dir] {
        File::open(folder)?.sync_all()?;
    }
    failpoint::hit("collect", "moved");
    Ok(())
}
