//! Brings an attempt's process to life, or finds out what became of it: the two
//! tasks that end with a process to attach to.

use std::sync::Arc;
use std::time::Duration;

use crate::event::{ErrorType, Event, ProcessStatus, Timestamp};
use crate::failpoint;
use crate::journal::Attempt;
use crate::log::AttemptLog;
use crate::process::manifest::StopKind;
use crate::process::{Adopted, Control, LOST, Marker, Shim, SpawnError};
use crate::world::World;

use super::digest::{self, Digesting};
use super::{anew, dialogue, prepare};

/// Between tries to reach what can't be reached now.
const RETRY: Duration = Duration::from_secs(1);
/// Why a process is ended whose shim died before the daemon could hold on to it.
const SHIM_DIED: &str = "the supervising process died while it was starting it";

/// Why there is no process to attach to.
pub enum NotStarted {
    /// None runs. A sentence says why.
    Certain(String),
    /// One may: what became of it is to be [found](found).
    Unsure,
}

impl From<String> for NotStarted {
    fn from(reason: String) -> Self {
        Self::Certain(reason)
    }
}

/// Spawns the attempt's newest process.
pub async fn process(
    world: &World,
    attempt: &Attempt,
    digest: digest::Shared,
) -> Result<(Shim, Arc<AttemptLog>), NotStarted> {
    let executor = world
        .executors
        .get(&attempt.executor)
        .ok_or_else(|| format!("executor {:?} is not configured any longer", attempt.executor))?;
    let recap = anew::recap(world, attempt, &*executor).await?;
    let prepared = prepare::process(world, attempt, &*executor, recap)?;
    let log = world.logs.get(attempt.attempt_id).await.map_err(|error| error.to_string())?;
    let dir = world.settings.process_dir(attempt);
    let (folder, told, files) = (dir.clone(), prepared.dialogue, prepared.files);
    blocking(move || dialogue::write(&folder, &told, &files)).await?;
    begin(&log, attempt, world, digest, prepared.opening).await?;
    failpoint::hit("log", "begun");
    let stdin = prepared.stdin.as_deref();
    let spawned = world.shims.spawn_with(&dir, &prepared.manifest, stdin, &prepared.secrets).await;
    let error = match spawned {
        Ok(shim) => return Ok((shim, log)),
        Err(error) => error,
    };
    tracing::warn!(attempt = %attempt.attempt_id, %error, "its process was not started");
    match error {
        SpawnError::Unreachable(_) => return Err(NotStarted::Unsure),
        // Something may run that nobody supervises, and the dying shim may hold
        // the folder's lock for a while yet. What it has written is read then.
        SpawnError::Died => {
            while let Err(error) = world.shims.sweep(&dir, SHIM_DIED).await {
                tracing::error!(attempt = %attempt.attempt_id, %error, "not swept yet");
                tokio::time::sleep(RETRY).await;
            }
            return Err(NotStarted::Unsure);
        }
        SpawnError::Prepare(_) | SpawnError::Shim(_) | SpawnError::Refused(_) => {}
    }
    let reason = format!("{} can't be started: {error}", prepared.manifest.program.display());
    tell_failure(&log, attempt, reason.clone(), false).await;
    Err(NotStarted::Certain(reason))
}

/// Tells the log that the turn came to nothing before its process was begun.
pub async fn not_prepared(world: &World, attempt: &Attempt, reason: &str) {
    match world.logs.get(attempt.attempt_id).await {
        Ok(log) => tell_failure(&log, attempt, reason.to_owned(), true).await,
        Err(error) => tracing::error!(attempt = %attempt.attempt_id, %error, "no log to tell it"),
    }
}

