//! What each call of the command line returns: a tool's output from `api`, or the answer of
//! a method that only the command line has. Pure.

use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, ProjectId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::approvals::{ApprovalSummary, ListApprovalsOutput, RespondApprovalOutput};
use crate::api::artifacts::{GetAttemptChangesOutput, GetAttemptPatchOutput};
use crate::api::attempts::{
    AttemptPhase, AttemptState, AttemptStatus, AttemptStatuses, StartTaskAttemptOutput,
    StopAttemptOutput,
};
use crate::api::executors::ListExecutorsOutput;
use crate::api::follow_up::FollowUpOutput;
use crate::api::projects::{CreateProjectOutput, ListReposOutput, ProjectSummary};
use crate::api::tasks::{
    CreateTaskOutput, DeleteTaskOutput, GetTaskOutput, TaskOutput, TaskSummary,
};
use crate::api::waits::WaitForAttemptsOutput;
use crate::api::worker::inbox::{AnswerQuestionOutput, QuestionSummary};
use crate::client::CallOutput;

macro_rules! calls {
    ($($call:literal => $output:ty,)*) => {
        $(impl CallOutput for $output {
            const CALL: &'static str = $call;
        })*
    };
}

calls! {
    "answer_question" => AnswerQuestionOutput,
    "create_project" => CreateProjectOutput,
    "create_task" => CreateTaskOutput,
    "delete_task" => DeleteTaskOutput,
    "follow_up" => FollowUpOutput,
    "get_attempt_changes" => GetAttemptChangesOutput,
    "get_attempt_patch" => GetAttemptPatchOutput,
    "get_attempt_status" => AttemptStatus,
    "get_attempt_status" => AttemptStatuses,
    "get_task" => GetTaskOutput,
    "list_approvals" => ListApprovalsOutput,
    "list_executors" => ListExecutorsOutput,
    "list_repos" => ListReposOutput,
    "respond_approval" => RespondApprovalOutput,
    "start_task_attempt" => StartTaskAttemptOutput,
    "stop_attempt" => StopAttemptOutput,
    "tail_attempt_logs" => LogPage,
    "update_task" => TaskOutput,
    "wait_for_attempts" => WaitForAttemptsOutput,
    "provost/add_plan" => AddedPlan,
    "provost/attempts" => Attempts,
    "provost/check_executor" => Empty,
    "provost/check_log" => CheckLog,
    "provost/empty_trash" => Trash,
    "provost/gc" => Collected,
    "provost/import_tasks" => ImportedTasks,
    "provost/plans" => Plans,
    "provost/remove_plan" => RemovedPlan,
    "provost/resolve" => Resolved,
    "provost/shutdown" => Shutdown,
}

/// An item of a list tool.
pub trait Item: DeserializeOwned {
    const TOOL: &'static str;
    /// The field of the answer that holds the items.
    const FIELD: &'static str;
}

macro_rules! items {
    ($($tool:literal, $field:literal => $item:ty,)*) => {
        $(impl Item for $item {
            const TOOL: &'static str = $tool;
            const FIELD: &'static str = $field;
        })*
    };
}

items! {
    "list_approvals", "approvals" => ApprovalSummary,
    "list_projects", "projects" => ProjectSummary,
    "list_questions", "questions" => QuestionSummary,
    "list_tasks", "tasks" => TaskSummary,
}

/// A page of a log. Its entries stay JSON, so that those of unknown kinds are shown too.
#[derive(Clone, Debug, Deserialize)]
pub struct LogPage {
    pub entries: Vec<Value>,
    pub has_more: bool,
    pub latest_entry_index: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub struct Empty {}

#[derive(Debug, Deserialize)]
pub struct Attempts {
    /// Newest first.
    pub attempts: Vec<AttemptLine>,
    /// How many there are, listed or not.
    pub total: usize,
}

#[derive(Clone, Debug, Deserialize)]
pub struct AttemptLine {
    pub attempt_id: AttemptId,
    pub task_title: String,
    pub project_id: ProjectId,
    pub project_name: String,
    pub executor: String,
    pub variant: Option<String>,
    pub state: AttemptState,
    pub phase: AttemptPhase,
    pub waiting_on: Option<String>,
    pub created_at: Timestamp,
}

#[derive(Debug, Deserialize)]
pub struct Resolved {
    pub matches: Vec<Match>,
}

#[derive(Debug, Deserialize)]
pub struct Match {
    pub id: AttemptId,
}

#[derive(Debug, Deserialize)]
pub struct CheckLog {
    pub text: String,
}

#[derive(Debug, Deserialize)]
pub struct Collected {
    pub attempts: Vec<Collection>,
}

#[derive(Debug, Deserialize)]
pub struct Collection {
    pub attempt_id: AttemptId,
    pub task_title: String,
    pub verdict: String,
    pub reason: Option<String>,
    pub ignored: u64,
    pub snapshots: Vec<Snapshot>,
}

#[derive(Debug, Deserialize)]
pub struct Snapshot {
    pub repo: String,
    pub reference: String,
}

#[derive(Debug, Deserialize)]
pub struct Trash {
    pub trash: Vec<Trashed>,
}

#[derive(Debug, Deserialize)]
pub struct Trashed {
    pub name: String,
    pub since: String,
    pub verdict: String,
    pub reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct ImportedTasks {
    pub tasks: Vec<ImportedTask>,
    pub imported_before: bool,
}

#[derive(Debug, Deserialize)]
pub struct ImportedTask {
    pub handle: String,
    /// Its name in the file.
    pub name: Option<String>,
    pub title: String,
}

#[derive(Debug, Deserialize)]
pub struct AddedPlan {
    pub status: String,
    pub documents: Vec<Document>,
}

#[derive(Debug, Deserialize)]
pub struct Document {
    pub source: String,
    pub sections: u64,
}

#[derive(Debug, Deserialize)]
pub struct RemovedPlan {
    pub name: String,
    pub versions: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct Plans {
    pub plans: Vec<Plan>,
}

#[derive(Debug, Deserialize)]
pub struct Plan {
    pub name: String,
    pub version: String,
    pub documents: u64,
    pub sections: u64,
    pub is_current: bool,
    pub added_at: String,
}

#[derive(Debug, Deserialize)]
pub struct Shutdown {
    /// Attempts and checks with a process that is still alive. Unless there is none, the
    /// daemon keeps running.
    pub alive: Vec<Survivor>,
    /// Attempts whose stop is not recorded yet.
    pub unrecorded: Vec<AttemptId>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Survivor {
    /// `None` for a check.
    pub attempt_id: Option<AttemptId>,
    pub reason: String,
}
