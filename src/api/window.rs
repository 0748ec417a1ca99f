//! What pages show and no tool answers: everything that needs a person, the board by columns, and
//! what was used by day. Reads only.

use std::collections::BTreeMap;

use crate::api::approvals::ApprovalSummary;
use crate::api::finish::{FinishAction, FinishState};
use crate::api::prelude::*;
use crate::api::worker::inbox::QuestionSummary;

/// Why something needs a person.
#[apply(word)]
#[derive(Hash)]
pub enum NeedKind {
    /// An agent asks for a permission.
    Approval,
    /// A worker asks, or has raised a ticket or an alert.
    Question,
    /// The checks of a report or of a merge did not pass.
    ChecksFailed,
    Failed,
    /// A rate limit ended the turn, and only a follow-up resumes it.
    Quota,
    /// The work does not merge.
    Conflict,
    /// The work is finished, and it is not merged.
    Review,
    /// The same; its checks or its verification have passed already.
    Ready,
    /// The work is being merged, pushed or discarded: it keeps its place until its end is known.
    Finishing,
    /// The work is merged, and the task is open.
    Merged,
}

impl NeedKind {
    /// What ids of this kind begin with. An attempt is one item whatever it needs, so that a
    /// person who has merged its work stays at it.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Question => "question",
            _ => "need",
        }
    }
}

/// Where a task stands on the board.
#[apply(word)]
#[derive(Hash, PartialOrd, Ord)]
pub enum Column {
    Waiting,
    Working,
    NeedsYou,
    ToReview,
    ReadyToMerge,
    Done,
}

impl Column {
    pub const ALL: [Self; 6] = [
        Self::Waiting,
        Self::Working,
        Self::NeedsYou,
        Self::ToReview,
        Self::ReadyToMerge,
        Self::Done,
    ];
}

/// Why a task stands there, where the column does not say it.
#[apply(word)]
#[derive(Hash)]
pub enum Why {
    /// Tasks that it depends on are not done.
    Dependencies,
    /// All running slots are taken.
    Slot,
    /// Its host drains.
    Host,
    Disk,
    /// A rate limit; it goes on by itself.
    Quota,
    Stopped,
    /// Its work was discarded.
    Discarded,
    Blocked,
    Paused,
    /// Its checks failed, and nobody has taken it up.
    Rework,
    /// Its checks run.
    Checks,
    /// Its work is being merged, pushed or discarded.
    Finish,
    /// It was pushed, or a pull request is open.
    Proposed,
    /// An approval or a question.
    Asks,
    ChecksFailed,
    Failed,
    QuotaAsks,
    Conflict,
    Merged,
}

/// A task in a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskLine {
    pub task_id: TaskId,
    pub handle: String,
    pub title: String,
    pub status: TaskStatus,
    pub priority: Priority,
    pub project_id: ProjectId,
    pub project_name: String,
    /// Why a report failed or blocked it.
    pub blocked_reason: Option<String>,
    /// The tasks that it waits for, by their handles.
    pub waits_for: Vec<String>,
    /// How many attempts it has.
    pub attempts: u32,
}

/// An attempt as far as lists show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptCard {
    pub attempt_id: AttemptId,
    pub executor: String,
    pub variant: Option<String>,
    pub state: AttemptState,
    pub phase: AttemptPhase,
    pub waiting_on: Option<WaitingOn>,
    pub resume_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub failure_summary: Option<String>,
    /// The agent's last words, cut.
    pub final_message: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct LoginsInput {}

#[derive(Clone, Debug, Default)]
pub struct AttentionInput {
    pub project_id: Option<ProjectId>,
    pub limit: Limit<50, 200>,
    /// The `next_cursor` of the page before.
    pub cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// Newest first.
    pub items: Vec<Need>,
    /// How many there are in all.
    pub total: usize,
    pub next_cursor: Option<String>,
}

/// One thing that needs a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Need {
    /// The same for as long as something is needed of the same attempt, approval or question.
    pub id: String,
    pub kind: NeedKind,
    pub at: Timestamp,
    /// Unknown of a question or ticket.
    pub task: Option<TaskLine>,
    pub attempt: Option<AttemptCard>,
    pub detail: NeedDetail,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NeedDetail {
    Approval(Box<ApprovalSummary>),
    Question(Box<QuestionSummary>),
    /// The checks that did not pass; empty where it is not that.
    Checks(Vec<FailedCheck>),
    /// The first paths that do not merge.
    Conflict(Vec<String>),
    /// The attempt says all.
    Attempt,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedCheck {
    pub name: String,
    pub command: String,
    /// failed, timed_out, …
    pub outcome: String,
    pub exit_code: Option<i32>,
    pub reason: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct BoardInput {
    pub project_id: Option<ProjectId>,
    /// This column alone.
    pub column: Option<Column>,
    /// How many of each column's tasks are left out at its beginning.
    pub skip: usize,
    /// Most tasks of a column.
    pub limit: Limit<100, 200>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Board {
    /// In the order of [`Column::ALL`].
    pub columns: Vec<BoardColumn>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoardColumn {
    pub column: Column,
    /// How many tasks it has, shown or not.
    pub total: usize,
    pub skipped: usize,
    pub cards: Vec<Card>,
}

/// A task on the board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Card {
    pub task: TaskLine,
    pub why: Option<Why>,
    /// Its newest one.
    pub attempt: Option<AttemptCard>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct UsageInput {
    /// This day and those before it; days are of UTC.
    pub days: Limit<30, 366>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    pub from: Timestamp,
    pub days: u32,
    /// In the order of days.
    pub rows: Vec<UsageRow>,
}

/// What the turns of a project's attempts used by one executor, by the day on which they ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsageRow {
    /// Its number, from 0 on the first day.
    pub day: u32,
    pub project_id: ProjectId,
    pub project_name: String,
    pub executor: String,
    pub turns: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: f64,
    /// Turns whose cost is unknown.
    pub without_cost: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct CompareInput {
    pub task_id: TaskId,
}

/// What became of an attempt, beside its status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub attempt_id: AttemptId,
    /// Turns that have ended.
    pub turns: u64,
    /// How long they took in all, waiting included.
    pub turns_ms: u64,
    /// The newest finish that was not refused.
    pub finish: Option<FinishAction>,
    pub finish_state: Option<FinishState>,
    /// The checks of its last run, by their names.
    pub checks: Vec<CheckOutcome>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckOutcome {
    pub name: String,
    /// passed, failed, timed_out, …
    pub outcome: String,
}

tools! {
    WindowReads:
    read attention(AttentionInput) -> Attention;
    read board(BoardInput) -> Board;
    read usage(UsageInput) -> Usage;
    // Whether each executor that tells it is logged in, by its name.
    read logins(LoginsInput) -> BTreeMap<String, bool>;
    // The newest attempts of a task, newest first.
    read outcomes(CompareInput) -> Vec<Outcome>;
}
