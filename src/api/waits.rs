//! Waits for several attempts in one call.

use crate::api::prelude::*;

/// The most attempts that one call waits for; the descriptions below contain the number.
pub const ATTEMPTS_MAX: usize = 50;

/// The description of `wait_for_attempts`, by which a model decides whether to call it.
pub const WAIT_FOR_ATTEMPTS: &str = "\
Use when: attempts run and you want to be woken when one ends, or all do, or anything changes.
Optional: until, after, timeout_ms (50000 for long runs).
Next: the same with after from the answer; once settled, tail_session_messages or get_attempt_status.
Avoid: polling get_attempt_status; an after of other attempts, which may miss what those did.";

/// What is waited for.
#[apply(word)]
#[derive(Default)]
pub enum Until {
    #[default]
    AnySettled,
    AllSettled,
    AnyChange,
}

#[apply(input)]
pub struct WaitForAttemptsInput {
    /// 1 to 50 UUIDs from start_task_attempt or list_task_attempts.
    #[schemars(with = "List<Id, 1, ATTEMPTS_MAX>")]
    pub attempt_ids: List<AttemptId, 1, ATTEMPTS_MAX>,
    /// any_settled (default: one of them neither runs nor waits), all_settled, or any_change (of state,
    /// phase, waiting_on, queue, turn or comments; not log lines).
    #[serde(default)]
    pub until: Until,
    /// The `after` of the last answer for the same attempts: no change is missed.
    pub after: Option<Text<1, 64>>,
    /// Longest wait in milliseconds; more than 50000 counts as 50000.
    pub timeout_ms: Limit<30_000, 50_000>,
}

#[apply(output)]
pub struct WaitForAttemptsOutput {
    /// Each attempt once, in the order asked.
    pub attempts: Vec<WaitedAttempt>,
    /// Whether the timeout passed first; the same call with after waits on.
    pub timed_out: bool,
    /// Give it as after in the next call.
    pub after: String,
}

/// A status in short: 50 of them take 19 KiB at most.
#[apply(output)]
pub struct WaitedAttempt {
    pub attempt_id: AttemptId,
    pub state: AttemptState,
    pub phase: AttemptPhase,
    /// As in get_attempt_status.
    #[schemars(with = "Option<String>")]
    pub waiting_on: Option<WaitingOn>,
    /// Whether it changed since after; without after, since the call began.
    pub changed: bool,
    pub latest_execution_process_id: Option<ProcessId>,
    pub exit_code: Option<i32>,
    /// Why it failed, cut short; null unless state is failed.
    pub failure_summary: Option<String>,
    /// A stop ended its last turn. Else left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    pub queued_follow_ups: u32,
    /// A finish is under way. Else left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finishing: bool,
    /// Where its logs end, as in get_attempt_status.
    pub latest_entry_index: LatestEntryIndex,
}

tools! { WaitTools: read wait_for_attempts(WaitForAttemptsInput) -> WaitForAttemptsOutput; }
