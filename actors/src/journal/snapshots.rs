//! The snapshots of turns: which one is due, and those that were made.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::event::Timestamp;
use crate::ids::AttemptId;
use crate::refusal::Refusal;

use super::TurnBundle;

/// A turn that has ended, without a snapshot so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct DueSnapshot {
    pub turn: u32,
    pub ended_at: Timestamp,
    /// No later turn has begun, or waits to begin.
    pub is_last: bool,
}

/// What one repository of an attempt had when a turn had ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnSnapshot {
    /// The repository's name in the attempt.
    pub repo: String,
    pub commit_id: String,
    pub tree_id: String,
    /// The merge base with the target branch at that time.
    pub base_id: String,
}

#[async_trait]
pub trait Snapshots {
    /// The last turn of an attempt that has ended, if its snapshot is due.
    async fn due_snapshot(&self, attempt: AttemptId) -> Result<Option<DueSnapshot>, Refusal>;

    /// Writes the snapshot of a turn, one row for each repository of the attempt. No rows: it
    /// can't be made any more. The bundles take the place of those of earlier turns. Idempotent.
    async fn record_snapshot(
        &self,
        attempt: AttemptId,
        turn: u32,
        snapshots: &[TurnSnapshot],
        bundles: &[TurnBundle],
    ) -> Result<(), Refusal>;

    /// The turns of an attempt that have snapshots, in their order.
    async fn snapshot_turns(&self, attempt: AttemptId) -> Result<Vec<u32>, Refusal>;

    /// The snapshot of a turn, one for each repository; empty if there is none.
    async fn turn_snapshot(
        &self,
        attempt: AttemptId,
        turn: u32,
    ) -> Result<Vec<TurnSnapshot>, Refusal>;
}
