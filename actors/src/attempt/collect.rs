//! Collects an attempt's worktrees once nothing would be lost with them: all or none, by
//! moving the folder that holds them to the trash.
//!
//! ```text
//!  examined ──▶ worktrees.json becomes collected.json ──▶ folders to the trash ──▶ references deleted
//!  (a task)     (rename; from here on it has none)        (renames)                (the repository)
//! ```
//!
//! After a crash in between, the next user puts the marker back, or the next collection does the rest.
//! The actor makes all renames, so a follow-up comes before or after all of them. The examination is a
//! task and holds the lock of the worktrees; what could have changed by its end is checked once more
//! before the renames (`AttemptActorState::examined`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::failpoint;
use crate::ids::ProcessId;
use crate::journal::{Attempt, Phase};
use crate::process::proc;
use crate::radar;
use crate::task::spawn;
use crate::workspace::own::base_reference;
use crate::workspace::{git, proof};
use crate::world::World;

use super::message::{
    AttemptMessage, Collect, CollectPort, CollectVerdict, Collection, Examined, Saved,
};
use super::own_state;
use super::prepare;
use super::provision::preview::Previewing;
use super::provision::{self, cleanup};
use super::remove_worktrees::{self, COLLECTED, MARKER, taken_away};
use super::sandbox_plan::TEMPORARY;
use super::state::AttemptActorState;

impl AttemptActorState {
    /// Begins a collection: a task examines the worktrees, and `Examined` follows. A finish that discards
    /// holds their lock itself, so its collection takes none.
    pub fn collect(&mut self, how: Collect, port: CollectPort) {
        self.collecting += 1;
        let (myself, world) = (self.myself.clone(), self.world.clone());
        let (attempt, busy) = (self.attempt.clone(), self.busy(how));
        let newest = attempt.process.process_id;
        let worktrees = Arc::clone(&self.worktrees);
        let preview = self.previewing.clone();
        spawn(async move {
            // With the lock, this waits for the snapshot of the last turn.
            let locks = busy.is_none() && !how.by_finish;
            let _lock = if locks { Some(worktrees.lock().await) } else { None };
            let mut serves = preview.is_some();
            if busy.is_none() && !how.is_dry {
                serves = !end_blockers(&world, &attempt, how, preview).await && serves;
            }
            // The files that a dev server has open do not keep the worktrees: the server ends with them.
            let examined = examine(&world, &attempt, how, busy, serves).await;
            if !how.is_dry {
                failpoint::hit("collect", "examined");
            }
            let _ = myself.send_message(AttemptMessage::Examined(how, newest, examined, port));
        });
    }

    /// Ends a collection: takes the worktrees away if the examination found nothing that would be lost, and
    /// nothing has begun since. `newest` was the newest process when the examination began.
    pub async fn examined(
        &mut self,
        how: Collect,
        newest: ProcessId,
        examined: Examined,
        port: CollectPort,
    ) {
        self.collecting -= 1;
        let mut collection = match examined {
            Examined::Collection(collection) => collection,
            Examined::Registered if !how.is_dry => return forget(self, None, port),
            Examined::Nothing | Examined::Registered => return drop(port.send(Ok(None))),
        };
        // A turn that began and ended meanwhile has left work that was not examined.
        let is_stale = newest != self.attempt.process.process_id;
        let worked = || is_stale.then(|| "a turn ran in it meanwhile".to_owned());
        let serves = self.previewing.is_some() && !how.is_dry;
        let served = || serves.then(|| "its dev server runs".to_owned());
        let is_kept = collection.verdict == CollectVerdict::Kept;
        if !is_kept && let Some(reason) = self.busy(how).or_else(worked).or_else(served) {
            collection = kept(&collection.folder, reason);
        }
        if !how.is_dry && collection.verdict == CollectVerdict::Collectable {
            match taken_away(&self.world, &self.attempt).await {
                Ok(()) => {
                    collection.verdict = CollectVerdict::Collected;
                    return forget(self, Some(collection), port);
                }
                Err(error) => {
                    let reason = format!("its folder can't be moved to the trash: {error}");
                    collection = kept(&collection.folder, reason);
                }
            }
        }
        let _ = port.send(Ok(Some(collection)));
    }

