//! A script's process, from wherever an earlier daemon left it to its end: under a shim of its
//! own, its output in the attempt's log, and all its descendants killed at its end.
//!
//! ```text
//!  adopt ─ never started ─▶ row, log, start ─┐          ┌─ its shim has ended ─▶ rescue, as adopt
//!    │  └─ live ─────────────────────────────┴▶ attend ─┤
//!    │                                                  └─ no owner is left ─▶ Abandoned
//!    └─ lost or ended ─▶ sweep ─▶ ended: log, row ─▶ Well or Failed
//! ```

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep_until};

use super::signals::SetupSignals;
use super::{Provision, below};
use crate::attempt::{sandbox_plan, variables};
use crate::blocking::blocking;
use crate::event::{Event, ProcessStatus, RunReason, Timestamp};
use crate::executor::PlainLines;
use crate::ids::ProcessId;
use crate::journal::checks::CheckCommand;
use crate::journal::{Attempt, AttemptRepo, ScriptRow};
use crate::limits::Limits;
use crate::log::tail::tail;
use crate::log::{AttemptLog, LogError, process_dir};
use crate::process::records::{self, ExitRecord, StopKind};
use crate::process::{
    AdoptError, Adopted, Control, LOST, Marker, Shim, ShimEvent, Signal, SpawnError, Target,
};
use crate::retry::{Backoff, until_done, while_store_fails};
use crate::sandbox::{Level, Receipt};
use crate::world::World;

/// The file that marks a process's folder as a script's: its output has no protocol.
const FILE: &str = "script.json";
/// How many of its last lines the reason of a failure has, and how many bytes of them.
const LAST_LINES: usize = 10;
const LAST_BYTES: usize = 2048;

/// Whether the process of this folder is a script, not an executor. Blocking.
pub fn is_script(dir: &Path) -> bool {
    dir.join(FILE).exists()
}

/// A setup, a cleanup or a dev server, with what it needs to run.
pub(super) struct Script<'a> {
    pub world: &'a World,
    pub attempt: &'a Attempt,
    pub repo: &'a AttemptRepo,
    /// Chosen by the caller and written down before, so that the next daemon finds the process.
    pub process_id: ProcessId,
    pub run_reason: RunReason,
    pub command: &'a CheckCommand,
    /// 0: no limit.
    pub timeout_secs: u64,
    pub provision: &'a Provision,
    /// How a stop reaches it. Closed: its owner is gone.
    pub signals: &'a SetupSignals,
}

/// How a script has ended.
pub(super) enum ScriptEnd {
    /// With exit code 0.
    Well,
    /// Otherwise, and why, as the rest of a sentence.
    Failed(String),
    /// It may run on, without an owner. The next owner continues with it.
    Abandoned,
}

