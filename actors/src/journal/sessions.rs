//! The records of sessions: the follow-ups that wait, and the turns that have ended.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::event::{ProcessStatus, Timestamp};
use crate::ids::{AttemptId, ProcessId, QueueId, SessionId};
use crate::refusal::Refusal;

use super::{Attempt, Key, Once, Phase, Process, State};

/// A prompt for a session, and what it is to be run with.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct FollowUp {
    pub queue_id: QueueId,
    pub prompt: String,
    /// `None`: the variant of the turn before.
    pub variant: Option<String>,
    pub queued_at: Timestamp,
}

/// A turn that has ended, for an agent that does not remember it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Past {
    pub turn: u32,
    /// At most 8,000 characters of it.
    pub prompt: String,
    /// At most 8,000 characters of it.
    pub final_message: Option<String>,
    pub status: ProcessStatus,
}

/// What `follow_up` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FollowUpAction {
    Send,
    Queue,
    Cancel,
}

/// What `follow_up` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowedUp {
    pub action: FollowUpAction,
    pub attempt_id: AttemptId,
    pub session_id: SessionId,
    /// The process that runs the prompt, if the call began its turn.
    pub execution_process_id: Option<ProcessId>,
    pub held: bool,
    /// How many wait.
    pub length: usize,
    /// The first of those that wait, their prompts cut.
    pub waiting: Vec<Waiting>,
}

/// A follow-up that waits, as callers see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub queue_id: QueueId,
    pub prompt: String,
    pub queued_at: Timestamp,
}

/// What a step of a session's queue changes: written at once, or not at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turnover {
    pub added: Option<FollowUp>,
    pub taken: Vec<QueueId>,
    pub held: bool,
    /// The turn that begins by it: a planned process, which also begins the
    /// attempt's next epoch.
    pub begun: Option<Next>,
}

/// A turn that begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    pub process: Process,
    /// It has a running slot; else it waits for one.
    pub has_slot: bool,
}

impl Next {
    /// How the attempt stands once the turn has begun.
    #[must_use]
    pub fn standing(&self) -> (Phase, State) {
        if self.has_slot {
            (Phase::Preparing, State::Running)
        } else {
            (Phase::Queued, State::Idle)
        }
    }
}

/// The queues and the past of sessions.
#[async_trait]
pub trait Sessions {
    /// Writes what a follow-up changes, and the answer, if the attempt's row is still of
    /// this epoch and its task is on the board.
    async fn record_follow_up(
        &self,
        key: Option<&Key>,
        attempt: &Attempt,
        turnover: &Turnover,
        answer: &FollowedUp,
    ) -> Result<Once<FollowedUp>, Refusal>;

    /// The turns of an attempt that had ended before this process was planned, oldest
    /// first: the first one, and the last of the others, 100 at most.
    async fn past(&self, attempt: AttemptId, before: ProcessId) -> Result<Vec<Past>, Refusal>;
}