    /// Why the worktrees are needed, if they are. Cheap, so it is asked before and after the examination.
    fn busy(&self, how: Collect) -> Option<String> {
        let is_settled = matches!(self.attempt.phase, Phase::Settled | Phase::Idle);
        let reasons = [
            (!is_settled || self.queue.active, "it has not settled"),
            (!self.turns.is_empty(), "something that it started is alive"),
            (!self.queue.waiting.is_empty(), "follow-ups wait in its queue"),
            (self.finishing.is_some() && !how.by_finish, "it is being finished"),
            (self.lent > 0, "the work of another attempt is being applied to it"),
            // A restoration that finds them says that they are there. Behind a finish it comes after the end.
            (self.restoring > 0 && !how.by_finish, "its worktrees are being made again"),
        ];
        let reason = reasons.into_iter().find(|(holds, _)| *holds);
        reason.map(|(_, reason)| reason.to_owned())
    }
}

/// What follows once the worktrees are gone: withdraws the attempt's open questions, deletes the references
/// in the repositories, and answers. If something fails, the next collection does it.
fn forget(state: &AttemptActorState, collection: Option<Collection>, port: CollectPort) {
    let (world, attempt) = (state.world.clone(), state.attempt.clone());
    spawn(async move {
        // Without worktrees, no answer is needed any more. This comes first: once the references are gone,
        // the next collection finds nothing to do.
        let withdrawn = world.journal.withdraw_of_attempt(attempt.attempt_id).await;
        if let Err(refusal) = withdrawn {
            tracing::warn!(attempt = %attempt.attempt_id, %refusal, "its questions stay open");
        }
        remove_worktrees::forget(&world, &attempt).await;
        // Best effort: its files were for processes that have ended.
        let temporary = world.settings.attempt_dir(attempt.attempt_id).join(TEMPORARY);
        let _ = tokio::fs::remove_dir_all(temporary).await;
        own_state::tidy(&world, &attempt).await;
        radar::look(&world, &[]);
        let _ = port.send(Ok(collection));
    });
}

/// The answer that the worktrees stay, and why. Other answers are made from it.
pub(super) fn kept(folder: &Path, reason: String) -> Collection {
    Collection {
        verdict: CollectVerdict::Kept,
        reason: Some(reason),
        folder: folder.to_owned(),
        ignored: 0,
        snapshots: Vec::new(),
        cleanup_failures: Vec::new(),
    }
}

/// Ends the dev server of worktrees that can go otherwise, and runs their cleanup scripts; the real
/// examination follows and sees what these leave. Returns whether no dev server is left.
async fn end_blockers(
    world: &World,
    attempt: &Attempt,
    how: Collect,
    preview: Option<Previewing>,
) -> bool {
    let has_cleanup = cleanup::is_due(world, attempt).await;
    if !has_cleanup && preview.is_none() {
        return true;
    }
    let dry = Collect { is_dry: true, ..how };
    let examined = examine(world, attempt, dry, None, preview.is_some()).await;
    let Examined::Collection(it) = examined else { return preview.is_none() };
    if it.verdict != CollectVerdict::Collectable {
        return preview.is_none();
    }
    if let Some(preview) = preview {
        preview.stop();
        preview.ended().await;
    }
    if has_cleanup && let Err(error) = cleanup::clean_up(world, attempt).await {
        tracing::warn!(attempt = %attempt.attempt_id, error, "its cleanup can't be run");
    }
    true
}

/// What a collection finds, by the marker and the folder:
///
/// ```text
///  marker      folder   then
///  none        there    half-made worktrees: nothing has run in them
///  none        gone     Registered if a repository still has a reference, else Nothing
///  collected   gone     the same
///  collected   there    a collection was cut off before the folder moved: as if the marker were there
///  there       any      what would be lost with them? (`prove`)
/// ```
///
/// `serves`: a process that runs in the worktrees may be the dev server, which ends with them.
async fn examine(
    world: &World,
    attempt: &Attempt,
    how: Collect,
    busy: Option<String>,
    serves: bool,
) -> Examined {
    let dir = world.settings.attempt_dir(attempt.attempt_id);
    let folder = world.settings.folders.worktrees.join(&attempt.folder);
    let exists = async |path: PathBuf| tokio::fs::symlink_metadata(path).await.is_ok();
    let is_made = exists(dir.join(MARKER)).await;
    let was_collected = exists(dir.join(COLLECTED)).await;
    let is_there = exists(folder.clone()).await;
    if !is_made && !was_collected && is_there {
        // They were not made to the end, so nothing has run in them.
        let looked = match busy {
            Some(reason) => Err(reason),
            None => look(attempt, &folder, false).await,
        };
        let found = looked.map(|()| Collection {
            verdict: CollectVerdict::Collectable,
            reason: None,
            ..kept(&folder, String::new())
        });
        return Examined::Collection(found.unwrap_or_else(|reason| kept(&folder, reason)));
    }
    if !is_made && !is_there {
        for repo in &attempt.repos {
            let name = base_reference(attempt.attempt_id);
            let known = git::ref_tip(repo.path.as_ref(), &name).await;
            if known.is_ok_and(|known| known.is_some()) {
                return Examined::Registered;
            }
        }
        return Examined::Nothing;
    }
    let collection = match busy {
        Some(reason) => Err(reason),
        None => prove(world, attempt, how, &folder, serves).await,
    };
    if !is_made && !how.is_dry {
        // A collection was cut off before the folder moved. Its worktrees are whole, so they count as made.
        if let Err(error) = tokio::fs::rename(dir.join(COLLECTED), dir.join(MARKER)).await {
            return Examined::Collection(kept(&folder, format!("{}: {error}", dir.display())));
        }
    }
    Examined::Collection(collection.unwrap_or_else(|reason| kept(&folder, reason)))
}

