//! The setup of an attempt's worktrees: one script for each repository that has one, once, unless the
//! cache spares it. The agent starts after all of them have ended well. A setup that failed is run again
//! by the next turn.
//!
//! ```text
//!  undo cleanups ─▶ for each repository: trust ─▶ cache ─ restored ─▶ done
//!                                                   └─ not ─▶ Started ─ script ─▶ Done ─ into the cache
//!                                                                              └─▶ Failed: the turn fails
//! ```

use tokio::sync::OnceCell;

use super::cached::{Cached, Keeping, Looked, runs_again};
use super::claims::ClaimEnd;
use super::script::{Script, ScriptEnd};
use super::signals::SetupSignals;
use super::touched::Before;
use super::{
    CacheReceipt, CacheState, Provision, RepoProvision, ScriptRun, ScriptState, approval, cleanup,
};
use crate::attempt::lifecycle::LifeEvent;
use crate::attempt::message::{TurnEvent, TurnHandle};
use crate::event::RunReason;
use crate::failpoint;
use crate::ids::ProcessId;
use crate::journal::checks::CheckCommand;
use crate::journal::{Attempt, AttemptRepo};
use crate::repo_settings::Sourced;
use crate::world::World;

/// Seconds that a setup may take if its settings do not say.
const TIMEOUT_SECS: u64 = 1800;

impl RepoProvision {
    /// Whether its setup has neither ended well nor been spared by the cache.
    fn needs_setup(&self) -> bool {
        let is_restored = |it: &CacheReceipt| it.state == CacheState::Restored;
        let is_done = |run: &ScriptRun| run.state == ScriptState::Done;
        self.settings.setup.run.is_some()
            && !self.setup.as_ref().is_some_and(is_done)
            && (runs_again(&self.settings) || !self.cache.as_ref().is_some_and(is_restored))
    }

    /// Whether a person has to approve a command of the repository's own file before the agent starts:
    /// the setup runs then, and the checks have to be able to run once the agent has ended.
    fn asks_for_trust(&self) -> bool {
        let is_repos = |it: &Sourced<CheckCommand>| it.is_repos;
        self.settings.setup.run.iter().chain(self.settings.checks.values()).any(is_repos)
    }
}

/// Runs the setups that have not ended well yet. The caller holds the lock of the worktrees. `Err` is a
/// sentence.
pub async fn set_up(
    world: &World,
    attempt: &Attempt,
    handle: &TurnHandle,
    signals: &SetupSignals,
) -> Result<(), String> {
    let mut provision = Provision::of(world, attempt).await?;
    cleanup::undo(world, attempt, &mut provision).await?;
    for repo in &attempt.repos {
        let Some(provided) = provision.repos.get(&repo.name) else { continue };
        // One that an earlier daemon started was trusted then.
        let has_begun = provided.setup.as_ref().is_some_and(|run| run.state != ScriptState::Failed);
        if provided.asks_for_trust() && !has_begun {
            approval::wait(world, attempt, repo, &provided.settings, handle, signals).await?;
        }
        if provided.needs_setup() {
            // Boxed: most turns have no setup to run, and should not reserve memory for one.
            Box::pin(run(world, attempt, repo, &mut provision, handle, signals)).await?;
        }
    }
    Ok(())
}

/// The setup of one repository: by the cache, by a script, or by the script that an earlier daemon started.
async fn run(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    provision: &mut Provision,
    handle: &TurnHandle,
    signals: &SetupSignals,
) -> Result<(), String> {
    let Some(provided) = provision.repos.get(&repo.name) else { return Ok(()) };
    let settings = provided.settings.clone();
    let Some(command) = settings.setup.run.clone() else { return Ok(()) };
    let started = provided.setup.clone().filter(|run| run.state == ScriptState::Started);
    let about = |why: &str| format!("setup of {}: {why}", repo.name);
    let cached = Cached::of(world, attempt, repo, provided).await;
    let keeping = match (&cached, &started) {
        (None, _) => None,
        (Some(cached), Some(_)) => claimed_again(provided, cached).await,
        (Some(cached), None) => {
            match restored(world, attempt, repo, provision, cached, signals).await? {
                None if !runs_again(&settings) => return Ok(()),
                keeping => keeping,
            }
        }
    };
    let (process_id, before) = match started {
        Some(run) => (run.process_id, None),
        None if signals.stop().is_some() => return Err(about("it was stopped before it began")),
        None => {
            let before = Before::look(world, attempt, repo).await;
            (begin(world, attempt, repo, provision).await?, Some(before))
        }
    };
    handle.send(TurnEvent::Life(LifeEvent::SettingUp));
    let script = Script {
        world,
        attempt,
        repo,
        process_id,
        run_reason: RunReason::SetupScript,
        command: &command.value,
        timeout_secs: settings.setup.timeout_secs.as_ref().map_or(TIMEOUT_SECS, |it| it.value),
        provision,
        signals,
    };
    let ended = script.run().await;
    failpoint::hit("setup", "ended");
    let reason = match ended {
        Ok(ScriptEnd::Abandoned) => return Err(about("its owner is gone")),
        Ok(ScriptEnd::Well) => None,
        Ok(ScriptEnd::Failed(reason)) | Err(reason) => {
            Some(format!("setup of {} ({}): {reason}", repo.name, command.value))
        }
    };
    let state = if reason.is_none() { ScriptState::Done } else { ScriptState::Failed };
    let mut run = ScriptRun { state, reason: reason.clone(), ..next(repo, provision, process_id) };
    if let Some(before) = before {
        for line in before.compare(world, attempt, repo, &mut run).await {
            script.note(&OnceCell::new(), line).await;
        }
    }
    match (keeping, &cached, &reason) {
        (Some(keeping), Some(cached), None) => keep(repo, provision, cached, keeping).await,
        // After a stop the claim is dropped without an end: the next attempt that needs this key claims it.
        (Some(Keeping::Claimed(claim)), _, Some(_)) if signals.stop().is_none() => {
            claim.end(ClaimEnd::Failed).await;
        }
        _ => {}
    }
    record(world, attempt, repo, provision, run).await?;
    reason.map_or(Ok(()), Err)
}

