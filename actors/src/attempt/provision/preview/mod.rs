//! The dev server of an attempt: a process of its own beside the turns. A stop of a turn, the next
//! turn and the next daemon leave it alone. It ends when a caller asks for that, with the worktrees, or
//! before a turn with a stricter sandbox.
//!
//! ```text
//!  row in `processes` ─▶ preview.json ─▶ Starting ─ it answers ─▶ Ready ─ a stop ─▶ Stopping ─▶ Stopped
//!                                            └──── its process ends by itself ────────────────▶ Failed
//!  (the next daemon finds it by the row, and continues from the file)
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

/// The file in the attempt's folder: the latest dev server, alive or not.
const FILE: &str = "preview.json";

/// A dev server, as clients see it and as the file has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preview {
    /// The name of its repository; empty until the task has read the file after a restart.
    pub repo: String,
    pub process_id: ProcessId,
    pub state: PreviewState,
    /// Where a person reaches it; `None`: neither a port nor a URL is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Why it has failed, or why it has not begun or is not ready yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreviewState {
    /// It waits for the worktrees, or its process does not answer yet.
    Starting,
    Ready,
    Stopping,
    Stopped,
    Failed,
}

impl PreviewState {
    /// Its process may be alive, or is about to start.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Starting | Self::Ready | Self::Stopping)
    }
}

impl Preview {
    /// Whether the attempt ever had one: its folder has the file.
    pub fn is_kept(dir: &Path) -> bool {
        dir.join(FILE).try_exists().unwrap_or(true)
    }

    /// The latest dev server of an attempt, from its folder; `None`: there was none. Blocking.
    pub fn read(dir: &Path) -> io::Result<Option<Self>> {
        records::read(dir, FILE)
    }

    fn write(&self, dir: &Path) -> io::Result<()> {
        records::write_durably(dir, FILE, self)
    }
}

/// One that is alive, or about to be. If all clones of this are dropped, its process lives on without an
/// owner, and the next owner continues with it.
#[derive(Clone)]
pub struct Previewing {
    words: watch::Sender<SetupWord>,
    /// What clients see. The sender is dropped at its end.
    pub seen: watch::Receiver<Preview>,
    /// The level of its sandbox, set before it starts. `None`: an earlier owner started it, and the
    /// record of its process says.
    pub level: Option<Arc<OnceLock<Level>>>,
}

impl Previewing {
    /// Ends it with all that it started, after the grace of a stop. Returns at once.
    pub fn stop(&self) {
        self.words.send_modify(|word| word.stop = word.stop.max(Some(StopKind::Soft)));
    }

    /// Waits until nothing of it is alive.
    pub async fn ended(self) {
        ended(self.seen).await;
    }
}

/// Waits until a dev server is over, by what clients see of it.
pub async fn ended(mut seen: watch::Receiver<Preview>) {
    // If the sender is gone, the task is over.
    let _ = seen.wait_for(|preview| !preview.state.is_alive()).await;
}
