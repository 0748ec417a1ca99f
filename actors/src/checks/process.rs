//! One check's process, from wherever an earlier daemon left it to its end: started
//! under a shim of its own, and nothing that it started is left when it is over.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::event::Timestamp;
use crate::failpoint;
use crate::journal::checks::{CheckOutcome, CheckRun, PlannedCheck, Receipt};
use crate::process::manifest::{self, ExitRecord, Started, StopKind};
use crate::process::{AdoptError, Adopted, LOST, Shim, ShimEvent, SpawnError};
use crate::world::World;

use super::folder::Folder;
use super::ground::{self, is_there};
use super::launch;

/// Between tries to reach what can't be reached now.
const RETRY: Duration = Duration::from_secs(1);
/// Tries of a check whose end nobody saw, before it is given up.
const TRIES: usize = 3;
/// How long a check that is ended may take to have its end on file.
const RECORDED: Duration = Duration::from_secs(5);
/// Says of a process's folder that it was ended on somebody's wish: how it ended
/// proves nothing.
const STOPPED: &str = "stopped";

/// Whether a record tells of an end that nobody asked for.
fn is_own_end(record: &ExitRecord) -> bool {
    record.is_known() && record.stopped.is_none()
}

/// A check that is to be run.
pub struct Process<'a> {
    world: &'a World,
    run: &'a CheckRun,
    check: &'a PlannedCheck,
    folder: Folder,
    dir: PathBuf,
}

impl<'a> Process<'a> {
    pub fn new(world: &'a World, run: &'a CheckRun, check: &'a PlannedCheck) -> Self {
        let folder = Folder::of(world, run.run_id);
        let dir = folder.process(check.process_id);
        Self { world, run, check, folder, dir }
    }

    /// Runs it to its end, unless it has been.
    pub async fn receipt(&self) -> Receipt {
        let ended = self.ended().await;
        failpoint::hit("check", "ended");
        let mut receipt = Receipt {
            name: self.check.name.clone(),
            command: self.check.command.to_string(),
            outcome: CheckOutcome::NotRun,
            reason: None,
            exit_code: None,
            exit_signal: None,
            duration_ms: 0,
            log: None,
            at: Timestamp::now(),
        };
        match ended {
            Ok((started, exit)) => {
                let took = started.map_or(Duration::ZERO, |it| exit.at.since(it.at));
                let wall_secs = self.world.settings.checks.limits.wall_secs;
                receipt.outcome = match (&exit.limit, exit.exit_code) {
                    (Some(_), _) if wall_secs > 0 && took.as_secs() >= wall_secs => {
                        CheckOutcome::TimedOut
                    }
                    (None, Some(0)) => CheckOutcome::Passed,
                    _ => CheckOutcome::Failed,
                };
                receipt.reason = exit.limit;
                (receipt.exit_code, receipt.exit_signal) = (exit.exit_code, exit.exit_signal);
                receipt.duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                receipt.log = Some(self.dir.to_string_lossy().into_owned());
                receipt.at = exit.at;
            }
            Err(reason) => receipt.reason = Some(reason),
        }
        receipt
    }

    /// Ends what is alive of it; what may be alive all the same is told in a sentence.
    /// If it has not come to its own end, the next daemon runs it anew.
    pub async fn halt(&self) -> Option<String> {
        let ended: Option<ExitRecord> = self.read(ExitRecord::FILE).await;
        let is_over = ended.is_some_and(|record| is_own_end(&record));
        if !is_over && is_there(&self.dir).await {
            // Before the kill: a record of that must not be taken for its own end. Where
            // there is no room for it, the shim remembers.
            if let Err(error) = tokio::fs::write(self.dir.join(STOPPED), "").await {
                tracing::warn!(dir = %self.dir.display(), %error, "no mark that it is stopped");
            }
        }
        let alive = match self.end().await {
            Ok(0) => return None,
            Err(AdoptError::Folder(error)) if error.kind() == io::ErrorKind::NotFound => {
                return None;
            }
            Ok(alive) => format!("{alive} of its processes can't be killed"),
            Err(error) => error.to_string(),
        };
        tracing::error!(dir = %self.dir.display(), alive, "a check may run on");
        Some(format!("check {:?}: {alive}", self.check.name))
    }

