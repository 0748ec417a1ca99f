//! Starts an attempt's process, or finds out what became of it: the two tasks that end
//! with a process to attach to.
//!
//! ```text
//!  process: log begun ─▶ spawn ─ runs ──────────────────▶ Some(shim)
//!                          ├─ shim not reached, or died ─▶ None: it may run; `found` says
//!                          └─ not started ───────────────▶ Err
//!  found:   adopt ─ Live, Ended ────────────────────────▶ that
//!             ├─ Lost ─ sweep ───────────────────────────▶ Ended
//!             └─ NeverStarted ─ had run: swept ──────────▶ Ended;  had not: the folder is reopened
//! ```

use std::fmt::Display;
use std::sync::Arc;

use crate::blocking::blocking;
use crate::event::{ErrorType, Event, ProcessStatus, Timestamp};
use crate::executor::{Executor, Normalizer, PlainLines, Stdin};
use crate::failpoint;
use crate::ids::AttemptId;
use crate::journal::Attempt;
use crate::log::{AttemptLog, process_dir};
use crate::process::records::{self, Started, StopKind};
use crate::process::{Adopted, Control, LOST, Marker, Shim, SpawnError};
use crate::refusal::Refusal;
use crate::retry::until_done;
use crate::sandbox::Level;
use crate::world::World;

use super::message::TurnEvent;
use super::own_state::{self, Session};
use super::prepare;
use super::provision::Provision;
use super::recap::{self, Beginning};
use super::resume;
use super::sandbox_plan;
use super::turn_summary::{SharedSummary, SummarizingNormalizer};

/// Why a process is killed whose shim died before the daemon was connected to it.
const SHIM_DIED: &str = "the supervising process died while it was starting it";

/// The record of the start of the attempt's newest process; `None`: it has not begun, or that can't be read.
pub async fn record(world: &World, attempt: &Attempt) -> Option<Started> {
    let dir = world.settings.attempt_dir(attempt.attempt_id);
    let dir = process_dir(&dir, attempt.process.process_id);
    blocking(move || records::read(&dir, Started::FILE)).await.ok().flatten()
}

/// Starts the attempt's newest process. `None`: it may run, and [`found`] finds that out. `Err` is a
/// sentence: it does not run.
pub async fn process(
    world: &World,
    attempt: &Attempt,
    summary: SharedSummary,
) -> Result<Option<(Shim, Arc<AttemptLog>)>, String> {
    let executor = world
        .executors
        .get(&attempt.executor)
        .ok_or_else(|| format!("executor {:?} is not configured any longer", attempt.executor))?;
    if let Some(obstacle) = resume::obstacle(world, attempt).await {
        return Err(obstacle);
    }
    let attempt = &within_reach(world, attempt, &*executor).await;
    let beginning = beginning(world, attempt, &*executor).await?;
    let provision = Provision::of(world, attempt).await?;
    let hidden = provision.secrets(world, attempt).await;
    let session = session(world, attempt, &beginning);
    let boxed = sandbox_plan::around(world, attempt, &*executor, session).await?;
    let around = boxed.as_ref();
    let mut prepared =
        prepare::process(world, attempt, &*executor, beginning, &provision, &hidden, around)?;
    if let Some(boxed) = boxed {
        let program = prepared.manifest.program.clone();
        prepared.manifest.sandbox = Some(boxed.holding(world, program).await?);
    }
    let log = world.logs.get(attempt.attempt_id).await.map_err(sentence)?;
    let dir = world.settings.process_dir(attempt);
    let (folder, launch) = (dir.clone(), prepared.launch.clone());
    let written = blocking(move || prepare::write_launch_state(&folder, &launch)).await;
    written.map_err(sentence)?;
    begin(&log, attempt, world, summary, prepared.opening).await?;
    failpoint::hit("log", "begun");
    let stdin = match &prepared.launch.stdin {
        Stdin::Bytes(bytes) => Some(&bytes[..]),
        Stdin::Empty | Stdin::Open => None,
    };
    let spawned = world.shims.spawn(&dir, &prepared.manifest, stdin, &prepared.secrets).await;
    let error = match spawned {
        Ok(shim) => return Ok(Some((shim, log))),
        Err(error) => error,
    };
    tracing::warn!(attempt = %attempt.attempt_id, %error, "its process was not started");
    match error {
        SpawnError::Unreachable(_) => Ok(None),
        // The executor may run as an orphan, and the dying shim may hold the lock of the folder for a
        // while. The records are read after that.
        SpawnError::Died => {
            let what = format!("attempt {}: sweeping its process", attempt.attempt_id);
            until_done(what, || world.shims.sweep(&dir, SHIM_DIED)).await;
            Ok(None)
        }
        SpawnError::Prepare(_) | SpawnError::Shim(_) | SpawnError::Refused(_) => {
            let program = prepared.manifest.program.display();
            Err(format!("{program} can't be started: {error}"))
        }
    }
}

