//! One check's process, from wherever an earlier daemon left it to its end: started
//! under a shim of its own, and nothing that it started is left when it is over.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::attempt::is_base;
use crate::event::Timestamp;
use crate::failpoint;
use crate::ids::AttemptId;
use crate::journal::check::{CheckOutcome, CheckRun, PlannedCheck, Receipt};
use crate::process::cgroup::Cgroup;
use crate::process::manifest::{self, ExitRecord, Manifest, Started, StdinSource};
use crate::process::{AdoptError, Adopted, LOST, Marker, Shim, ShimEvent, SpawnError};
use crate::secret::Secrets;
use crate::workspace::checkout::{self, Checkout};
use crate::world::World;

use super::folder::Folder;

/// Between tries to reach what can't be reached now.
const RETRY: Duration = Duration::from_secs(1);
/// Tries of a check whose end nobody saw, before it is given up.
const TRIES: usize = 3;
/// Bytes of its output that are kept, unless the configuration has it less.
const LOG_MAX: u64 = 64 << 20;
/// Says of a process's folder that it was ended on somebody's wish: how it ended
/// proves nothing.
const STOPPED: &str = "stopped";

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

    /// Ends what is alive of it. If it has not come to its own end, the next daemon runs
    /// it anew.
    pub async fn halt(&self) {
        let ended: Option<ExitRecord> = self.read(ExitRecord::FILE).await;
        let is_over = ended.is_some_and(|record| record.is_known());
        let halted = async {
            if !is_over {
                // Before the kill: a record of that must not be taken for its own end.
                tokio::fs::write(self.dir.join(STOPPED), "").await?;
            }
            self.kill().await
        };
        match halted.await {
            Err(AdoptError::Folder(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::error!(dir = %self.dir.display(), %error, "a check may run on");
            }
            Ok(()) => {}
        }
    }

    /// How it ended, and when it began. `Err` says why it can't be run.
    async fn ended(&self) -> Result<(Option<Started>, ExitRecord), String> {
        let shims = &self.world.shims;
        let mut next = None;
        loop {
            if is_there(self.dir.join(STOPPED)).await {
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
                    if record.is_known() {
                        return Ok((started, record));
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
        let cwd = self.checkout().await.map_err(SpawnError::Refused)?;
        self.world.shims.reopen(&self.dir).await.map_err(SpawnError::Prepare)?;
        failpoint::hit("check", "next");
        let (manifest, secrets) = self.manifest(cwd);
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

    /// Ends it and all that it started, if it was ever started.
    async fn kill(&self) -> Result<(), AdoptError> {
        let found = match self.world.shims.adopt(&self.dir).await? {
            Adopted::Live(shim) => {
                let _ = shim.control.kill_tree().await;
                self.attend(shim).await?
            }
            found => found,
        };
        match found {
            Adopted::NeverStarted => Ok(()),
            _ => self.world.shims.sweep(&self.dir, LOST).await.map(drop),
        }
    }

    /// Makes as if a process that was ended on somebody's wish had never been.
    async fn forget_stopped(&self) {
        while let Err(error) = self.kill().await {
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
        while is_there(lost(number)).await {
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

    /// The folder to run in, which is made if need be: that of the only repository, or
    /// the one that holds them all.
    async fn checkout(&self) -> Result<PathBuf, String> {
        let work = self.folder.work();
        let told = |error: &dyn std::fmt::Display| {
            format!("no clean checkout of what was reported can be made: {error}")
        };
        if !is_there(work.clone()).await {
            self.folder.remove_work().await.map_err(|error| told(&error))?;
            for repo in &self.run.repos {
                let checkout = Checkout {
                    repo: PathBuf::from(&repo.path),
                    commit: repo.commit.clone(),
                    objects: self.folder.objects(&repo.name),
                    path: self.folder.new_work().join(&repo.name),
                };
                checkout::make(&checkout).await.map_err(|error| told(&error))?;
                failpoint::hit("checkout", "made");
            }
            let new = self.folder.new_work();
            tokio::fs::rename(new, &work).await.map_err(|error| told(&error))?;
            failpoint::hit("checkout", "whole");
        }
        Ok(match self.run.repos.as_slice() {
            [only] => work.join(&only.name),
            _ => work,
        })
    }

    /// One of the small files of its folder; what can't be read is not there.
    async fn read<T: DeserializeOwned + Send + 'static>(&self, name: &'static str) -> Option<T> {
        let dir = self.dir.clone();
        let read = tokio::task::spawn_blocking(move || manifest::read(&dir, name)).await;
        read.ok()?.ok()?
    }

    fn manifest(&self, cwd: PathBuf) -> (Manifest, Secrets) {
        let (settings, process_id) = (&self.world.settings, self.check.process_id);
        // To the shim each run is an attempt of its own.
        let attempt_id = AttemptId::from(self.run.run_id);
        let marker = Marker { attempt: attempt_id, process: process_id };
        let own = &settings.environment;
        let mut env = environment(own, marker);
        let secrets = settings.secret_names.take_out(&mut env, own);
        let limits = settings.checks.limits;
        let cgroup = settings.cgroups.as_deref().filter(|_| limits.want_cgroup());
        let manifest = Manifest {
            v: manifest::VERSION,
            attempt_id,
            process_id,
            epoch: 1,
            program: PathBuf::from("/bin/sh"),
            args: self.check.command.shell_arguments(),
            env,
            secrets: secrets.names(),
            cwd,
            stdin: StdinSource::Empty,
            spool_max_bytes: settings.spool_max_bytes.min(LOG_MAX),
            limits,
            cgroup: cgroup.map(|base| Cgroup::named(base, &process_id.to_string())),
            grace_ms: u64::try_from(settings.stop_grace.as_millis()).unwrap_or(u64::MAX),
            open_files: settings.open_files,
        };
        (manifest, secrets)
    }
}

async fn is_there(path: PathBuf) -> bool {
    tokio::fs::try_exists(path).await.unwrap_or(false)
}

/// What every executor gets of the daemon's environment, what continuous integration
/// sets, and the marker by which a lost process is found.
fn environment(own: &BTreeMap<String, String>, marker: Marker) -> BTreeMap<String, String> {
    let base = own.iter().filter(|(name, _)| is_base(name));
    let mut env: BTreeMap<_, _> = base.map(|(k, v)| (k.clone(), v.clone())).collect();
    env.insert("CI".to_owned(), "1".to_owned());
    env.insert(Marker::ATTEMPT.to_owned(), marker.attempt.to_string());
    env.insert(Marker::PROCESS.to_owned(), marker.process.to_string());
    env
}