    /// Ends what is alive of it, and tells how much of it is alive all the same.
    async fn end(&self) -> Result<usize, AdoptError> {
        let mut alive = 0;
        let found = match self.world.shims.adopt(&self.dir).await? {
            Adopted::Live(shim) => {
                let _ = shim.control.stopping(StopKind::Forced).await;
                let report = shim.control.kill_tree().await;
                alive = report.map_or(0, |report| report.survivors.len());
                match timeout(RECORDED, self.attend(shim)).await {
                    Ok(found) => found?,
                    // There may be no room for the record of its end.
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

    /// How it ended, and when it began. `Err` says why it can't be run.
    async fn ended(&self) -> Result<(Option<Started>, ExitRecord), String> {
        let shims = &self.world.shims;
        let mut next = None;
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
                    Err(SpawnError::Died | SpawnError::Unreachable(_)) => {}
                    Err(error) => return Err(error.to_string()),
                },
                Ok(Adopted::Live(shim)) => next = Some(self.attend(shim).await),
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
                    tracing::warn!(check = self.check.name, %error, "it can't be reached yet");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    async fn start(&self) -> Result<Shim, SpawnError> {
        let cwd = ground::ready(self.run, &self.folder).await.map_err(SpawnError::Refused)?;
        self.world.shims.reopen(&self.dir).await.map_err(SpawnError::Prepare)?;
        failpoint::hit("check", "next");
        let settings = &self.world.settings;
        let (manifest, secrets) = launch::manifest(settings, self.run.run_id, self.check, cwd);
        let spawned = self.world.shims.spawn_with(&self.dir, &manifest, None, &secrets).await;
        if let Err(SpawnError::Died) = &spawned {
            // Something may run that nobody supervises.
            self.sweep().await;
        }
        spawned
    }

    /// Stays with it until nothing of its tree is left, or its shim has died: then
    /// it tells how things stand.
    async fn attend(&self, shim: Shim) -> Result<Adopted, AdoptError> {
        let Shim { control, mut events, .. } = shim;
        while let Some(event) = events.recv().await {
            match event {
                ShimEvent::Exited(_) => {
                    // Whatever it has left behind; a shim that dies over it is rescued.
                    let _ = control.kill_tree().await;
                }
                ShimEvent::Closed => break,
                ShimEvent::TreeGone | ShimEvent::Stalled(_) | ShimEvent::Resumed => {}
            }
        }
        self.world.shims.rescue(&self.dir, control).await
    }

    /// Kills whatever is left of it; how it ended, as far as is known. Tries until its
    /// folder can be written.
    async fn sweep(&self) -> ExitRecord {
        loop {
            match self.world.shims.sweep(&self.dir, LOST).await {
                Ok(swept) => return swept.record,
                Err(error) => {
                    tracing::warn!(check = self.check.name, %error, "not swept yet");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Makes as if a process that was ended on somebody's wish had never been.
    async fn forget_stopped(&self) {
        while let Err(error) = self.end().await {
            tracing::warn!(dir = %self.dir.display(), %error, "it can't be ended yet");
            tokio::time::sleep(RETRY).await;
        }
        let _ = self.folder.remove_work().await;
        while let Err(error) = tokio::fs::remove_dir_all(&self.dir).await {
            tracing::warn!(dir = %self.dir.display(), %error, "it can't be run anew yet");
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Makes room for another try, in a checkout made anew: who knows what this one
    /// left half done. `Err` if there were enough.
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

    /// One of the small files of its folder; what can't be read is not there.
    async fn read<T: DeserializeOwned + Send + 'static>(&self, name: &'static str) -> Option<T> {
        let dir = self.dir.clone();
        let read = tokio::task::spawn_blocking(move || manifest::read(&dir, name)).await;
        read.ok()?.ok()?
    }
}
