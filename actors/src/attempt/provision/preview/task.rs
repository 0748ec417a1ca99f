//! Carries out a preview, from wherever an earlier daemon left it to its end.

use std::sync::Arc;

use tokio::sync::{Mutex, watch};

use super::super::script::{Script, ScriptEnd};
use super::super::signals::{SetupSignals, SetupWord};
use super::super::{Provision, RepoProvision};
use super::{Preview, PreviewState, Previewing, Stopper, health};
use crate::attempt::prepare;
use crate::blocking::blocking;
use crate::event::{ProcessStatus, RunReason};
use crate::failpoint;
use crate::ids::ProcessId;
use crate::journal::checks::CheckCommand;
use crate::journal::{Attempt, AttemptRepo};
use crate::process::records::StopKind;
use crate::ready_url::{ReadyUrl, Target};
use crate::world::World;

/// Which preview it is.
pub enum PreviewBegin {
    /// The dev server of a repository, by its name.
    New(String),
    /// The one that a daemon has left, by its process where a row names it.
    Resume(Option<ProcessId>),
}

pub struct PreviewTask {
    pub world: Arc<World>,
    pub attempt: Attempt,
    /// Locked while it is written down: a collection comes before that or after.
    pub worktrees: Arc<Mutex<()>>,
    pub begin: PreviewBegin,
}

/// What is run, and where it answers.
struct Server {
    repo: AttemptRepo,
    provision: Provision,
    command: CheckCommand,
    target: Option<Target>,
}

impl PreviewTask {
    /// `then` follows its end, before the end is seen.
    pub fn spawn(self, then: impl FnOnce() + Send + 'static) -> Previewing {
        let (words, signals) = watch::channel(SetupWord::default());
        let (repo, process_id) = match &self.begin {
            PreviewBegin::New(repo) => (repo.clone(), ProcessId::new()),
            PreviewBegin::Resume(process) => {
                (String::new(), process.unwrap_or_else(ProcessId::new))
            }
        };
        let state = PreviewState::Starting;
        let (shown, seen) =
            watch::channel(Preview { repo, process_id, state, url: None, reason: None });
        tokio::spawn(async move {
            let last = self.run(&shown, SetupSignals(signals)).await;
            then();
            shown.send_replace(last);
        });
        Previewing { words: Stopper(words), seen }
    }

    async fn run(&self, shown: &watch::Sender<Preview>, signals: SetupSignals) -> Preview {
        let mut preview = shown.borrow().clone();
        let begun = {
            let _lock = self.worktrees.lock().await;
            self.begun(&mut preview).await
        };
        let ended = match begun {
            Ok(Some(server)) => self.serve(&server, &mut preview, shown, &signals).await,
            // It has ended before.
            Ok(None) => return preview,
            Err(reason) => Ok(ScriptEnd::Failed(reason)),
        };
        let was_stopped = preview.state == PreviewState::Stopping || signals.stop().is_some();
        (preview.state, preview.reason) = match ended {
            Ok(ScriptEnd::Abandoned) => return preview,
            Ok(ScriptEnd::Well | ScriptEnd::Failed(_)) if was_stopped => {
                (PreviewState::Stopped, None)
            }
            Ok(ScriptEnd::Well) => {
                (PreviewState::Failed, Some("it ended by itself with exit code 0".to_owned()))
            }
            Ok(ScriptEnd::Failed(why)) | Err(why) => (PreviewState::Failed, Some(why)),
        };
        self.keep(&preview).await;
        preview
    }