/// What the newest turn builds on: its session; or, without one, a copy of the session that a fork begins
/// from, or a summary of the turns so far. `Err` is a sentence.
async fn beginning(
    world: &World,
    attempt: &Attempt,
    executor: &dyn Executor,
) -> Result<Beginning, String> {
    let (process, journal) = (&attempt.process, &world.journal);
    if process.executor_session_id.is_some() {
        return Ok(Beginning::Own);
    }
    let text = |refusal: Refusal| refusal.message;
    let remembers = process.turn > 1 && executor.remembers_turns();
    if remembers || !executor.takes_recaps() {
        if process.turn == 1 || !world.host.has_lease {
            return Ok(Beginning::Own);
        }
        let past = journal.past(attempt.attempt_id, process.process_id).await.map_err(text)?;
        let is_moved = recap::is_moved(&past);
        return Ok(if is_moved {
            Beginning::Moved(process.prompt.clone())
        } else {
            Beginning::Own
        });
    }
    // With several worktrees, the process starts in the folder around them, in which agents look for no
    // session of a single worktree. If the copy turns out to be lost, the turn that replaces this one is
    // turn 2, and gets a summary.
    let may_copy = process.turn == 1 && attempt.repos.len() == 1 && executor.forks_sessions();
    if let Some(fork) = attempt.fork.filter(|_| may_copy)
        && let Some(id) = journal.session_at(fork, &attempt.executor).await.map_err(text)?
        && !is_out_of_reach(world, attempt, executor, fork.attempt_id, &id).await
    {
        return Ok(Beginning::Fork(id));
    }
    // The past of a fork begins with that of the other attempt.
    let mut past = match (process.turn, attempt.fork) {
        (1, None) => return Ok(Beginning::Own),
        (_, None) => Vec::new(),
        (_, Some(fork)) => journal.past_until(fork).await.map_err(text)?,
    };
    past.extend(journal.past(attempt.attempt_id, process.process_id).await.map_err(text)?);
    let prompt = recap::prompt(&past, &process.prompt);
    Ok(match prompt {
        prompt if recap::is_moved(&past) => Beginning::Moved(prompt),
        prompt if prompt == process.prompt => Beginning::Own,
        prompt => Beginning::Recap(prompt),
    })
}

/// The attempt without a session that its newest turn must not read, because only sandboxed turns may.
async fn within_reach(world: &World, attempt: &Attempt, executor: &dyn Executor) -> Attempt {
    let mut attempt = attempt.clone();
    if let Some(id) = attempt.process.executor_session_id.clone()
        && is_out_of_reach(world, &attempt, executor, attempt.attempt_id, &id).await
    {
        attempt.process.executor_session_id = None;
    }
    attempt
}

/// Whether a session is in the own state of the attempt `of`, while the newest turn of `attempt` runs
/// without a sandbox.
async fn is_out_of_reach(
    world: &World,
    attempt: &Attempt,
    executor: &dyn Executor,
    of: AttemptId,
    id: &str,
) -> bool {
    let wanted = executor.sandbox(attempt.process.variant.as_deref());
    wanted.level == Level::None && own_state::holds(world, of, wanted.state, id.to_owned()).await
}

/// The session whose files the newest turn needs, and the attempt that has them. `None`: it begins a new one.
fn session(world: &World, attempt: &Attempt, beginning: &Beginning) -> Option<Session> {
    let (of, id) = match beginning {
        Beginning::Fork(id) => (attempt.fork?.attempt_id, id.clone()),
        _ => (attempt.attempt_id, attempt.process.executor_session_id.clone()?),
    };
    Some(Session { of, id, cwd: prepare::working_dir(world, attempt) })
}

/// Logs that a turn failed before its process was started, with the prompt unless it is there.
pub async fn not_started(world: &World, attempt: &Attempt, reason: &str) {
    match world.logs.get(attempt.attempt_id).await {
        Ok(log) => log_failure(&log, attempt, reason.to_owned()).await,
        Err(error) => {
            tracing::error!(attempt = %attempt.attempt_id, %error, "a failed start can't be logged");
        }
    }
}

/// Finds out what became of the newest process over a restart. Tries until the disk answers.
pub async fn found(world: &World, attempt: &Attempt, summary: SharedSummary) -> TurnEvent {
    let what = format!("attempt {}: finding its process", attempt.attempt_id);
    let (found, log) = until_done(what, || find(world, attempt, summary.clone())).await;
    // If that can't be read, the preparation will report it.
    let provision = Provision::of(world, attempt).await.unwrap_or_default();
    TurnEvent::Found(Box::new(found), log, provision.has_script())
}

