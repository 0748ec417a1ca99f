//! The records of what worktrees are provided with: scripts' processes, ports, and trust.

use async_trait::async_trait;

use crate::event::{ProcessStatus, RunReason, Timestamp};
use crate::ids::{AttemptId, ProcessId};
use crate::refusal::Refusal;
use crate::sandbox::Receipt;

use super::Attempt;

/// How many ports an attempt gets, one after the other.
pub const PORTS_IN_BLOCK: u16 = 10;

/// The process of a script, for the attempt's record. Its owner finds it by the attempt's folder.
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
    /// What holds it; `None`: it has no box, or has not begun.
    pub sandbox: Option<Receipt>,
}

#[async_trait]
pub trait Provisions {
    /// Writes the row of a script's process in the attempt's turn, or what has become of it.
    async fn record_script(&self, attempt: &Attempt, script: &ScriptRow) -> Result<(), Refusal>;

    /// Gives an attempt a block of [`PORTS_IN_BLOCK`] ports, by its first port: the block that it
    /// has, or the first of `blocks` that no attempt has. Those in `busy` are passed over. `None`:
    /// no block is left.
    async fn take_ports(
        &self,
        attempt: AttemptId,
        blocks: &[u16],
        busy: &[u16],
    ) -> Result<Option<u16>, Refusal>;

    async fn give_back_ports(&self, attempt: AttemptId) -> Result<(), Refusal>;

    /// The processes of this host's dev servers whose end is not on record.
    async fn open_dev_servers(&self) -> Result<Vec<(AttemptId, ProcessId)>, Refusal>;

    /// This host's attempts that have ports.
    async fn port_holders(&self) -> Result<Vec<AttemptId>, Refusal>;

    /// Whether a person has approved the commands with this hash for a repository, by its path.
    async fn is_trusted(&self, repo: &str, hash: &str) -> Result<bool, Refusal>;

    /// Waits until that may have changed, by what other daemons have written too.
    async fn trust_news(&self);
}
