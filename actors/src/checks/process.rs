//! The process of one check, from whatever state an earlier daemon left it in to its receipt. Each check
//! has a shim of its own, and all its descendants are killed at its end.
//!
//! ```text
//!  NeverStarted ─start─▶ Live ─exit, or the shim is gone─▶ Ended / Lost ─sweep─▶ the record of its end
//!       ▲                                                                          │
//!       ├── stopped: the folder and the checkout are removed ◀─────────────────────┤
//!       └── end unknown: the folder is set aside, a new checkout (3 tries) ◀───────┤
//!                                                        its own end ─▶ receipt ◀──┘
//! ```
//!
//! [`CheckProcess::halt`] kills a check for a shutdown, and marks its folder first. The run itself does
//! not count as failed: the next daemon runs the check again.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::attempt::{SandboxPlan, around_check};
use crate::blocking::blocking;
use crate::environment::inherited;
use crate::event::Timestamp;
use crate::failpoint;
use crate::ids::AttemptId;
use crate::journal::checks::{CheckOutcome, CheckRun, PlannedCheck, Receipt};
use crate::process::records::{self, ExitRecord, Started, StopKind};
use crate::process::{AdoptError, Adopted, LOST, Marker, Shim, ShimEvent, SpawnError};
use crate::retry::{Backoff, until_done};
use crate::world::World;

use super::folder::{Folder, is_there};

/// Tries of a check whose end is unknown, before it is given up.
const TRIES: usize = 3;
/// How long a killed check may take to record its end.
const RECORDED: Duration = Duration::from_secs(5);
/// A file in the folder of a process that Provost stopped: how the process ended says nothing about the
/// work.
const STOPPED: &str = "stopped";
/// Bytes of a check's output that are kept, unless the configuration says less.
const LOG_MAX: u64 = 64 << 20;

/// Whether the process ended by itself, or at a limit, in a known way. Only such an end is a result.
fn is_own_end(record: &ExitRecord) -> bool {
    record.is_known() && record.stopped.is_none()
}

/// One planned check of a run, and the folder of its process.
pub struct CheckProcess<'a> {
    world: &'a World,
    run: &'a CheckRun,
    check: &'a PlannedCheck,
    folder: Folder,
    dir: PathBuf,
}

impl<'a> CheckProcess<'a> {
    /// Looks at nothing yet: what became of the process is found out by the calls below.
    pub fn new(world: &'a World, run: &'a CheckRun, check: &'a PlannedCheck) -> Self {
        let folder = Folder::of(world, run.run_id);
        let dir = folder.process(check.process_id);
        Self { world, run, check, folder, dir }
    }

    /// Runs the check to its end, unless it has run, and returns what it found. A check that can't be run
    /// gives a receipt too, with the outcome `NotRun` and the reason.
    pub async fn receipt(&self) -> Receipt {
        let ended = self.ended().await;
        failpoint::hit("check", "ended");
        let receipt = Receipt {
            name: self.check.name.clone(),
            command: self.check.command.to_string(),
            at: Timestamp::now(),
            ..Receipt::default()
        };
        let (started, exit) = match ended {
            Ok(ended) => ended,
            Err(reason) => return Receipt { reason: Some(reason), ..receipt },
        };
        let took = started.as_ref().map_or(Duration::ZERO, |it| exit.at.since(it.at));
        let wall_secs = self.world.settings.checks.limits.wall_secs;
        Receipt {
            outcome: match (&exit.limit, exit.exit_code) {
                // Any limit fails the check. The record does not say which one, so the time tells a
                // timeout.
                (Some(_), _) if wall_secs > 0 && took.as_secs() >= wall_secs => {
                    CheckOutcome::TimedOut
                }
                (None, Some(0)) => CheckOutcome::Passed,
                _ => CheckOutcome::Failed,
            },
            reason: exit.limit,
            exit_code: exit.exit_code,
            exit_signal: exit.exit_signal,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            log: Some(self.dir.to_string_lossy().into_owned()),
            sandbox: started.and_then(|it| it.sandbox),
            at: exit.at,
            ..receipt
        }
    }

    /// Kills what is alive of the check, for a shutdown. The next daemon runs it again. `Some` is a
    /// sentence about what may have survived.
    pub async fn halt(&self) -> Option<String> {
        let ended: Option<ExitRecord> = self.read(ExitRecord::FILE).await;
        let is_over = ended.is_some_and(|record| is_own_end(&record));
        if !is_over && is_there(&self.dir).await {
            // The mark comes before the kill: the record of a killed process must not count as the
            // check's own end. Where the disk has no room for the mark, the shim records the stop.
            if let Err(error) = tokio::fs::write(self.dir.join(STOPPED), "").await {
                tracing::warn!(dir = %self.dir.display(), %error, "a stopped check can't be marked");
            }
        }
        let alive = match self.end().await {
            Ok(0) => return None,
            Err(AdoptError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                return None;
            }
            Ok(alive) => format!("{alive} of its processes can't be killed"),
            Err(error) => error.to_string(),
        };
        tracing::error!(dir = %self.dir.display(), alive, "a check may run on");
        Some(format!("check {:?}: {alive}", self.check.name))
    }

