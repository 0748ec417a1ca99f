//! Attempts: start, watch and stop the attempts of a task, and find the one that a caller is in.

use provost_actors::event::TokenUsage;
use provost_actors::journal::Phase;
pub use provost_actors::journal::State as AttemptState;
use provost_actors::sandbox::Receipt;

use crate::api::Refusable;
use crate::api::conflicts::ConflictWith;
use crate::api::finish::LastFinish;
use crate::api::prelude::*;

/// What happens to it now.
#[apply(word)]
pub enum AttemptPhase {
    /// Waits for a place among the running ones.
    Queued,
    /// Its worktrees are being made.
    Preparing,
    /// A turn runs.
    Running,
    /// It is being ended.
    Stopping,
    /// A turn waits for an answer: waiting_on says of what kind.
    Waiting,
    /// Nothing has run and nothing is asked.
    Idle,
    /// Something has run; nothing runs now.
    Settled,
}

impl AttemptPhase {
    /// Whether a turn is running or about to run. A turn that waits for an answer does not count.
    pub fn is_busy(self) -> bool {
        matches!(self, Self::Queued | Self::Preparing | Self::Running | Self::Stopping)
    }
}

impl From<Phase> for AttemptPhase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Queued => Self::Queued,
            Phase::Preparing => Self::Preparing,
            Phase::Running => Self::Running,
            Phase::Stopping => Self::Stopping,
            Phase::Idle => Self::Idle,
            Phase::Settled => Self::Settled,
        }
    }
}

/// The description of `start_task_attempt`, by which a model decides whether to call it.
pub const START_TASK_ATTEMPT: &str = "\
Use when: an agent should work on a task, in its own git worktree and branch.
Next: wait_for_attempts with the attempt_id, or with those of several.
Avoid: guessing executor names (list_executors has them); retrying without request_id.";

#[apply(input)]
pub struct StartTaskAttemptInput {
    pub task_id: TaskId,
    /// A name from list_executors.
    pub executor: Text<1, 128>,
    /// A variant of that executor from list_executors; its default if left out.
    pub variant: Option<Text<1, 128>>,
    /// 1 to 50; all of the project's at their default branch if left out.
    pub repos: Option<List<AttemptRepo, 1, 50>>,
    /// The agent's prompt, 1000000 characters at most; the task's title and description if left out.
    pub prompt: Option<Text<1, 1_000_000>>,
    /// Start even though tasks in depends_on are not done.
    pub ignore_dependencies: bool,
    /// Begin from what this attempt (a UUID) had, committed or not, instead of the target branches.
    pub from_attempt_id: Option<AttemptId>,
    /// At the end of this turn; its last if left out.
    pub from_turn: Option<ToTurn>,
}

/// `from_turn` needs `from_attempt_id`.
pub const START_RULES: &[FieldRule] = &[FieldRule::Together(&["from_turn"], &["from_attempt_id"])];

// A repository of an attempt.
#[apply(input)]
pub struct AttemptRepo {
    /// The repository, a UUID from list_repos.
    pub repo_id: RepoId,
    /// Branch to start from; the repository's default if left out.
    pub target_branch: Option<Text<1, 255>>,
}

#[apply(output)]
pub struct StartTaskAttemptOutput {
    pub attempt_id: AttemptId,
    pub task_id: TaskId,
    pub handle: String,
    pub workspace_branch: String,
    pub worktree: Worktree,
    pub session_id: SessionId,
    /// Id of its first process, a UUID; null while it is queued.
    pub execution_process_id: Option<ProcessId>,
    pub state: AttemptState,
    pub phase: AttemptPhase,
}

/// Where the files of an attempt are: absolute paths.
#[apply(data)]
#[derive(Eq)]
#[serde(untagged)]
pub enum Worktree {
    One(String),
    /// Of several repositories, by name.
    Each(BTreeMap<String, String>),
}

impl Default for Worktree {
    fn default() -> Self {
        Self::Each(BTreeMap::new())
    }
}

/// The description of `list_task_attempts`, by which a model decides whether to call it.
pub const LIST_TASK_ATTEMPTS: &str = "\
Use when: you need the attempts of a task, or lost an attempt_id.
Next: get_attempt_status with an attempt_id.
Avoid: polling it; get_attempt_status says more about one attempt.";

#[apply(input)]
pub struct ListTaskAttemptsInput {
    pub task_id: TaskId,
    pub limit: Limit<50, 200>,
    pub cursor: Option<Text<1, 512>>,
}

#[apply(output)]
pub struct ListTaskAttemptsOutput {
    /// The attempts, newest first.
    pub attempts: Vec<AttemptSummary>,
    /// The most recently created attempt of the task, a UUID; null if there is none.
    pub latest_attempt_id: Option<AttemptId>,
    /// That attempt's latest session, a UUID; null if it has none yet.
    pub latest_session_id: Option<SessionId>,
    pub next_cursor: Option<String>,
    pub has_more: bool,
}

