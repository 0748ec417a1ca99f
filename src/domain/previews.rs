//! The dev servers ("previews") of attempts: the gateway starts and ends them, this file waits for the
//! result.

use std::time::Duration;

use provost_actors::attempt::provision::preview::{Preview, PreviewState};
use provost_actors::gateway;
use provost_actors::ids::AttemptId;
use tokio::time::timeout;

use super::{Domain, blocking};
use crate::api::Refusal;
use crate::api::commands::{PreviewParams, PreviewedAttempt};

/// How long a call waits until a server answers, or has ended.
const WAIT: Duration = Duration::from_secs(30);
/// How often a start is tried while an earlier dev server of the attempt ends.
const TRIES: usize = 3;

impl Domain {
    /// Starts an attempt's dev server and waits until it answers or fails, or ends it. After [`WAIT`],
    /// the state is returned as it is. `preview` is `None` if the attempt never had one.
    pub(super) async fn preview(&self, wish: PreviewParams) -> Result<PreviewedAttempt, Refusal> {
        let PreviewParams { attempt_id, repo, stop } = wish;
        let mut last = None;
        for _ in 0..TRIES {
            let (gateway, world, repo) = (&self.gateway, &self.world, repo.clone());
            let mut seen = gateway::preview(gateway, world, attempt_id, repo, stop).await?;
            let is_there = |it: &Preview| match it.state {
                PreviewState::Starting | PreviewState::Stopping => false,
                PreviewState::Ready => !stop,
                PreviewState::Stopped | PreviewState::Failed => true,
            };
            // A timeout, or the end of the task that watches it: the last known state is shown.
            let _ = timeout(WAIT, seen.wait_for(is_there)).await;
            let preview = seen.borrow().clone();
            let was_ending = !stop && preview.state == PreviewState::Stopped;
            // The state of a preview that never existed has an empty repository.
            let preview = Some(preview).filter(|it| !it.repo.is_empty());
            last = Some(PreviewedAttempt { attempt_id, preview });
            if !was_ending {
                break;
            }
        }
        last.ok_or_else(|| Refusal::internal("no preview was asked for".to_owned()))
    }

    /// The latest dev server of an attempt, from its file. `None`: there was none, or the file can't be
    /// read.
    pub(super) async fn previewed(&self, attempt: AttemptId) -> Option<Preview> {
        let dir = self.world.settings.attempt_dir(attempt);
        if !Preview::is_kept(&dir) {
            return None;
        }
        blocking(move || Preview::read(&dir)).await.ok()?.ok()?
    }
}