/// What became of the attempt's newest process over a restart. Tries until the
/// disk answers: there is nothing better to do with an attempt than to know.
pub async fn found(
    world: &World,
    attempt: &Attempt,
    digest: digest::Shared,
) -> (Adopted, Arc<AttemptLog>) {
    loop {
        match find(world, attempt, digest.clone()).await {
            Ok(found) => return found,
            Err(error) => {
                tracing::error!(attempt = %attempt.attempt_id, %error, "not taken up again yet");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

async fn find(
    world: &World,
    attempt: &Attempt,
    digest: digest::Shared,
) -> Result<(Adopted, Arc<AttemptLog>), String> {
    let log = world.logs.get(attempt.attempt_id).await.map_err(|error| error.to_string())?;
    let dir = world.settings.process_dir(attempt);
    let found = world.shims.adopt(&dir).await.map_err(|error| error.to_string())?;
    let has_run = attempt.process.status == ProcessStatus::Running;
    let found = settle_lost(world, attempt, has_run, found).await?;
    if matches!(found, Adopted::NeverStarted) {
        // Its start is still to come, or comes to nothing.
        world.shims.reopen(&dir).await.map_err(|error| error.to_string())?;
    } else {
        begin(&log, attempt, world, digest, vec![]).await?;
    }
    Ok((found, log))
}

/// Kills what is alive of the attempt's newest process, without its log. Returns how
/// many live all the same.
pub async fn kill(world: &World, attempt: &Attempt, kind: StopKind) -> Result<u32, String> {
    let found = world.shims.adopt(&world.settings.process_dir(attempt)).await;
    let Adopted::Live(shim) = found.map_err(|error| error.to_string())? else {
        // What has no shim is swept as it is found.
        return Ok(0);
    };
    let killed = async {
        shim.control.stopping(kind).await?;
        shim.control.kill_tree().await
    };
    let report = killed.await.map_err(|error| error.to_string())?;
    Ok(u32::try_from(report.survivors.len()).unwrap_or(u32::MAX))
}

/// What became of the process whose shim has gone: one that goes on, or its end.
pub async fn rescued(world: &World, attempt: &Attempt, control: Control) -> Adopted {
    let dir = world.settings.process_dir(attempt);
    let mut found = world.shims.rescue(&dir, control).await;
    loop {
        let settled = match found {
            Ok(found) => settle_lost(world, attempt, true, found).await,
            Err(error) => Err(error.to_string()),
        };
        match settled {
            Ok(found) => return found,
            Err(error) => {
                tracing::error!(attempt = %attempt.attempt_id, %error, "not rescued yet");
                tokio::time::sleep(RETRY).await;
                found = world.shims.adopt(&dir).await;
            }
        }
    }
}

/// One that nobody supervises is ended for good, and its end recorded; so is one
/// that has run and of which the disk knows nothing.
async fn settle_lost(
    world: &World,
    attempt: &Attempt,
    has_run: bool,
    found: Adopted,
) -> Result<Adopted, String> {
    match found {
        Adopted::Lost { .. } => {
            match world.shims.sweep(&world.settings.process_dir(attempt), LOST).await {
                Ok(swept) => Ok(Adopted::Ended(swept.record)),
                Err(error) => Err(error.to_string()),
            }
        }
        Adopted::NeverStarted if has_run => {
            let (attempt, process) = (attempt.attempt_id, attempt.process.process_id);
            let swept = world.shims.sweep_deleted(Marker { attempt, process }).await;
            swept.map(Adopted::Ended).map_err(|error| error.to_string())
        }
        found => Ok(found),
    }
}

async fn begin(
    log: &Arc<AttemptLog>,
    attempt: &Attempt,
    world: &World,
    digest: digest::Shared,
    opening: Vec<(Timestamp, Event)>,
) -> Result<(), String> {
    let dir = world.settings.process_dir(attempt);
    let dialogue = blocking(move || dialogue::read(&dir)).await?;
    let (inner, in_lines) = match world.executors.get(&attempt.executor) {
        Some(executor) => (executor.normalizer(&dialogue), executor.answers_in_lines()),
        None => (crate::executor::unknown(), false),
    };
    let normalizer = Box::new(Digesting::new(inner, digest, in_lines));
    let (log, process, turn) = (Arc::clone(log), attempt.process.process_id, attempt.process.turn);
    tokio::task::spawn_blocking(move || log.begin(process, turn, normalizer, opening))
        .await
        .map_err(|error| error.to_string())?
        .map_err(|error| error.to_string())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?;
    done.map_err(|error| error.to_string())
}

/// Writes into the log what kept the process from starting.
async fn tell_failure(log: &Arc<AttemptLog>, attempt: &Attempt, reason: String, tell_prompt: bool) {
    let prompt = tell_prompt.then(|| attempt.process.prompt.clone());
    let (log, process, turn) = (Arc::clone(log), attempt.process.process_id, attempt.process.turn);
    let written = tokio::task::spawn_blocking(move || {
        let now = Timestamp::now();
        if let Some(text) = prompt {
            log.append(process, turn, now, Event::UserMessage { text })?;
        }
        let end = Event::ProcessEnd {
            text: reason.clone(),
            exit_code: None,
            exit_signal: None,
            status: ProcessStatus::Failed,
        };
        log.append(
            process,
            turn,
            now,
            Event::ErrorMessage { text: reason, error_type: ErrorType::Setup, resume_at: None },
        )?;
        log.append(process, turn, now, end)
    })
    .await;
    if !matches!(written, Ok(Ok(()))) {
        tracing::error!(%process, ?written, "the log does not tell why the process did not start");
    }
}
