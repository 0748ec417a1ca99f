//! What a collection of an attempt's worktrees is asked and what it answers. Data only.

use std::path::PathBuf;

use ractor::RpcReplyPort;
use serde::Serialize;

use crate::refusal::Refusal;

/// The port of a caller; `None`: there is nothing to collect.
pub type CollectPort = RpcReplyPort<Result<Option<Collection>, Refusal>>;

/// How worktrees are to be collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collect {
    /// Only reports what would happen.
    pub is_dry: bool,
    /// First saves what would be lost, under a reference.
    pub snapshot: bool,
}

/// The result for an attempt's worktrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectVerdict {
    /// They would be collected.
    Collectable,
    Collected,
    Kept,
}

/// How a collection went, or would go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Collection {
    pub verdict: CollectVerdict,
    /// Why they are kept, or what had to be saved first.
    pub reason: Option<String>,
    /// The folder of all its worktrees.
    pub folder: PathBuf,
    /// Files and folders in them that git ignores.
    pub ignored: usize,
    /// Where the work that would have been lost is saved.
    pub snapshots: Vec<Saved>,
}

/// What was saved of a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Saved {
    /// The repository.
    pub repo: String,
    pub reference: String,
    pub commit: String,
}

/// What an examination of the worktrees found.
pub enum Examined {
    /// They are gone, and git has no registration of them.
    Nothing,
    /// They are gone; git still has a registration of them.
    Registered,
    Collection(Collection),
}
