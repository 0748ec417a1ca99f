//! What each call of the command line returns. Pure.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::approvals::{ApprovalSummary, ListApprovalsOutput, RespondApprovalOutput};
use crate::api::artifacts::{GetAttemptChangesOutput, GetAttemptPatchOutput};
use crate::api::attempts::{
    AttemptStatus, AttemptStatuses, StartTaskAttemptOutput, StopAttemptOutput,
};
use crate::api::commands::{
    AddedPlan, Attempts, CheckLog, Collected, Empty, ImportedTasks, Plans, RemovedPlan, Resolved,
    Shutdown, Trash,
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