/// One try.
async fn find(
    world: &World,
    attempt: &Attempt,
    summary: SharedSummary,
) -> Result<(Adopted, Arc<AttemptLog>), String> {
    let log = world.logs.get(attempt.attempt_id).await.map_err(sentence)?;
    let dir = world.settings.process_dir(attempt);
    let found = world.shims.adopt(&dir).await.map_err(sentence)?;
    let has_run = attempt.process.status == ProcessStatus::Running;
    let found = settle_lost(world, attempt, has_run, found).await?;
    if matches!(found, Adopted::NeverStarted) {
        // Its start is still to come, or will fail: until the folder is reopened it can't be started.
        world.shims.reopen(&dir).await.map_err(sentence)?;
    } else {
        begin(&log, attempt, world, summary, vec![]).await?;
    }
    Ok((found, log))
}

/// Kills what is alive of the newest process, without opening its log. Returns the number of survivors.
/// `Err` is a sentence: its shim can't be reached.
pub async fn kill(world: &World, attempt: &Attempt, kind: StopKind) -> Result<u32, String> {
    let found = world.shims.adopt(&world.settings.process_dir(attempt)).await;
    let Adopted::Live(shim) = found.map_err(sentence)? else {
        // A process without a shim is killed when it is found.
        return Ok(0);
    };
    let killed = async {
        shim.control.stopping(kind).await?;
        shim.control.kill_tree().await
    };
    let report = killed.await.map_err(sentence)?;
    Ok(u32::try_from(report.survivors.len()).unwrap_or(u32::MAX))
}

/// What became of a process whose shim's connection has ended: alive under another shim, or ended. Tries
/// until that is known.
pub async fn rescued(world: &World, attempt: &Attempt, control: Control) -> Adopted {
    let dir = &world.settings.process_dir(attempt);
    let mut first = Some(world.shims.rescue(dir, control).await);
    let what = format!("attempt {}: rescuing its process", attempt.attempt_id);
    until_done(what, || {
        let first = first.take();
        async move {
            let found = match first {
                Some(found) => found,
                None => world.shims.adopt(dir).await,
            };
            settle_lost(world, attempt, true, found.map_err(sentence)?).await
        }
    })
    .await
}

/// Makes `Ended` of a process whose shim is dead (kills what is left of it), and of one that has run and
/// whose folder is gone. `Err` is a sentence.
async fn settle_lost(
    world: &World,
    attempt: &Attempt,
    has_run: bool,
    found: Adopted,
) -> Result<Adopted, String> {
    match found {
        Adopted::Lost { .. } => {
            let swept = world.shims.sweep(&world.settings.process_dir(attempt), LOST).await;
            swept.map(|swept| Adopted::Ended(swept.record)).map_err(sentence)
        }
        Adopted::NeverStarted if has_run => {
            let (attempt, process) = (attempt.attempt_id, attempt.process.process_id);
            let swept = world.shims.sweep_deleted(Marker { attempt, process }).await;
            swept.map(|swept| Adopted::Ended(swept.record)).map_err(sentence)
        }
        found => Ok(found),
    }
}

/// Begins the process's part of the log, or continues it after a restart, with the executor's normalizer.
async fn begin(
    log: &Arc<AttemptLog>,
    attempt: &Attempt,
    world: &World,
    summary: SharedSummary,
    opening: Vec<(Timestamp, Event)>,
) -> Result<(), String> {
    let dir = world.settings.process_dir(attempt);
    let state = blocking(move || prepare::read_launch_state(&dir)).await.map_err(sentence)?;
    let (inner, in_lines) = match world.executors.get(&attempt.executor) {
        Some(executor) => (executor.normalizer(&state), executor.answers_in_lines()),
        None => (Box::new(PlainLines) as Box<dyn Normalizer>, false),
    };
    let normalizer = Box::new(SummarizingNormalizer::new(inner, summary, in_lines));
    let (log, process, turn) = (Arc::clone(log), attempt.process.process_id, attempt.process.turn);
    blocking(move || log.begin(process, turn, normalizer, opening)).await.map_err(sentence)
}

/// An error as a sentence.
fn sentence(error: impl Display) -> String {
    error.to_string()
}

/// Logs that a turn failed before an executor ran.
async fn log_failure(log: &Arc<AttemptLog>, attempt: &Attempt, reason: String) {
    let is_begun = log.has_begun(attempt.process.process_id);
    let prompt = (!is_begun).then(|| attempt.process.prompt.clone());
    let (log, process, turn) = (Arc::clone(log), attempt.process.process_id, attempt.process.turn);
    let written = blocking(move || {
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
        let error_type = ErrorType::Setup;
        let error = Event::ErrorMessage { text: reason, error_type, resume_at: None };
        log.append(process, turn, now, error)?;
        log.append(process, turn, now, end)
    });
    if let Err(error) = written.await {
        tracing::error!(%process, %error, "a failed start can't be logged");
    }
}
