//! Further turns of an attempt's session, sent now, queued or cancelled; and the attempt's dev server, which
//! runs beside the turns.

pub use provost_actors::attempt::provision::preview::Preview;
use provost_actors::journal::FollowUpAction;

use crate::api::prelude::*;

/// The description of `follow_up`, by which a model decides whether to call it.
pub const FOLLOW_UP: &str = "\
Use when: an attempt's agent should go on with another prompt, or its dev server should run.
Required: action, exactly one of attempt_id and session_id; prompt for send and queue.
Optional: variant (send, queue), repo (preview), request_id.
Next: wait_for_attempts, then tail_attempt_logs.
Avoid: send while a turn runs (use queue); cancel to end a turn (use stop_attempt).";

/// The actions that carry a prompt.
const OF_A_TURN: &[&str] = &["send", "queue"];

/// Which fields each action of `follow_up` takes and needs, and that it has exactly one target.
pub const FOLLOW_UP_RULES: &[FieldRule] = &[
    FieldRule::Only(&["prompt", "variant"], "action", OF_A_TURN),
    FieldRule::Needs("action", OF_A_TURN, &["prompt"]),
    FieldRule::Only(&["repo"], "action", &["preview"]),
    FieldRule::OneTarget("attempt_id", "session_id"),
];

/// What a follow-up does. The last two concern no turn.
#[apply(word)]
pub enum FollowUpMode {
    Send,
    Queue,
    Cancel,
    Preview,
    EndPreview,
}

impl FollowUpMode {
    /// The action on the session's turns; `None`: it concerns the dev server alone.
    pub fn of_turn(self) -> Option<FollowUpAction> {
        match self {
            Self::Send => Some(FollowUpAction::Send),
            Self::Queue => Some(FollowUpAction::Queue),
            Self::Cancel => Some(FollowUpAction::Cancel),
            Self::Preview | Self::EndPreview => None,
        }
    }
}

impl From<FollowUpAction> for FollowUpMode {
    fn from(action: FollowUpAction) -> Self {
        match action {
            FollowUpAction::Send => Self::Send,
            FollowUpAction::Queue => Self::Queue,
            FollowUpAction::Cancel => Self::Cancel,
        }
    }
}

/// One of the two ids is there, and the prompt if a turn is to run it.
#[apply(input)]
pub struct FollowUpInput {
    /// send: run the prompt now. queue: when the turns before it have ended. cancel: drop all that waits.
    /// preview: start its dev server. end_preview: end it.
    pub action: FollowUpMode,
    /// The attempt to continue, a UUID; this or session_id.
    pub attempt_id: Option<AttemptId>,
    /// The session to continue, a UUID; this or attempt_id.
    pub session_id: Option<SessionId>,
    /// The agent's prompt, 1000000 characters at most; needed for send and queue.
    pub prompt: Option<Text<1, 1_000_000>>,
    /// The executor's variant (list_executors); else the last turn's.
    pub variant: Option<Text<1, 128>>,
    /// Whose dev server, if several repositories have one.
    pub repo: Option<Text<1, 128>>,
}

#[apply(output)]
pub struct FollowUpOutput {
    pub action: FollowUpMode,
    pub attempt_id: AttemptId,
    pub worktree: Worktree,
    pub session_id: SessionId,
    /// The process whose turn this call began, a UUID; null if none.
    pub execution_process_id: Option<ProcessId>,
    /// The queue of the session.
    pub queue: FollowUpQueue,
    /// The dev server, only for preview and end_preview: its repo, process_id, state (starting, ready,
    /// stopping, stopped or failed), url and reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub preview: Option<Preview>,
}

#[apply(output)]
pub struct FollowUpQueue {
    /// started (this call began a turn), else queued (some wait) or empty.
    pub status: QueueStatus,
    /// How many wait.
    pub length: u32,
    /// Whether a stop holds them until the next send or queue.
    pub held: bool,
    /// The first 50 that wait, next one first.
    pub messages: Vec<QueuedMessage>,
}

#[apply(word)]
pub enum QueueStatus {
    Empty,
    Queued,
    Started,
}

#[apply(output)]
pub struct QueuedMessage {
    /// Id of the message, a UUID.
    pub queue_id: QueueId,
    /// Its prompt, cut to 300 characters.
    pub prompt: String,
    /// When it was queued.
    pub queued_at: Timestamp,
}

tools! { FollowUpTools: change follow_up(FollowUpInput) -> FollowUpOutput; }
