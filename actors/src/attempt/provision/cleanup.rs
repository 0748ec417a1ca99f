//! The cleanup of worktrees that are to be collected: one script for each repository that has one.
//! A failure keeps no worktree; the collection's answer names it. If the worktrees are used again after
//! all, they are set up again first.

use tokio::sync::watch;

use super::approval::{self, trust_command};
use super::script::{Script, ScriptEnd};
use super::signals::{SetupSignals, SetupWord};
use super::{Provision, ScriptRun, ScriptState};
use crate::event::RunReason;
use crate::failpoint;
use crate::ids::ProcessId;
use crate::journal::checks::CheckCommand;
use crate::journal::{Attempt, AttemptRepo};
use crate::process::records::StopKind;
use crate::repo_settings::ScriptSettings;
use crate::world::World;

/// Seconds that a cleanup may take if its settings do not say.
const TIMEOUT_SECS: u64 = 60;

/// Whether a cleanup is still to be run, or to be waited for. `false` if the settings can't be read.
pub async fn is_due(world: &World, attempt: &Attempt) -> bool {
    let is_due = |provision: Provision| {
        provision.repos.values().any(|it| {
            it.settings.cleanup.run.is_some()
                && it.cleanup.as_ref().is_none_or(|run| run.state == ScriptState::Started)
        })
    };
    Provision::of(world, attempt).await.is_ok_and(is_due)
}

/// Runs the cleanups that have not ended. `Err` is a sentence: a record can't be read or written. A
/// script that fails is no error.
pub async fn clean_up(world: &World, attempt: &Attempt) -> Result<(), String> {
    let mut provision = Provision::of(world, attempt).await?;
    for repo in &attempt.repos {
        let Some(provided) = provision.repos.get(&repo.name) else { continue };
        let ended = |run: &ScriptRun| run.state != ScriptState::Started;
        let is_due = provided.settings.cleanup.run.is_some()
            && !provided.cleanup.as_ref().is_some_and(ended);
        if is_due {
            run(world, attempt, repo, &mut provision).await?;
        }
    }
    Ok(())
}

/// Why cleanups failed, for the answer of the collection.
pub async fn failures(world: &World, attempt: &Attempt) -> Vec<String> {
    let provision = Provision::of(world, attempt).await.unwrap_or_default();
    provision.repos.into_values().filter_map(|it| it.cleanup?.reason).collect()
}

/// The worktrees are used again: forgets the cleanups that have run, so that the setups run again. A
/// cleanup that may still run, since before this daemon, is ended first.
pub(super) async fn undo(
    world: &World,
    attempt: &Attempt,
    provision: &mut Provision,
) -> Result<(), String> {
    let mut is_changed = false;
    for repo in &attempt.repos {
        let Some(provided) = provision.repos.get_mut(&repo.name) else { continue };
        let (run, settings) = (provided.cleanup.take(), provided.settings.cleanup.clone());
        is_changed |= run.is_some();
        let is_alive = |run: &ScriptRun| run.state == ScriptState::Started;
        if let (Some(run), Some(command)) = (run.filter(is_alive), &settings.run) {
            let word = SetupWord { stop: Some(StopKind::Forced), ..SetupWord::default() };
            let (_words, signals) = watch::channel(word);
            let signals = SetupSignals(signals);
            let place = (world, attempt, repo);
            script(place, run.process_id, &command.value, &settings, provision, &signals)
                .run()
                .await?;
        }
    }
    if is_changed { provision.write(world, attempt).await } else { Ok(()) }
}

/// A cleanup as a script.
fn script<'a>(
    (world, attempt, repo): (&'a World, &'a Attempt, &'a AttemptRepo),
    process_id: ProcessId,
    command: &'a CheckCommand,
    settings: &ScriptSettings,
    provision: &'a Provision,
    signals: &'a SetupSignals,
) -> Script<'a> {
    Script {
        world,
        attempt,
        repo,
        process_id,
        run_reason: RunReason::CleanupScript,
        command,
        timeout_secs: settings.timeout_secs.as_ref().map_or(TIMEOUT_SECS, |it| it.value),
        provision,
        signals,
    }
}

/// Runs the cleanup of one repository, or waits for the one that an earlier daemon began.
async fn run(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    provision: &mut Provision,
) -> Result<(), String> {
    let Some(provided) = provision.repos.get(&repo.name) else { return Ok(()) };
    let settings = provided.settings.clone();
    let Some(command) = settings.cleanup.run.clone() else { return Ok(()) };
    let begun = provided.cleanup.as_ref().map(|run| run.process_id);
    let process_id = begun.unwrap_or_else(ProcessId::new);
    if begun.is_none() {
        let is_trusted = approval::is_trusted_by_then(world, repo, &settings).await;
        let is_trusted = is_trusted.unwrap_or(false);
        if command.is_repos && !is_trusted {
            let see = trust_command(attempt.attempt_id);
            let reason =
                format!("cleanup of {}: its provost.toml is not trusted: see {see}", repo.name);
            return record(world, attempt, repo, provision, failed(process_id, reason)).await;
        }
        let run = ScriptRun::new(process_id, ScriptState::Started, None);
        record(world, attempt, repo, provision, run).await?;
        failpoint::hit("cleanup", "next");
    }
    // Only its time limit stops it: no turn runs that a client could stop.
    let (_words, signals) = watch::channel(SetupWord::default());
    let (signals, place) = (SetupSignals(signals), (world, attempt, repo));
    let script = script(place, process_id, &command.value, &settings.cleanup, provision, &signals);
    let ended = script.run().await;
    failpoint::hit("cleanup", "ended");
    let run = match ended {
        Ok(ScriptEnd::Well) => ScriptRun::new(process_id, ScriptState::Done, None),
        Ok(ScriptEnd::Failed(why)) | Err(why) => {
            let why = format!("cleanup of {} ({}): {why}", repo.name, command.value);
            tracing::warn!(attempt = %attempt.attempt_id, why, "a cleanup failed");
            failed(process_id, why)
        }
        Ok(ScriptEnd::Abandoned) => return Ok(()),
    };
    record(world, attempt, repo, provision, run).await
}

fn failed(process_id: ProcessId, reason: String) -> ScriptRun {
    ScriptRun::new(process_id, ScriptState::Failed, Some(reason))
}

/// Writes the run of a cleanup down. The setup before it does not count any more.
async fn record(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    provision: &mut Provision,
    run: ScriptRun,
) -> Result<(), String> {
    if let Some(provided) = provision.repos.get_mut(&repo.name) {
        // The next turn here has to set the worktree up again, and agents have worked in it by then.
        (provided.setup, provided.cache, provided.used) = (None, None, true);
        provided.cleanup = Some(run);
    }
    provision.write(world, attempt).await
}