#[apply(output)]
pub struct AttemptSummary {
    pub attempt_id: AttemptId,
    pub host: Option<String>,
    pub workspace_branch: String,
    pub worktree: Worktree,
    pub state: AttemptState,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub latest_session_id: Option<SessionId>,
    pub latest_session_executor: Option<String>,
}

/// The description of `get_attempt_status`, by which a model decides whether to call it.
pub const GET_ATTEMPT_STATUS: &str = "\
Use when: you want to know whether attempts run, are done or failed, and why.
Required: exactly one of attempt_id and attempt_ids.
Optional: max_bytes (attempt_ids).
Next: tail_attempt_logs with the attempt_id, or what next_action says.
Avoid: one call per attempt; polling, wait_for_attempts wakes you.";

/// `get_attempt_status` takes exactly one of the two.
pub const STATUS_RULES: &[FieldRule] = &[FieldRule::OneTarget("attempt_id", "attempt_ids")];

/// One of the two is there.
#[apply(input)]
pub struct GetAttemptStatusInput {
    pub attempt_id: Option<AttemptId>,
    /// 1 to 50 UUIDs; the answer has them in attempts.
    #[schemars(with = "Option<List<Id, 1, 50>>")]
    pub attempt_ids: Option<List<AttemptId, 1, 50>>,
    /// Most bytes, 1048576 at most; above it each status is shortened.
    pub max_bytes: Limit<16_384, 1_048_576>,
}

/// `One` answers `attempt_id`, `Many` answers `attempt_ids`.
#[apply(data)]
#[serde(untagged)]
pub enum AttemptStatusOutput {
    One(Box<AttemptStatus>),
    Many(AttemptStatuses),
}

#[apply(output)]
pub struct AttemptStatuses {
    /// Only with attempt_ids: a status for each, in the order asked, with these same fields.
    // Its members stand in the schema once: a list of tools may be only so long.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub attempts: Vec<StatusView>,
    /// Only with attempt_ids: whether the statuses are shortened to what is not null, long or rare.
    pub truncated: bool,
}

/// A status whole, or in short.
#[apply(data)]
#[serde(untagged)]
pub enum StatusView {
    Whole(Box<AttemptStatus>),
    Short(ShortStatus),
}

/// The facts by which an orchestrator decides what to look at: 50 of them take less
/// than 16 KiB.
#[serde_with::skip_serializing_none]
#[apply(output)]
pub struct ShortStatus {
    pub attempt_id: AttemptId,
    pub handle: String,
    pub state: AttemptState,
    pub phase: AttemptPhase,
    #[schemars(with = "Option<String>")]
    pub waiting_on: Option<WaitingOn>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// Its beginning.
    pub failure_summary: Option<String>,
    pub queued_follow_ups: u32,
    pub latest_entry_index: LatestEntryIndex,
}

#[apply(output)]
pub struct AttemptStatus {
    pub attempt_id: AttemptId,
    pub task_id: TaskId,
    pub handle: String,
    pub workspace_branch: String,
    /// Path of its worktree; of several, by repository. Not with attempt_ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub worktree: Option<Worktree>,
    /// If configured: repos (by name: copied files, setup, cache, cleanup), ports, dev_server. Not with
    /// attempt_ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub provision: Option<Value>,
    pub state: AttemptState,
    pub phase: AttemptPhase,
    /// a running slot, host (it drains), approval (list_inbox), setup (another attempt's with the same cache key), disk, snapshot (of a turn that has ended), background (its own work), model (no word for 30 s), or quota (a rate limit ended its turn); null if nothing.
    #[schemars(with = "Option<String>")]
    pub waiting_on: Option<WaitingOn>,
    /// A person has to approve a repository's provost.toml. Else left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_trust: bool,
    /// When the limit of waiting_on = quota is over; null if unknown.
    pub resume_at: Option<Timestamp>,
    /// Executor that does the work.
    pub executor: String,
    /// The executor's variant; null for its default.
    pub variant: Option<String>,
    pub host: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// When its executor last wrote anything; null before that.
    pub last_activity_at: Option<Timestamp>,
    pub latest_session_id: Option<SessionId>,
    pub latest_execution_process_id: Option<ProcessId>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// Why it failed; null unless state is failed.
    pub failure_summary: Option<String>,
    /// A stop ended its last turn. Else left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    pub queued_follow_ups: u32,
    /// Whether a stop holds the queue until the next follow_up.
    pub queue_held: bool,
    /// Last turn with a snapshot, for from_turn and to_turn; null before there is one.
    pub latest_snapshot_turn: Option<u32>,
    /// Why the last turn has no snapshot; null if it has one.
    pub snapshot_failed: Option<String>,
    /// What its last snapshot does not merge with: other attempts, or its target branch.
    pub conflicts_with: Vec<ConflictWith>,
    /// Last finish_attempt since its last turn; left out if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LastFinish")]
    pub finish: Option<LastFinish>,
    /// Tokens that all its turns used so far; null if the executor does not report them.
    pub usage: Option<AttemptUsage>,
    /// Limits set for that process.
    pub limits: Vec<AttemptLimit>,
    /// Receipt of its sandbox, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub sandbox: Option<Receipt>,
    /// Last message of the agent in the last finished turn, at most 2000 characters; 200 with attempt_ids.
    pub final_message: Option<String>,
    /// Where the logs end: an after_entry_index for each channel.
    pub latest_entry_index: LatestEntryIndex,
    /// The most useful next call; null if there is none.
    pub next_action: Option<String>,
}

