//! What pages show and no tool answers: everything that needs a person, the board by columns, and the usage
//! by day. Reads only.

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
    /// The first part of the ids of items of this kind. An attempt stays one item whatever it needs, so that
    /// a person who has merged its work stays at the same item.
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
    /// From left to right on the board.
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

/// A task in one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskLine {
    pub task_id: TaskId,
    pub handle: String,
    pub title: String,
    pub status: TaskStatus,
    pub priority: Priority,
    pub project_id: ProjectId,
    pub project_name: String,
    /// Why a report says that the task failed or is blocked.
    pub blocked_reason: Option<String>,
    /// The handles of the tasks that it waits for.
    pub waits_for: Vec<String>,
    /// How many attempts it has.
    pub attempts: u32,
}

/// An attempt, as lists show it.
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
    /// The agent's last message, cut.
    pub final_message: Option<String>,
}

/// What `logins` takes: nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoginsInput {}

/// What `attention` takes; without a project, all projects count.
#[derive(Clone, Debug, Default)]
pub struct AttentionInput {
    pub project_id: Option<ProjectId>,
    pub limit: Limit<50, 200>,
    /// The `next_cursor` of the page before; `None`: the first page.
    pub cursor: Option<String>,
}

/// A page of everything that needs a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// Newest first.
    pub items: Vec<Need>,
    /// How many items there are on all pages.
    pub total: usize,
    pub next_cursor: Option<String>,
}

/// One item that needs a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Need {
    /// Stays the same for as long as the same attempt, approval or question needs a person.
    pub id: String,
    pub kind: NeedKind,
    pub at: Timestamp,
    /// `None`: the task of a question or ticket is not known.
    pub task: Option<TaskLine>,
    pub attempt: Option<AttemptCard>,
    pub detail: NeedDetail,
}

/// What a person must see of an item to decide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NeedDetail {
    Approval(Box<ApprovalSummary>),
    Question(Box<QuestionSummary>),
    /// The checks that did not pass; empty if the cause is another one.
    Checks(Vec<FailedCheck>),
    /// The first paths that do not merge.
    Conflict(Vec<String>),
    /// The attempt shows everything.
    Attempt,
}

/// A check that did not pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedCheck {
    pub name: String,
    pub command: String,
    /// The word of its outcome: failed, timed_out, …
    pub outcome: String,
    pub exit_code: Option<i32>,
    pub reason: Option<String>,
}

/// What `board` takes; without a project, all projects count.
#[derive(Clone, Debug, Default)]
pub struct BoardInput {
    pub project_id: Option<ProjectId>,
    /// Only this column; `None`: all.
    pub column: Option<Column>,
    /// How many tasks at the beginning of each column are skipped.
    pub skip: usize,
    /// The most tasks of a column.
    pub limit: Limit<100, 200>,
}

/// The board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Board {
    /// In the order of [`Column::ALL`].
    pub columns: Vec<BoardColumn>,
}

/// A column of the board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoardColumn {
    pub column: Column,
    /// How many tasks the column has, shown or not.
    pub total: usize,
    pub skipped: usize,
    pub cards: Vec<Card>,
}

/// A task on the board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Card {
    pub task: TaskLine,
    pub why: Option<Why>,
    /// Its newest attempt.
    pub attempt: Option<AttemptCard>,
}

/// What `usage` takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct UsageInput {
    /// How many days, counted back from today; days are those of UTC.
    pub days: Limit<30, 366>,
}

/// The usage of several days.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    pub from: Timestamp,
    pub days: u32,
    /// By day, then by project and executor.
    pub rows: Vec<UsageRow>,
}

/// What one executor used for a project on one day: the day on which its turns ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsageRow {
    /// The number of the day; 0 is the first one.
    pub day: u32,
    pub project_id: ProjectId,
    pub project_name: String,
    pub executor: String,
    pub turns: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: f64,
    /// How many of the turns have no known cost.
    pub without_cost: u64,
}

/// What `outcomes` takes.
#[derive(Clone, Copy, Debug)]
pub struct CompareInput {
    pub task_id: TaskId,
}

/// What has become of an attempt, besides its status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub attempt_id: AttemptId,
    /// How many turns have ended.
    pub turns: u64,
    /// The time from the begin of each turn to its end, added up; it includes waiting.
    pub turns_ms: u64,
    /// The newest finish; a refused one does not count.
    pub finish: Option<FinishAction>,
    pub finish_state: Option<FinishState>,
    /// The checks of its last run, in the order of their names.
    pub checks: Vec<CheckOutcome>,
}

/// The outcome of one check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckOutcome {
    pub name: String,
    /// The word of the outcome: passed, failed, timed_out, …
    pub outcome: String,
}

tools! {
    WindowReads:
    read attention(AttentionInput) -> Attention;
    read board(BoardInput) -> Board;
    read usage(UsageInput) -> Usage;
    // For each executor that can tell: whether it is logged in.
    read logins(LoginsInput) -> BTreeMap<String, bool>;
    // The newest attempts of a task, newest first.
    read outcomes(CompareInput) -> Vec<Outcome>;
}
