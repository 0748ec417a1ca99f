//! Carries out a dev server, from wherever an earlier daemon left it to its end.
//!
//! ```text
//!  Start ──▶ lock the worktrees ─▶ read the attempt again ─▶ begin: row, file ─▶ unlock ─▶ serve
//!  Resume ─▶ found: the file, by the row's process ────────────────────────────────────▶ serve
//!              └─ the settings are gone ─▶ end_lost
//!  Stop ───▶ as Resume, for a server that only the file knows; none: Stopped
//! ```

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use super::super::Provision;
use super::super::ports;
use super::super::script::{Script, ScriptEnd};
use super::super::signals::{SetupSignals, SetupWord};
use super::{Preview, PreviewState, Previewing, Server, health};
use crate::attempt::{PreviewAsk, sandbox_plan};
use crate::blocking::blocking;
use crate::event::{ProcessStatus, RunReason};
use crate::failpoint;
use crate::ids::ProcessId;
use crate::journal::Attempt;
use crate::journal::checks::CheckCommand;
use crate::process::Marker;
use crate::process::records::StopKind;
use crate::ready_url::Target;
use crate::retry::while_store_fails;
use crate::sandbox::Level;
use crate::task::spawn;
use crate::world::World;

/// How often a port is looked at before it counts as in use, and the pause in between.
const LOOKS: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// What the task is started with.
pub struct PreviewTask {
    pub world: Arc<World>,
    pub attempt: Attempt,
    /// Locked while the server is started, so that a collection comes before that or after. Not while it
    /// runs.
    pub worktrees: Arc<Mutex<()>>,
    pub ask: PreviewAsk,
    /// What clients see while the task waits for the worktrees.
    pub why: &'static str,
}

impl PreviewTask {
    /// Starts the task. `then` is called at its end, before clients see the end: a caller that has seen
    /// the end can start another one.
    pub fn spawn(self, then: impl FnOnce() + Send + 'static) -> Previewing {
        let (words, signals) = watch::channel(SetupWord::default());
        let (repo, process_id) = match &self.ask {
            PreviewAsk::Start(repo) => (repo.clone(), ProcessId::new()),
            PreviewAsk::Stop => (String::new(), ProcessId::new()),
            PreviewAsk::Resume(process) => (String::new(), *process),
        };
        let state = PreviewState::Starting;
        let (shown, seen) =
            watch::channel(Preview { repo, process_id, state, url: None, reason: None });
        let level = Arc::new(OnceLock::new());
        let is_new = matches!(self.ask, PreviewAsk::Start(_));
        let published = is_new.then(|| Arc::clone(&level));
        spawn(async move {
            let last = self.run(&shown, SetupSignals(signals), &level).await;
            then();
            shown.send_replace(last);
        });
        Previewing { words, seen, level: published }
    }

    /// All of it. Returns what clients see last.
    async fn run(
        mut self,
        shown: &watch::Sender<Preview>,
        signals: SetupSignals,
        level: &OnceLock<Level>,
    ) -> Preview {
        let mut preview = shown.borrow().clone();
        let begun = match &self.ask {
            PreviewAsk::Start(_) => {
                let Some(_lock) = self.lock(&preview, shown, &signals).await else {
                    preview.state = PreviewState::Stopped;
                    return preview;
                };
                let begun = match self.renew(level).await {
                    Ok(()) => self.begin(&mut preview).await,
                    Err(why) => Err(why),
                };
                match begun {
                    Ok(server) => Ok(server),
                    Err(why) => {
                        (preview.state, preview.reason) = (PreviewState::Failed, Some(why));
                        self.keep(&preview).await;
                        return preview;
                    }
                }
            }
            PreviewAsk::Stop | PreviewAsk::Resume(_) => match self.found(&mut preview).await {
                Some(found) => found,
                // It has ended before.
                None => return preview,
            },
        };
        let (ended, lost) = match begun {
            Ok(server) => (self.serve(&server, &mut preview, shown, &signals).await, None),
            Err(why) => (self.end_lost(&preview).await, Some(why)),
        };
        let was_stopped = preview.state == PreviewState::Stopping || signals.stop().is_some();
        (preview.state, preview.reason) = match (ended, lost) {
            (Ok(ScriptEnd::Abandoned), _) => return preview,
            (Ok(_), _) if was_stopped => (PreviewState::Stopped, None),
            (_, Some(why)) | (Ok(ScriptEnd::Failed(why)) | Err(why), None) => {
                (PreviewState::Failed, Some(why))
            }
            (Ok(ScriptEnd::Well), None) => {
                (PreviewState::Failed, Some("it ended by itself with exit code 0".to_owned()))
            }
        };
        self.keep(&preview).await;
        preview
    }