#[apply(output)]
pub struct AttemptLimit {
    /// Its name in the configuration, such as wall_secs.
    pub limit: String,
    /// What it is set to.
    pub value: u64,
    /// kernel (can't be exceeded), watched (polled) or no (not enforced).
    pub hold: String,
    /// Why the kernel does not enforce it though it could; null otherwise.
    pub reason: Option<String>,
}

#[apply(output)]
pub struct AttemptUsage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Cost in US dollars; null if unknown.
    pub cost_usd: Option<f64>,
}

impl From<TokenUsage> for AttemptUsage {
    fn from(usage: TokenUsage) -> Self {
        let TokenUsage { input_tokens, output_tokens, cost_usd } = usage;
        Self { input_tokens, output_tokens, cost_usd }
    }
}

#[apply(output)]
pub struct LatestEntryIndex {
    /// Newest index of the normalized channel; null while empty.
    pub normalized: Option<u64>,
    /// Newest index of the raw channel; null while empty.
    pub raw: Option<u64>,
}

/// The description of `stop_attempt`, by which a model decides whether to call it.
pub const STOP_ATTEMPT: &str = "\
Use when: a running or queued attempt must end now.
Next: get_attempt_status with the attempt_id, to see how it ended.
Avoid: force first, because the agent can't save its work then; stopping to give a hint.";

#[apply(input)]
pub struct StopAttemptInput {
    pub attempt_id: AttemptId,
    /// true: kill at once. false: interrupt, terminate, then kill after a grace period.
    pub force: bool,
}

#[apply(output)]
pub struct StopAttemptOutput {
    pub attempt_id: AttemptId,
    pub worktree: Worktree,
    /// The process that was stopped, a UUID; null if none ran.
    pub execution_process_id: Option<ProcessId>,
    /// Whether something was stopped; false if nothing ran.
    pub stopped: bool,
    pub state: AttemptState,
    pub phase: AttemptPhase,
    /// Whether it was killed at once.
    pub forced: bool,
    /// Signals that were sent, in order, such as SIGINT.
    pub signals: Vec<String>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// Number of processes that could not be killed; normally 0.
    pub survivors: u32,
    /// true if the stop is not recorded yet; it is retried.
    pub unrecorded: bool,
}

/// The description of `get_context`, by which a model decides whether to call it.
pub const GET_CONTEXT: &str = "\
Use when: you work inside an attempt and want to know which task, branch and repositories it is.
Next: getNextTask.
Avoid: calling it again; it stays the same for the whole attempt.";

#[apply(input)]
pub struct GetContextInput {}

#[apply(output)]
pub struct GetContextOutput {
    pub project_id: ProjectId,
    /// Name of the project.
    pub project_name: String,
    pub task_id: TaskId,
    pub handle: String,
    /// The work in a line.
    pub task_title: String,
    pub task_status: TaskStatus,
    pub attempt_id: AttemptId,
    pub workspace_branch: String,
    pub worktree: Worktree,
    /// The repositories of the attempt.
    pub workspace_repos: Vec<WorkspaceRepo>,
    /// Its own ports, by the variables that hold them; left out if none are configured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "Map<String, Value>")]
    pub ports: BTreeMap<String, u16>,
}

#[apply(output)]
pub struct WorkspaceRepo {
    pub repo_id: RepoId,
    /// Name of the repository and of its folder.
    pub repo_name: String,
    /// Branch that the attempt started from.
    pub target_branch: String,
}

tools! {
    AttemptTools:
    change start_task_attempt(StartTaskAttemptInput) -> StartTaskAttemptOutput;
    read list_task_attempts(ListTaskAttemptsInput) -> ListTaskAttemptsOutput;
    read get_attempt_status(GetAttemptStatusInput) -> AttemptStatusOutput;
    change stop_attempt(StopAttemptInput) -> StopAttemptOutput;
    read get_context(GetContextInput) -> GetContextOutput;

    /// The newest attempts of all projects, newest first, each with its task's title.
    async fn recent_attempts(&self, most: usize) -> Refusable<Vec<(AttemptId, String)>>;
}