    /// Kills what is alive of the check. Returns the number of processes that survived.
    async fn end(&self) -> Result<usize, AdoptError> {
        let mut alive = 0;
        let found = match self.world.shims.adopt(&self.dir).await? {
            Adopted::Live(shim) => {
                let _ = shim.control.stopping(StopKind::Forced).await;
                let report = shim.control.kill_tree().await;
                alive = report.map_or(0, |report| report.survivors.len());
                match timeout(RECORDED, self.attend(shim)).await {
                    Ok(found) => found?,
                    // The disk may have no room for the record of the end, and the shim waits for it.
                    Err(_) => return Ok(alive),
                }
            }
            found => found,
        };
        if matches!(found, Adopted::NeverStarted) {
            return Ok(alive);
        }
        let swept = self.world.shims.sweep(&self.dir, LOST).await?;
        Ok(alive.max(swept.report.survivors.len()))
    }

    /// Takes the process from whatever state it is in to its own end. Returns when it began, as far as
    /// that is known, and how it ended.
    ///
    /// # Errors
    /// A sentence: why the check can't be run, or was given up.
    async fn ended(&self) -> Result<(Option<Started>, ExitRecord), String> {
        let shims = &self.world.shims;
        let (mut next, mut backoff) = (None, Backoff::default());
        loop {
            if is_there(&self.dir.join(STOPPED)).await {
                self.forget_stopped().await;
            }
            let found = match next.take() {
                Some(found) => found,
                None => shims.adopt(&self.dir).await,
            };
            match found {
                Ok(Adopted::NeverStarted) => match self.start().await {
                    Ok(shim) => next = Some(self.attend(shim).await),
                    // The next look at the folder decides what became of the process.
                    Err(SpawnError::Died | SpawnError::Unreachable(_)) => {}
                    Err(error) => return Err(error.to_string()),
                },
                Ok(Adopted::Live(shim)) => next = Some(self.attend(shim).await),
                // Also an ended leader may have left descendants.
                Ok(Adopted::Lost { .. } | Adopted::Ended(_)) => {
                    let record = self.sweep().await;
                    let started = self.read(Started::FILE).await;
                    if is_own_end(&record) {
                        return Ok((started, record));
                    }
                    if record.stopped.is_some() {
                        self.forget_stopped().await;
                        continue;
                    }
                    self.set_aside(&record).await?;
                }
                Err(error) => {
                    let what = format!("check {}: reaching its process", self.check.name);
                    backoff.wait(what, error).await;
                }
            }
        }
    }

    /// Starts the check in the checkout, in a box if the checked attempt had one.
    async fn start(&self) -> Result<Shim, SpawnError> {
        let mut cwd = self.folder.checkout(self.run).await.map_err(SpawnError::Refused)?;
        cwd.extend(&self.check.repo);
        self.world.shims.reopen(&self.dir).await.map_err(SpawnError::Prepare)?;
        failpoint::hit("check", "next");
        let settings = &self.world.settings;
        // The marker has no field for a run: a shim sees the run as an attempt of that id.
        let (attempt, process) = (AttemptId::from(self.run.run_id), self.check.process_id);
        let marker = Marker { attempt, process };
        let command = (PathBuf::from("/bin/sh"), self.check.command.shell_arguments());
        let given = self.check.given.as_ref().and_then(|of| settings.checks.given.get(of));
        let given = given.map(|given| given.of(&settings.launch.environment)).unwrap_or_default();
        let mut env = environment(&settings.launch.environment, given, marker);
        let boxed = self.boxed().await.map_err(SpawnError::Refused)?;
        if let Some(boxed) = &boxed {
            boxed.change(&mut env);
        }
        let limits = settings.checks.limits;
        let (mut manifest, secrets) = settings.manifest(marker, command, env, cwd, limits, &[]);
        manifest.spool_max_bytes = manifest.spool_max_bytes.min(LOG_MAX);
        manifest.sandbox = boxed.map(|boxed| boxed.sandbox);
        let spawned = self.world.shims.spawn(&self.dir, &manifest, None, &secrets).await;
        if let Err(SpawnError::Died) = &spawned {
            // The dead shim may have started the check, which is an orphan then.
            self.sweep().await;
        }
        spawned
    }