    /// Writes it down, or reads what is written. `None`: nothing is left to do.
    async fn begun(&self, preview: &mut Preview) -> Result<Option<Server>, String> {
        let (world, attempt) = (&*self.world, &self.attempt);
        let dir = world.settings.attempt_dir(attempt.attempt_id);
        let found = blocking(move || Preview::read(&dir)).await;
        let found = found.map_err(|error| error.to_string())?;
        if let PreviewBegin::Resume(process) = &self.begin {
            match found.filter(|found| process.is_none_or(|id| id == found.process_id)) {
                Some(found) => *preview = found,
                None if process.is_none() => preview.state = PreviewState::Stopped,
                // Its row was written, and nothing else.
                None => {
                    preview.repo =
                        attempt.repos.first().map(|it| it.name.clone()).unwrap_or_default();
                    preview.state = PreviewState::Stopping;
                }
            }
            if !preview.state.is_alive() {
                return Ok(None);
            }
        }
        let is_made = prepare::has_worktrees(world, attempt.attempt_id).await;
        if !is_made.map_err(|error| error.to_string())? {
            return Err("the attempt has no worktrees now: a follow-up makes them".to_owned());
        }
        prepare::real_worktrees(world, attempt).await?;
        let provision = Provision::of(world, attempt).await?;
        let repo = attempt.repos.iter().find(|repo| repo.name == preview.repo);
        let provided = provision.repos.get(&preview.repo);
        let (Some(repo), Some((command, target))) =
            (repo, provided.and_then(|it| it.served(&provision)))
        else {
            return Err("no dev server is configured for it (dev_server.run)".to_owned());
        };
        preview.url = target.as_ref().map(Target::url);
        let server = Server { repo: repo.clone(), provision, command, target };
        if matches!(self.begin, PreviewBegin::New(_)) {
            let (_words, signals) = watch::channel(SetupWord::default());
            let signals = SetupSignals(signals);
            let script = self.script(&server, preview.process_id, &signals);
            script.record(ProcessStatus::Running, None, None).await?;
            failpoint::hit("preview", "recorded");
            self.keep(preview).await;
            failpoint::hit("preview", "next");
        }
        Ok(Some(server))
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

    /// Until its process has ended.
    async fn serve(
        &self,
        server: &Server,
        preview: &mut Preview,
        shown: &watch::Sender<Preview>,
        signals: &SetupSignals,
    ) -> Result<ScriptEnd, String> {
        let was_stopping = preview.state == PreviewState::Stopping;
        let stopped = SetupWord { stop: Some(StopKind::Soft), ..SetupWord::default() };
        let (_words, again) = watch::channel(stopped);
        let heard = if was_stopping { SetupSignals(again) } else { signals.clone() };
        let script = self.script(server, preview.process_id, &heard);
        let serving = script.run();
        tokio::pin!(serving);
        shown.send_replace(preview.clone());
        loop {
            let ready = async {
                if let Some(target) = &server.target {
                    health::ready(target).await;
                }
            };
            tokio::select! {
                ended = &mut serving => return ended,
                () = ready, if preview.state == PreviewState::Starting => {
                    preview.state = PreviewState::Ready;
                }
                stop = signals.stop_beyond(None), if preview.state != PreviewState::Stopping => {
                    if stop.is_none() {
                        // Its owner is gone, and the process lives on.
                        return serving.await;
                    }
                    preview.state = PreviewState::Stopping;
                }
            }
            self.keep(preview).await;
            shown.send_replace(preview.clone());
        }
    }

    async fn keep(&self, preview: &Preview) {
        let dir = self.world.settings.attempt_dir(self.attempt.attempt_id);
        let kept = preview.clone();
        if let Err(error) = blocking(move || kept.write(&dir)).await {
            let attempt = self.attempt.attempt_id;
            tracing::warn!(%attempt, %error, "the state of a dev server is not on file");
        }
    }
}

impl RepoProvision {
    /// What is run as its dev server, and where that answers.
    fn served(&self, provision: &Provision) -> Option<(CheckCommand, Option<Target>)> {
        let settings = &self.settings.dev_server;
        let command = settings.run.as_ref()?.value.clone();
        let port = settings.port.as_ref().and_then(|name| provision.ports.get(&name.value));
        let ready = settings.ready.as_ref().and_then(|url| ReadyUrl::parse(&url.value));
        let target = ready.and_then(|url| url.target(&provision.ports));
        Some((command, target.or_else(|| port.map(|port| Target::of_port(*port)))))
    }
}
