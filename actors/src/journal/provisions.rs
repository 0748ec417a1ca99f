//! The records of what worktrees are provided with: the processes of scripts, ports, and a person's trust.

use async_trait::async_trait;

use crate::event::{ProcessStatus, RunReason, Timestamp};
use crate::ids::{AttemptId, ProcessId};
use crate::refusal::Refusal;
use crate::sandbox::Receipt;

use super::Attempt;

/// How many consecutive ports an attempt gets.
pub const PORTS_IN_BLOCK: u16 = 10;

/// The process of a setup or cleanup script or of a dev server, for the attempt's record. Its owner finds
/// the process by the attempt's folder, and not by this row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptRow {
    pub process_id: ProcessId,
    pub run_reason: RunReason,
    pub command: String,
    pub status: ProcessStatus,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    pub failure_summary: Option<String>,
    pub ended_at: Option<Timestamp>,
    /// What its sandbox enforces; `None`: it has none, or has not begun.
    pub sandbox: Option<Receipt>,
}

/// The rows of scripts, ports and trust.
#[async_trait]
pub trait Provisions {
    /// Writes the row of a script's process in the attempt's present turn, or how the process ended.
    async fn record_script(&self, attempt: &Attempt, script: &ScriptRow) -> Result<(), Refusal>;

    /// Gives an attempt a block of [`PORTS_IN_BLOCK`] ports, and returns its first port: the block that the
    /// attempt has, or else the first of `blocks` that no attempt has. Blocks in `busy`, where another
    /// program listens, are left out, also the attempt's own. `None`: no block is left.
    async fn take_ports(
        &self,
        attempt: AttemptId,
        blocks: &[u16],
        busy: &[u16],
    ) -> Result<Option<u16>, Refusal>;

    /// Ends the attempt's hold on its block; without one, nothing.
    async fn give_back_ports(&self, attempt: AttemptId) -> Result<(), Refusal>;

    /// The processes of this host's dev servers whose end is not on record.
    async fn open_dev_servers(&self) -> Result<Vec<(AttemptId, ProcessId)>, Refusal>;

    /// This host's attempts that have ports.
    async fn port_holders(&self) -> Result<Vec<AttemptId>, Refusal>;

    /// Whether a person has approved the commands with this hash for the repository at this path.
    async fn is_trusted(&self, repo: &str, hash: &str) -> Result<bool, Refusal>;

    /// Waits until the answer of [`is_trusted`](Self::is_trusted) may have changed, also by other daemons.
    async fn trust_news(&self);
}