impl Script<'_> {
    /// The folder of its process.
    fn dir(&self) -> PathBuf {
        process_dir(&self.world.settings.attempt_dir(self.attempt.attempt_id), self.process_id)
    }

    /// The table of the settings that has its command.
    fn table(&self) -> &'static str {
        match self.run_reason {
            RunReason::CleanupScript => "cleanup",
            RunReason::DevServer => "dev_server",
            _ => "setup",
        }
    }

    /// Runs it to its end, or continues with one that runs, or reads the end of one that has run. `Err`
    /// is the rest of a sentence: it can't run, and nothing of it is alive. A log that can't be written
    /// now does not delay the supervision.
    pub async fn run(&self) -> Result<ScriptEnd, String> {
        let (dir, shims) = (self.dir(), &self.world.shims);
        let log = OnceCell::new();
        let (mut next, mut backoff) = (None, Backoff::default());
        loop {
            let found = match next.take() {
                Some(found) => found,
                None => shims.adopt(&dir).await,
            };
            match found {
                Ok(Adopted::NeverStarted) => {
                    // The row is written before the folder: a folder without a row is taken for one of a
                    // lost board.
                    self.record(ProcessStatus::Running, None, None, None).await?;
                    if let Err(error) = self.log(&log).await {
                        let (why, failed) = (error.to_string(), ProcessStatus::Failed);
                        let exit = ExitRecord::unknown(&why);
                        self.record(failed, Some(&exit), Some(why.clone()), None).await?;
                        return Err(why);
                    }
                    if self.signals.stop().is_some() {
                        let reason = "it was stopped before it began";
                        return self.ended(&log, &ExitRecord::unknown(reason)).await;
                    }
                    match self.start(&log).await {
                        Ok(shim) => next = self.held(shim, &log).await?,
                        Err(SpawnError::Died) => drop(self.sweep().await),
                        Err(SpawnError::Unreachable(_)) => {}
                        Err(error) => {
                            let record = ExitRecord::unknown(&error.to_string());
                            return self.ended(&log, &record).await;
                        }
                    }
                }
                Ok(Adopted::Live(shim)) => {
                    next = self.held(shim, &log).await?;
                }
                Ok(Adopted::Lost { .. } | Adopted::Ended(_)) => {
                    let record = self.sweep().await;
                    return self.ended(&log, &record).await;
                }
                Err(error) => {
                    backoff
                        .wait(format!("{}: reaching a script's process", dir.display()), error)
                        .await;
                }
            }
            if next.is_none() && self.is_abandoned() {
                return Ok(ScriptEnd::Abandoned);
            }
        }
    }

    /// The attempt's log, in which this process is begun at the first call.
    async fn log<'a>(
        &self,
        log: &'a OnceCell<Arc<AttemptLog>>,
    ) -> Result<&'a Arc<AttemptLog>, LogError> {
        log.get_or_try_init(async || {
            let log = self.world.logs.get(self.attempt.attempt_id).await?;
            self.begin(&log).await?;
            Ok(log)
        })
        .await
    }

    /// Its owner is gone, and no stop has come.
    fn is_abandoned(&self) -> bool {
        self.signals.stop().is_none() && self.signals.0.has_changed().is_err()
    }

    /// Records the sandbox that holds it, and supervises it.
    async fn held(
        &self,
        shim: Shim,
        log: &OnceCell<Arc<AttemptLog>>,
    ) -> Result<Option<Result<Adopted, AdoptError>>, String> {
        if let Some(receipt) = shim.started.sandbox.clone() {
            self.record(ProcessStatus::Running, None, None, Some(receipt)).await?;
        }
        Ok(self.attend(shim, log).await)
    }

    /// Starts its process in the sandbox that the attempt's strictest turn had.
    async fn start(&self, log: &OnceCell<Arc<AttemptLog>>) -> Result<Shim, SpawnError> {
        let dir = self.dir();
        let boxed = sandbox_plan::around_script(self.world, self.attempt).await;
        let boxed = boxed.map_err(SpawnError::Refused)?;
        let is_strict = boxed.as_ref().is_some_and(|it| it.sandbox.level == Level::Strict);
        if is_strict && self.run_reason == RunReason::DevServer {
            let reason = "a turn of this attempt had the sandbox \"strict\", and in a network of \
                its own its dev server could not be reached: start an attempt in a variant of the \
                executor with sandbox = \"workspace\"";
            return Err(SpawnError::Refused(reason.to_owned()));
        }
        self.world.shims.reopen(&dir).await.map_err(SpawnError::Prepare)?;
        let settings = &self.world.settings;
        let marker = Marker { attempt: self.attempt.attempt_id, process: self.process_id };
        let command = (PathBuf::from("/bin/sh"), self.command.shell_arguments());
        let ports = &self.provision.ports;
        let project = (self.attempt.project_id.to_string(), &self.attempt.project_name);
        let given =
            settings.worktrees.repos.given((&project.0, project.1), &self.repo.name, self.table());
        let given = given.of(&settings.launch.environment);
        let mut env = variables::of(settings, &given, self.attempt, ports);
        env.insert(Marker::PROCESS.to_owned(), self.process_id.to_string());
        env.remove("PROVOST_PROMPT");
        if let Some(boxed) = &boxed {
            boxed.change(&mut env);
            self.note(log, boxed.notice()).await;
        }
        let cwd = settings.folders.worktrees.join(below(self.attempt, self.repo));
        // Limits as for an agent's processes; only the times are its own.
        let limits = self.world.executors.limits(&self.attempt.executor);
        let limits = Limits { wall_secs: self.timeout_secs, idle_secs: 0, ..limits };
        let hidden = self.provision.secrets(self.world, self.attempt).await;
        let (mut manifest, secrets) = settings.manifest(marker, command, env, cwd, limits, &hidden);
        manifest.epoch = self.attempt.epoch;
        manifest.cwd_beneath = Some(settings.folders.worktrees.clone());
        manifest.sandbox = boxed.map(|boxed| boxed.sandbox);
        self.world.shims.spawn(&dir, &manifest, None, &secrets).await
    }

    /// Supervises it until its shim has ended. Returns what became of the process then; `None`: its owner
    /// is gone, and the process runs on.
    async fn attend(
        &self,
        shim: Shim,
        log: &OnceCell<Arc<AttemptLog>>,
    ) -> Option<Result<Adopted, AdoptError>> {
        let Shim { control, mut events, mut lengths, .. } = shim;
        let (mut is_growing, mut asked, mut kill_at) = (true, None, None);
        self.pump(log).await;
        loop {
            // The branch that uses this is off while no kill is due.
            let due = kill_at.unwrap_or_else(|| Instant::now() + Duration::from_hours(24));
            tokio::select! {
                event = events.recv() => match event {
                    Some(ShimEvent::Exited(_)) => {
                        // Kills what it has left running. If the shim dies meanwhile, `rescue` does the rest.
                        let _ = control.kill_tree().await;
                    }
                    Some(ShimEvent::Stalled(_) | ShimEvent::Resumed | ShimEvent::Frozen(_)) => {}
                    Some(ShimEvent::Closed) | None => break,
                },
                changed = lengths.changed(), if is_growing => {
                    is_growing = changed.is_ok();
                    self.pump(log).await;
                }
                stop = self.signals.stop_beyond(asked), if asked != Some(StopKind::Forced) => {
                    let Some(kind) = stop else {
                        // The owner is gone. Without a stop, the next owner continues with the process.
                        // During a stop, the kill is still due.
                        asked?;
                        asked = Some(StopKind::Forced);
                        continue;
                    };
                    asked = Some(kind);
                    kill_at = self.stop(&control, kind).await;
                }
                () = sleep_until(due), if kill_at.is_some() => {
                    kill_at = None;
                    let _ = control.kill_tree().await;
                }
            }
        }
        Some(self.world.shims.rescue(&self.dir(), control).await)
    }

    /// Ends it. Returns when the tree is to be killed; `None`: that was done. A shim that takes no
    /// request has ended, or another one takes over and is asked again.
    async fn stop(&self, control: &Control, kind: StopKind) -> Option<Instant> {
        let _ = control.stopping(kind).await;
        if kind == StopKind::Forced {
            let _ = control.kill_tree().await;
            return None;
        }
        let _ = control.signal(Target::Tree, Signal::SIGTERM).await;
        Some(Instant::now() + self.world.settings.launch.stop_grace)
    }

    /// Kills whatever is left of it. Returns how it ended, as far as that is known. Tries until that has
    /// worked.
    async fn sweep(&self) -> ExitRecord {
        let (dir, shims) = (self.dir(), &self.world.shims);
        let what = format!("{}: sweeping a script's process", dir.display());
        until_done(what, || shims.sweep(&dir, LOST)).await.record
    }

    /// Writes its end into the log and its row, and decides what the end means.
    async fn ended(
        &self,
        log: &OnceCell<Arc<AttemptLog>>,
        exit: &ExitRecord,
    ) -> Result<ScriptEnd, String> {
        let (status, how) = match exit {
            ExitRecord { stopped: Some(_), .. } => {
                let by = match self.run_reason {
                    RunReason::SetupScript => "stopped by stop_attempt",
                    _ => "it was stopped",
                };
                (ProcessStatus::Killed, by.to_owned())
            }
            ExitRecord { limit: Some(limit), .. } => (ProcessStatus::Failed, limit.clone()),
            ExitRecord { exit_code: Some(0), .. } => (ProcessStatus::Completed, String::new()),
            ExitRecord { exit_code: Some(code), .. } => {
                (ProcessStatus::Failed, format!("exit code {code}"))
            }
            ExitRecord { exit_signal: Some(signal), .. } => {
                (ProcessStatus::Failed, format!("killed by signal {signal}"))
            }
            ExitRecord { reason, .. } => {
                (ProcessStatus::Failed, reason.clone().unwrap_or_else(|| LOST.to_owned()))
            }
        };
        self.finish(log, exit, status, &how).await;
        let reason = match status {
            ProcessStatus::Completed => None,
            _ => Some(self.with_last_lines(&how).await),
        };
        self.record(status, Some(exit), reason.clone(), None).await?;
        Ok(reason.map_or(ScriptEnd::Well, ScriptEnd::Failed))
    }

    /// Why it failed, with the last lines of its output.
    async fn with_last_lines(&self, how: &str) -> String {
        let dir = self.dir();
        let text = blocking(move || tail(&dir, LAST_BYTES)).await.unwrap_or_default().text;
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join(" | ");
        if last.is_empty() { how.to_owned() } else { format!("{how}; its last lines: {last}") }
    }

    /// Writes its row, or what has become of it. `Err` is a sentence: the store refuses it for good.
    pub async fn record(
        &self,
        status: ProcessStatus,
        exit: Option<&ExitRecord>,
        failure_summary: Option<String>,
        sandbox: Option<Receipt>,
    ) -> Result<(), String> {
        let row = ScriptRow {
            process_id: self.process_id,
            run_reason: self.run_reason,
            command: self.command.to_string(),
            status,
            exit_code: exit.and_then(|exit| exit.exit_code),
            exit_signal: exit.and_then(|exit| exit.exit_signal),
            failure_summary,
            ended_at: exit.map(|exit| exit.at),
            sandbox,
        };
        let what = format!("attempt {}: recording a script", self.attempt.attempt_id);
        let recorded =
            while_store_fails(what, || self.world.journal.record_script(self.attempt, &row));
        recorded.await.map_err(|refusal| refusal.message)
    }

    /// Makes its folder, and begins its part of the log.
    async fn begin(&self, log: &Arc<AttemptLog>) -> Result<(), LogError> {
        let (log, process, turn) = (Arc::clone(log), self.process_id, self.attempt.process.turn);
        let text = self.command.to_string();
        let (command, run_reason) = (vec![text.clone()], self.run_reason);
        let start = Event::ProcessStart { text, command, run_reason };
        let dir = self.dir();
        blocking(move || {
            DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
            records::write_durably(&dir, FILE, &json!({"run_reason": run_reason}))?;
            log.begin(process, turn, Box::new(PlainLines), vec![(Timestamp::now(), start)])
        })
        .await
    }

    /// Adds an entry to its part of the log. Best effort: the text is on record elsewhere too.
    pub async fn note(&self, log: &OnceCell<Arc<AttemptLog>>, text: String) {
        let (process, turn) = (self.process_id, self.attempt.process.turn);
        let noted = async {
            let log = Arc::clone(self.log(log).await?);
            let event = Event::SystemMessage { text };
            blocking(move || log.append(process, turn, Timestamp::now(), event)).await
        };
        if let Err(error) = noted.await {
            tracing::warn!(%process, %error, "a note about a script can't be logged");
        }
    }

    /// Reads what it has written into the log. Best effort: the end reads it in any case.
    async fn pump(&self, log: &OnceCell<Arc<AttemptLog>>) {
        let process = self.process_id;
        let taken = async {
            let log = Arc::clone(self.log(log).await?);
            blocking(move || {
                while log.pump(process)? {}
                Ok::<_, LogError>(())
            })
            .await
        };
        if let Err(error) = taken.await {
            tracing::warn!(%process, %error, "a script's output can't be read into the log yet");
        }
    }

    /// Reads the rest of its output and writes the closing entry. Tries while a fault of the disk may pass.
    async fn finish(
        &self,
        log: &OnceCell<Arc<AttemptLog>>,
        exit: &ExitRecord,
        status: ProcessStatus,
        how: &str,
    ) {
        let what = format!("process {}: writing the end of its log", self.process_id);
        until_done(what, || async {
            let (process, exit) = (self.process_id, exit.clone());
            let text = if how.is_empty() { "exit code 0".to_owned() } else { how.to_owned() };
            let finished = async {
                let log = Arc::clone(self.log(log).await?);
                blocking(move || {
                    let (at, lengths) = (exit.at, (exit.stdout_bytes, exit.stderr_bytes));
                    let (exit_code, exit_signal) = (exit.exit_code, exit.exit_signal);
                    let end = Event::ProcessEnd { text, exit_code, exit_signal, status };
                    log.finish(process, lengths, at, || vec![(at, end)])
                })
                .await
            };
            match finished.await {
                // Only a fault of the disk may pass; all else would fail again.
                Err(LogError::Io(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
                Err(error) => {
                    tracing::error!(%error, "the end of a script's log can't be written");
                    Ok(())
                }
                Ok(()) => Ok(()),
            }
        })
        .await;
    }
}
