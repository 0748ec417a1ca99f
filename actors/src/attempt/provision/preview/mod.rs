//! The dev server of an attempt: a process of its own beside the turns. A stop of a turn, the next
//! turn and the next daemon leave it alone. It ends when it is asked to, and with the worktrees.
//!
//! ```text
//!  row in `processes` ─▶ preview.json ─▶ process ─▶ ready ─▶ (stopping) ─▶ stopped or failed
//!  (the next daemon finds it by the row, and goes on from the file)
//! ```

mod health;
mod server;
mod task;

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::signals::SetupWord;
use crate::ids::ProcessId;
use crate::process::records::{self, StopKind};
use crate::sandbox::Level;
pub use server::Server;
pub use task::PreviewTask;

/// In the attempt's folder.
const FILE: &str = "preview.json";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preview {
    /// The repository whose dev server it is.
    pub repo: String,
    pub process_id: ProcessId,
    pub state: PreviewState,
    /// Where it is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Why it has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreviewState {
    /// It does not answer yet.
    Starting,
    Ready,
    Stopping,
    Stopped,
    Failed,
}

impl PreviewState {
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Starting | Self::Ready | Self::Stopping)
    }
}

impl Preview {
    /// Whether there ever was one.
    pub fn is_kept(dir: &Path) -> bool {
        dir.join(FILE).try_exists().unwrap_or(true)
    }

    /// The latest one of an attempt, from its folder. Blocking.
    pub fn read(dir: &Path) -> io::Result<Option<Self>> {
        records::read(dir, FILE)
    }

    fn write(&self, dir: &Path) -> io::Result<()> {
        records::write_durably(dir, FILE, self)
    }
}

/// One that is alive, or about to be. If all copies of this are dropped, its process goes on
/// without an owner.
#[derive(Clone)]
pub struct Previewing {
    words: watch::Sender<SetupWord>,
    pub seen: watch::Receiver<Preview>,
    /// The level of its box, once it begins; `None`: an earlier owner began it, and its process's
    /// record says.
    pub level: Option<Arc<OnceLock<Level>>>,
}

impl Previewing {
    /// Ends it with all that it started.
    pub fn stop(&self) {
        self.words.send_modify(|word| word.stop = word.stop.max(Some(StopKind::Soft)));
    }

    /// Waits until it has ended.
    pub async fn ended(self) {
        ended(self.seen).await;
    }
}

/// Waits until it has ended.
pub async fn ended(mut seen: watch::Receiver<Preview>) {
    // Without a sender its task is over.
    let _ = seen.wait_for(|preview| !preview.state.is_alive()).await;
}