/// A run that begins. No agent has worked in the worktree since an earlier run, so what that one changed
/// counts as the setup's too.
fn next(repo: &AttemptRepo, provision: &Provision, process_id: ProcessId) -> ScriptRun {
    let run = ScriptRun::new(process_id, ScriptState::Started, None);
    match provision.repos.get(&repo.name).and_then(|it| it.setup.clone()) {
        Some(ScriptRun { changed, configured, .. }) => ScriptRun { changed, configured, ..run },
        None => run,
    }
}

/// Writes a run down that is to begin.
async fn begin(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    provision: &mut Provision,
) -> Result<ProcessId, String> {
    let process_id = ProcessId::new();
    let run = next(repo, provision, process_id);
    record(world, attempt, repo, provision, run).await?;
    failpoint::hit("setup", "next");
    Ok(process_id)
}

/// The claim of a setup that an earlier daemon began. `None`: its worktree has its results from the cache.
async fn claimed_again(provided: &RepoProvision, cached: &Cached) -> Option<Keeping> {
    let looked = provided.cache.as_ref()?;
    let is_new = looked.state == CacheState::NotKept && !looked.key.is_empty();
    if is_new { Some(cached.claim(&looked.key).await) } else { None }
}

/// Lets the cache spare the setup. `None`: it has. `Some`: it has not, and what becomes of the setup's
/// result. `Err` is a sentence: a stop came, or a record can't be written. What a restoration leaves when
/// it is cut off is removed by the next one: nothing else has written there yet.
async fn restored(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    provision: &mut Provision,
    cached: &Cached,
    signals: &SetupSignals,
) -> Result<Option<Keeping>, String> {
    let before = provision.repos.get(&repo.name).and_then(|it| it.cache.clone());
    if before.is_some_and(|it| it.state == CacheState::Restoring) {
        cached.clear().await?;
    }
    let begun = match cached.look(world, signals).await {
        None => return Err(format!("setup of {}: it was stopped before it began", repo.name)),
        Some(Looked::Missing(receipt, keeping)) => {
            note(repo, provision, receipt);
            provision.write(world, attempt).await?;
            return Ok(Some(keeping));
        }
        Some(Looked::There(begun)) => begun,
    };
    note(repo, provision, begun.clone());
    provision.write(world, attempt).await?;
    failpoint::hit("cache", "next");
    let (receipt, keeping) = match cached.restore(begun.clone()).await {
        Ok(receipt) => (receipt, None),
        Err(why) => {
            let reason = Some(why.clone());
            let receipt = CacheReceipt { state: CacheState::NotKept, reason, ..begun };
            (receipt, Some(Keeping::No(why)))
        }
    };
    note(repo, provision, receipt);
    provision.write(world, attempt).await?;
    Ok(keeping)
}

/// Puts the results into the cache. Called before the setup counts as done, and so before any agent works in
/// the worktree.
async fn keep(repo: &AttemptRepo, provision: &mut Provision, cached: &Cached, keeping: Keeping) {
    let looked = provision.repos.get(&repo.name).and_then(|it| it.cache.clone());
    if let Some(looked) = looked {
        note(repo, provision, cached.keep(looked, keeping).await);
    }
}

/// Notes what the cache did.
fn note(repo: &AttemptRepo, provision: &mut Provision, receipt: CacheReceipt) {
    if let Some(provided) = provision.repos.get_mut(&repo.name) {
        provided.cache = Some(receipt);
    }
}

/// Writes down how far the setup is.
async fn record(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    provision: &mut Provision,
    run: ScriptRun,
) -> Result<(), String> {
    if let Some(provided) = provision.repos.get_mut(&repo.name) {
        provided.setup = Some(run);
    }
    provision.write(world, attempt).await
}