    /// Waits for the worktrees, and shows clients why meanwhile. `None`: it was stopped before it began.
    async fn lock(
        &self,
        preview: &Preview,
        shown: &watch::Sender<Preview>,
        signals: &SetupSignals,
    ) -> Option<OwnedMutexGuard<()>> {
        let worktrees = Arc::clone(&self.worktrees);
        if let Ok(lock) = Arc::clone(&worktrees).try_lock_owned() {
            return Some(lock);
        }
        shown.send_replace(Preview { reason: Some(self.why.to_owned()), ..preview.clone() });
        tokio::select! {
            lock = worktrees.lock_owned() => Some(lock),
            // Whoever has the worktrees may wait for the end of this: a collection does.
            _ = signals.stop_beyond(None) => None,
        }
    }

    /// Reads the attempt again, and publishes the sandbox level that the server will have. A turn that began
    /// meanwhile may have a stricter sandbox, which counts for the server too. A turn that begins later finds
    /// this level, and has the server ended if its own is stricter.
    async fn renew(&mut self, level: &OnceLock<Level>) -> Result<(), String> {
        let id = self.attempt.attempt_id;
        let what = format!("attempt {id}: reading it for its dev server");
        let journal = &self.world.journal;
        let read = while_store_fails(what, || journal.attempt(id)).await.map_err(|refusal| {
            format!("which sandbox it is to have can't be read: {}", refusal.message)
        });
        self.attempt = read?.ok_or_else(|| format!("attempt {id} is gone"))?;
        let executor = self.world.executors.get(&self.attempt.executor);
        let wanted = executor.map(|executor| sandbox_plan::strictest(&*executor, &self.attempt));
        level.get_or_init(|| wanted.map(|wanted| wanted.level).unwrap_or_default());
        Ok(())
    }

    /// Writes a server that is to run down: first its row, by which the next daemon finds it, then the file.
    async fn begin(&self, preview: &mut Preview) -> Result<Server, String> {
        let server = Server::startable(&self.world, &self.attempt, Some(&preview.repo)).await;
        let server = server.map_err(|refusal| refusal.message)?;
        if let Some(target) = &server.target {
            refuse_taken(target.port).await?;
        }
        preview.url = server.target.as_ref().map(Target::url);
        let signals = SetupSignals::stopped(StopKind::Soft);
        let script = self.script(&server, preview.process_id, &signals);
        script.record(ProcessStatus::Running, None, None, None).await?;
        failpoint::hit("preview", "recorded");
        self.keep(preview).await;
        failpoint::hit("preview", "next");
        Ok(server)
    }

    /// Reads the server that an earlier owner left. `None`: nothing is left to be done. `Err` is a
    /// sentence: its settings are gone, so it can only be ended.
    async fn found(&self, preview: &mut Preview) -> Option<Result<Server, String>> {
        let dir = self.world.settings.attempt_dir(self.attempt.attempt_id);
        let found = blocking(move || Preview::read(&dir)).await.unwrap_or_else(|error| {
            tracing::warn!(attempt = %self.attempt.attempt_id, %error, "preview.json can't be read");
            None
        });
        let is_open = matches!(self.ask, PreviewAsk::Resume(_));
        match found.filter(|found| !is_open || found.process_id == preview.process_id) {
            Some(found) => *preview = found,
            // Its row was written, and nothing else.
            None if is_open => preview.state = PreviewState::Stopping,
            None => preview.state = PreviewState::Stopped,
        }
        if !preview.state.is_alive() {
            if !is_open {
                return None;
            }
            // The file has its end, but its row does not: the row still has to be written.
            preview.state = PreviewState::Stopping;
        }
        let provision = Provision::of(&self.world, &self.attempt).await;
        Some(provision.and_then(|provision| {
            let server = Server::of(provision, &self.attempt, Some(&preview.repo));
            server.map_err(|refusal| refusal.message)
        }))
    }

