//! The snapshots of turns: which one is due, and those that were made.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::event::Timestamp;
use crate::ids::AttemptId;
use crate::plain;
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
    #[serde(deserialize_with = "plain::name")]
    pub repo: String,
    #[serde(deserialize_with = "plain::object")]
    pub commit_id: String,
    #[serde(deserialize_with = "plain::object")]
    pub tree_id: String,
    /// The merge base with the target branch at that time.
    #[serde(deserialize_with = "plain::object")]
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

    /// Writes why the snapshot of a turn that is due can't be made now. It stays due.
    async fn snapshot_failed(
        &self,
        attempt: AttemptId,
        turn: u32,
        reason: &str,
    ) -> Result<(), Refusal>;

    /// Waits until the snapshot of its last turn that has ended stands, can't be made, or `patience` is
    /// over. The reason if it can't be made.
    async fn snapshot_stands(
        &self,
        attempt: AttemptId,
        patience: Duration,
    ) -> Result<Option<String>, Refusal>;

    /// The turns of an attempt that have snapshots, in their order.
    async fn snapshot_turns(&self, attempt: AttemptId) -> Result<Vec<u32>, Refusal>;

    /// The snapshot of a turn, one for each repository; empty if there is none.
    async fn turn_snapshot(
        &self,
        attempt: AttemptId,
        turn: u32,
    ) -> Result<Vec<TurnSnapshot>, Refusal>;
}
