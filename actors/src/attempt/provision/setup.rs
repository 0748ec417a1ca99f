//! The setup of an attempt's worktrees: one script for each repository that has one, once. The
//! agent starts after all of them ended well. One that failed is run again by the next turn.

use super::cached::Cached;
use super::script::{Script, ScriptEnd};
use super::signals::SetupSignals;
use super::{
    CacheReceipt, CacheState, Provision, RepoProvision, ScriptRun, ScriptState, approval, cleanup,
    declared,
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

/// Seconds that a setup may take unless its settings say otherwise.
const TIMEOUT_SECS: u64 = 1800;

impl RepoProvision {
    fn needs_setup(&self) -> bool {
        let is_restored = |it: &CacheReceipt| it.state == CacheState::Restored;
        let is_done = |run: &ScriptRun| run.state == ScriptState::Done;
        self.settings.setup.run.is_some()
            && !self.setup.as_ref().is_some_and(is_done)
            && !self.cache.as_ref().is_some_and(is_restored)
    }

    /// Whether a person has to approve a command of its own file before the agent starts: the
    /// setup runs then, and the checks have to be able to run once the agent has ended.
    fn asks_for_trust(&self) -> bool {
        let is_repos = |it: &Sourced<CheckCommand>| it.is_repos;
        self.settings.setup.run.iter().chain(self.settings.checks.values()).any(is_repos)
    }
}

/// Runs the setups that have not ended well yet. `Err` is a sentence.
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
            run(world, attempt, repo, &mut provision, handle, signals).await?;
        }
    }
    Ok(())
}

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
    let cached = Cached::of(world, attempt, repo, provided);
    if let Some(cached) = cached.as_ref().filter(|_| started.is_none())
        && restored(world, attempt, repo, provision, cached).await?
    {
        return Ok(());
    }
    let process_id = match started {
        Some(run) => run.process_id,
        None if signals.stop().is_some() => {
            return Err(format!("setup of {}: it was stopped before it began", repo.name));
        }
        None => begin(world, attempt, repo, provision).await?,
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
        Ok(ScriptEnd::Abandoned) => {
            return Err(format!("setup of {}: its owner is gone", repo.name));
        }
        Ok(ScriptEnd::Well) => None,
        Ok(ScriptEnd::Failed(reason)) | Err(reason) => {
            Some(format!("setup of {} ({}): {reason}", repo.name, command.value))
        }
    };
    if let (Some(cached), None) = (&cached, &reason) {
        keep(world, attempt, repo, provision, cached).await;
    }
    let state = if reason.is_none() { ScriptState::Done } else { ScriptState::Failed };
    let run = ScriptRun { process_id, state, reason: reason.clone() };
    record(world, attempt, repo, provision, run).await?;
    reason.map_or(Ok(()), Err)
}

/// Writes down that it is to run.
async fn begin(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    provision: &mut Provision,
) -> Result<ProcessId, String> {
    let process_id = ProcessId::new();
    let run = ScriptRun { process_id, state: ScriptState::Started, reason: None };
    record(world, attempt, repo, provision, run).await?;
    failpoint::hit("setup", "next");
    Ok(process_id)
}

/// Whether the cache has spared the setup. What a restoration leaves when it is cut off is taken
/// away by the next one: nothing else has written there yet.
async fn restored(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    provision: &mut Provision,
    cached: &Cached,
) -> Result<bool, String> {
    let before = provision.repos.get(&repo.name).and_then(|it| it.cache.clone());
    if before.is_some_and(|it| it.state == CacheState::Restoring) {
        cached.clear().await?;
    }
    let looked = cached.look().await;
    let is_there = looked.state == CacheState::Restoring;
    note(repo, provision, looked.clone());
    provision.write(world, attempt).await?;
    if !is_there {
        return Ok(false);
    }
    failpoint::hit("cache", "next");
    let restored = cached.restore(looked.clone()).await;
    let is_restored = restored.is_ok();
    note(
        repo,
        provision,
        restored.unwrap_or_else(|reason| CacheReceipt {
            state: CacheState::NotKept,
            reason: Some(reason),
            ..looked
        }),
    );
    provision.write(world, attempt).await?;
    Ok(is_restored)
}

/// Before the setup counts as done, and so before any agent works in the worktree.
async fn keep(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    provision: &mut Provision,
    cached: &Cached,
) {
    let looked = provision.repos.get(&repo.name).and_then(|it| it.cache.clone());
    if let Some(looked) = looked {
        let is_of_person = declared::is_on_default_branch(world, attempt, repo).await;
        note(repo, provision, cached.keep(looked, is_of_person).await);
        failpoint::hit("cache", "kept");
    }
}

fn note(repo: &AttemptRepo, provision: &mut Provision, receipt: CacheReceipt) {
    if let Some(provided) = provision.repos.get_mut(&repo.name) {
        provided.cache = Some(receipt);
    }
}

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
