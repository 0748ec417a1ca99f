//! The setup of an attempt's worktrees: one script for each repository that has one, once. The
//! agent starts after all of them ended well. One that failed is run again by the next turn.

use super::script::{Script, ScriptEnd};
use super::signals::SetupSignals;
use super::{Provision, ScriptRun, ScriptState, approval};
use crate::attempt::lifecycle::LifeEvent;
use crate::attempt::message::{TurnEvent, TurnHandle};
use crate::event::RunReason;
use crate::failpoint;
use crate::ids::ProcessId;
use crate::journal::{Attempt, AttemptRepo};
use crate::world::World;

/// Seconds that a setup may take unless its settings say otherwise.
const TIMEOUT_SECS: u64 = 1800;

/// Runs the setups that have not ended well yet. `Err` is a sentence.
pub async fn set_up(
    world: &World,
    attempt: &Attempt,
    handle: &TurnHandle,
    signals: &SetupSignals,
) -> Result<(), String> {
    let mut provision = Provision::of(world, attempt).await?;
    for repo in &attempt.repos {
        let is_due = provision.repos.get(&repo.name).is_some_and(|it| {
            it.settings.setup.run.is_some()
                && it.setup.as_ref().is_none_or(|run| run.state != ScriptState::Done)
        });
        if is_due {
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
    // One that an earlier daemon started was trusted then.
    let started = provided.setup.clone().filter(|run| run.state == ScriptState::Started);
    if started.is_none() && command.is_repos {
        approval::wait(world, repo, &settings, handle, signals).await?;
    }
    let process_id = match started {
        Some(run) => run.process_id,
        None if signals.stop().is_some() => {
            return Err(format!("setup of {}: it was stopped before it began", repo.name));
        }
        None => {
            let run = ScriptRun {
                process_id: ProcessId::new(),
                state: ScriptState::Started,
                reason: None,
            };
            let process_id = run.process_id;
            record(world, attempt, repo, provision, run).await?;
            failpoint::hit("setup", "next");
            process_id
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
        Ok(ScriptEnd::Abandoned) => {
            return Err(format!("setup of {}: its owner is gone", repo.name));
        }
        Ok(ScriptEnd::Well) => None,
        Ok(ScriptEnd::Failed(reason)) | Err(reason) => {
            Some(format!("setup of {} ({}): {reason}", repo.name, command.value))
        }
    };
    let state = if reason.is_none() { ScriptState::Done } else { ScriptState::Failed };
    let run = ScriptRun { process_id, state, reason: reason.clone() };
    record(world, attempt, repo, provision, run).await?;
    reason.map_or(Ok(()), Err)
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