/// Checks that nothing would be lost with the worktrees, or saves what would be. `Err` says what would be
/// lost, as part of a sentence. A dry run saves nothing.
async fn prove(
    world: &World,
    attempt: &Attempt,
    how: Collect,
    folder: &Path,
    serves: bool,
) -> Result<Collection, String> {
    let verdict = CollectVerdict::Collectable;
    if tokio::fs::symlink_metadata(folder).await.is_err() {
        // Somebody has deleted them. The attempt's own repositories may still have work, so the worktrees
        // are made again and examined, if that can be done.
        if how.is_dry || prepare::whole(world, attempt).await.is_err() {
            return Ok(Collection { verdict, reason: None, ..kept(folder, String::new()) });
        }
    }
    look(attempt, folder, serves).await?;
    let cleanup_failures = cleanup::failures(world, attempt).await;
    let mut collection =
        Collection { verdict, reason: None, cleanup_failures, ..kept(folder, String::new()) };
    let mut proofs = Vec::new();
    for repo in &attempt.repos {
        let about = |why: String| match attempt.repos.len() {
            1 => why,
            _ => format!("{}: {why}", repo.name),
        };
        let examined = async {
            let source = provision::source(world, attempt, repo).await?;
            proof::examine(&source).await
        };
        let proof = examined.await.map_err(|keep| about(keep.to_string()))?;
        collection.ignored += proof.ignored;
        if let Some(unsaved) = &proof.unsaved {
            if !how.snapshot {
                return Err(about(unsaved.clone()));
            }
            collection.reason.get_or_insert(about(unsaved.clone()));
        }
        proofs.push((repo, proof));
    }
    // All repositories are examined before anything is written.
    let reference = format!("refs/provost/snapshots/{}", attempt.attempt_id);
    for (repo, proof) in proofs.iter().filter(|(_, proof)| !how.is_dry && proof.unsaved.is_some()) {
        let saved = proof.save(&reference).await;
        let saved = saved.map_err(|keep| format!("no snapshot can be made: {keep}"))?;
        collection.snapshots.extend(saved.map(|commit| Saved {
            repo: repo.path.clone(),
            reference: reference.clone(),
            commit,
        }));
    }
    Ok(collection)
}

/// What prevents a collection, whatever the repositories have: see [`obstacle`]. `Err` is part of a sentence.
pub(super) async fn look(attempt: &Attempt, folder: &Path, serves: bool) -> Result<(), String> {
    let names: Vec<String> = attempt.repos.iter().map(|repo| repo.name.clone()).collect();
    let folder = folder.to_owned();
    let looked = tokio::task::spawn_blocking(move || obstacle(&folder, &names, serves)).await;
    looked.map_err(|error| error.to_string())?
}

/// What prevents a collection, whatever the repositories have: a missing folder, a link in its place, files
/// beside the worktrees, a mount below it, or a process that uses it. Blocking. `Err` is part of a sentence.
fn obstacle(folder: &Path, names: &[String], serves: bool) -> Result<(), String> {
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
    if let Some(mount) = proc::mount_below(folder) {
        return Err(format!("{} is mounted in it", mount.display()));
    }
    match proc::user_of(folder).filter(|_| !serves) {
        Some(pid) => Err(format!("process {pid} works in it or has a file of it open")),
        None => Ok(()),
    }
}