    /// The box around the check; `None`: the agent whose work is checked has, and had, none. `Err` is a
    /// sentence.
    async fn boxed(&self) -> Result<Option<SandboxPlan>, String> {
        let Some(id) = self.check.work_of else { return Ok(None) };
        let journal = &self.world.journal;
        let attempt = until_done("reading a checked attempt", || journal.attempt(id)).await;
        let attempt = attempt.ok_or_else(|| format!("attempt {id} is gone"))?;
        let objects = attempt.repos.iter().map(|repo| self.folder.objects(&repo.name));
        let (own, objects) = ((self.folder.work(), self.folder.temporary()), objects.collect());
        around_check(self.world, &attempt, own, objects).await
    }

    /// Waits until the leader has ended, kills the rest of the tree, and waits until the shim closes its
    /// connection. Returns what became of the process.
    async fn attend(&self, shim: Shim) -> Result<Adopted, AdoptError> {
        let Shim { control, mut events, .. } = shim;
        while let Some(event) = events.recv().await {
            match event {
                ShimEvent::Exited(_) => {
                    // Kills the leader's descendants. If the shim dies before that, the rescue below starts
                    // another one, or the sweep of the caller kills them.
                    let _ = control.kill_tree().await;
                }
                ShimEvent::Closed => break,
                ShimEvent::Stalled(_) | ShimEvent::Resumed | ShimEvent::Frozen(_) => {}
            }
        }
        self.world.shims.rescue(&self.dir, control).await
    }

    /// Kills whatever is left of the process, and tries until that has worked. Returns how the leader
    /// ended, as far as that is known.
    async fn sweep(&self) -> ExitRecord {
        let what = format!("check {:?}: sweeping its process", self.check.name);
        until_done(what, || self.world.shims.sweep(&self.dir, LOST)).await.record
    }

    /// Removes a process that Provost stopped, with the checkout that it may have changed, as if it had
    /// never run.
    async fn forget_stopped(&self) {
        let what = format!("check {:?}: ending its process", self.check.name);
        until_done(what, || self.end()).await;
        let _ = self.folder.remove_work().await;
        let what = format!("removing {}", self.dir.display());
        until_done(what, || tokio::fs::remove_dir_all(&self.dir)).await;
    }

    /// Keeps the records of a try whose end is unknown under another name, and removes the checkout, so
    /// that another try begins clean. `Err`, a sentence: that was the last try.
    async fn set_aside(&self, record: &ExitRecord) -> Result<(), String> {
        let lost = |number: usize| self.dir.with_extension(format!("lost-{number}"));
        let mut number = 1;
        while is_there(&lost(number)).await {
            number += 1;
        }
        if number >= TRIES {
            let reason = record.reason.as_deref().unwrap_or(LOST);
            return Err(format!("given up after {TRIES} tries: {reason}"));
        }
        let readable = |error: io::Error| format!("{}: {error}", self.dir.display());
        self.folder.remove_work().await.map_err(readable)?;
        tokio::fs::rename(&self.dir, lost(number)).await.map_err(readable)
    }

    /// One of the small records in the folder; `None` where it is missing or can't be read.
    async fn read<T: DeserializeOwned + Send + 'static>(&self, name: &'static str) -> Option<T> {
        let dir = self.dir.clone();
        blocking(move || records::read(&dir, name)).await.ok()?
    }
}

/// The variables of a check, each overriding those before: what executors inherit, `CI=1`, what the
/// person gives to checks, and the marker by which an orphan is recognized.
fn environment(
    own: &BTreeMap<String, String>,
    given: BTreeMap<String, String>,
    marker: Marker,
) -> BTreeMap<String, String> {
    let mut env = inherited(own);
    env.insert("CI".to_owned(), "1".to_owned());
    env.extend(given);
    env.insert(Marker::ATTEMPT.to_owned(), marker.attempt.to_string());
    env.insert(Marker::PROCESS.to_owned(), marker.process.to_string());
    env
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{CheckRunId, ProcessId};

    #[test]
    fn a_check_gets_what_executors_get_and_nothing_of_an_attempt() {
        let own = ["PATH", "LANG", "PROVOST_HOME", "MY_API_KEY", "PROVOST_TASK_ID"];
        let own = own.map(|name| (name.to_owned(), "value".to_owned())).into();
        let marker =
            Marker { attempt: AttemptId::from(CheckRunId::new()), process: ProcessId::new() };
        let made = environment(&own, BTreeMap::new(), marker);
        let names: Vec<&str> = made.keys().map(String::as_str).collect();
        assert_eq!(names, ["CI", "LANG", "PATH", Marker::ATTEMPT, Marker::PROCESS]);
    }
}