    fn script<'a>(
        &'a self,
        server: &'a Server,
        process_id: ProcessId,
        signals: &'a SetupSignals,
    ) -> Script<'a> {
        Script {
            world: &self.world,
            attempt: &self.attempt,
            repo: &server.repo,
            process_id,
            run_reason: RunReason::DevServer,
            command: &server.command,
            // No limit.
            timeout_secs: 0,
            provision: &server.provision,
            signals,
        }
    }

    /// Ends what may be alive of a server that has no settings any more, and records its end.
    async fn end_lost(&self, preview: &Preview) -> Result<ScriptEnd, String> {
        let Some(repo) = self.attempt.repos.first().cloned() else {
            return Ok(ScriptEnd::Abandoned);
        };
        // This command is never run: the process exists already, or its start is stopped before.
        let command = CheckCommand::Line("exit 1".to_owned());
        let server = Server { repo, command, target: None, provision: Provision::default() };
        let signals = SetupSignals::stopped(StopKind::Soft);
        self.script(&server, preview.process_id, &signals).run().await
    }

    /// Runs its process to the end, and shows meanwhile whether it answers and whether it is stopped.
    async fn serve(
        &self,
        server: &Server,
        preview: &mut Preview,
        shown: &watch::Sender<Preview>,
        signals: &SetupSignals,
    ) -> Result<ScriptEnd, String> {
        let was_stopping = preview.state == PreviewState::Stopping;
        let stopped = SetupSignals::stopped(StopKind::Soft);
        let script =
            self.script(server, preview.process_id, if was_stopping { &stopped } else { signals });
        let marker = Marker { attempt: self.attempt.attempt_id, process: preview.process_id };
        let serving = script.run();
        tokio::pin!(serving);
        shown.send_replace(preview.clone());
        loop {
            let seen = preview.reason.clone();
            let answered = async {
                match &server.target {
                    Some(target) => health::answered(target, marker, seen.as_deref()).await,
                    None => None,
                }
            };
            tokio::select! {
                ended = &mut serving => return ended,
                foreign = answered, if preview.state == PreviewState::Starting => {
                    if foreign.is_none() {
                        preview.state = PreviewState::Ready;
                    }
                    preview.reason = foreign;
                }
                stop = signals.stop_beyond(None), if preview.state != PreviewState::Stopping => {
                    if stop.is_none() {
                        // Its owner is gone; the process lives on, and `run` returns when it is abandoned.
                        return serving.await;
                    }
                    (preview.state, preview.reason) = (PreviewState::Stopping, None);
                }
            }
            self.keep(preview).await;
            shown.send_replace(preview.clone());
        }
    }

    /// Writes the file. Best effort: the row says whether the server is open.
    async fn keep(&self, preview: &Preview) {
        let dir = self.world.settings.attempt_dir(self.attempt.attempt_id);
        let kept = preview.clone();
        if let Err(error) = blocking(move || kept.write(&dir)).await {
            let attempt = self.attempt.attempt_id;
            tracing::warn!(%attempt, %error, "the state of a dev server is not on file");
        }
    }
}

/// `Err` is a sentence that says which process uses the port. A process that this daemon is starting has
/// copies of the sockets by which ports were tried, until its exec closes them: so a port in use is looked at
/// again before it is refused.
async fn refuse_taken(port: u16) -> Result<(), String> {
    let mut looks = LOOKS;
    loop {
        let looked = tokio::task::spawn_blocking(move || ports::refuse_taken(port)).await;
        looks -= 1;
        match looked.map_err(|panic| panic.to_string())? {
            Err(_) if looks > 0 => tokio::time::sleep(BETWEEN_LOOKS).await,
            looked => return looked,
        }
    }
}
