//! The snapshots of turns: which one is due, and which ones exist.
//!
//! ```text
//!  turn ends ─▶ due ─record_snapshot────────────▶ made, or (without rows) given up
//!                └───snapshot_failed, a reason──▶ due: the owner tries again
//! ```

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::event::Timestamp;
use crate::ids::AttemptId;
use crate::plain;
use crate::refusal::Refusal;

use super::TurnBundle;

/// A turn that has ended and has no snapshot yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct DueSnapshot {
    pub turn: u32,
    pub ended_at: Timestamp,
    /// No later turn has begun or waits: the worktree is still as this turn left it.
    pub is_last: bool,
}

/// The files of one repository of an attempt at the end of a turn, as a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnSnapshot {
    /// The repository's name in the attempt.
    #[serde(deserialize_with = "plain::name")]
    pub repo: String,
    #[serde(deserialize_with = "plain::object")]
    pub commit_id: String,
    #[serde(deserialize_with = "plain::object")]
    pub tree_id: String,
    /// The commit since which the work counts: the merge base with the target branch at that time.
    #[serde(deserialize_with = "plain::object")]
    pub base_id: String,
}

/// The rows of snapshots.
#[async_trait]
pub trait Snapshots {
    /// The last turn of an attempt that has ended, if its snapshot is due; `None`: there is no such turn,
    /// or its snapshot is made.
    async fn due_snapshot(&self, attempt: AttemptId) -> Result<Option<DueSnapshot>, Refusal>;

    /// Writes the snapshot of a turn, one row for each repository of the attempt. No rows: it can't be made
    /// any more. The bundles replace those of earlier turns. Idempotent.
    async fn record_snapshot(
        &self,
        attempt: AttemptId,
        turn: u32,
        snapshots: &[TurnSnapshot],
        bundles: &[TurnBundle],
    ) -> Result<(), Refusal>;

    /// Writes why the snapshot of a turn can't be made now. It stays due.
    async fn snapshot_failed(
        &self,
        attempt: AttemptId,
        turn: u32,
        reason: &str,
    ) -> Result<(), Refusal>;

    /// Waits until the snapshot of the last ended turn is made, has failed, or `timeout` is over. Returns
    /// the reason if there is no snapshot.
    async fn snapshot_stands(
        &self,
        attempt: AttemptId,
        timeout: Duration,
    ) -> Result<Option<String>, Refusal>;

    /// The turns of an attempt that have snapshots, in their order.
    async fn snapshot_turns(&self, attempt: AttemptId) -> Result<Vec<u32>, Refusal>;

    /// The snapshot of a turn, one row for each repository; empty if the turn has none.
    async fn turn_snapshot(
        &self,
        attempt: AttemptId,
        turn: u32,
    ) -> Result<Vec<TurnSnapshot>, Refusal>;
}
