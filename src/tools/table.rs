//! The table of all tools, a line each, in the order in which they are listed.
//! A tool's fields and description stand in its group's file; adding one takes
//! its structs and a method of its group's trait in `api`, and a line here.

use std::sync::LazyLock;

use super::row::Audience::{Board, Inside, Worker};
use super::row::Effect::{Adds, Asks, Publishes, Reads, Removes, Replaces, Starts, Steers};
use super::row::Load::{Always, Former, Search};
use super::row::{Row, RunKind};
pub use super::tool::Tool;
use crate::api::field_rules::FieldRule;
use crate::api::worker::{
    completed, done, failure, inbox, issue, next, observation, question, status, ticket,
    verification,
};
use crate::api::{
    approvals, artifacts, attempts, comments, decisions, executors, finish, follow_up, logs,
    projects, sessions, tasks, waits,
};

macro_rules! table {
    ($($kind:ident $name:ident $(= $called:literal)? $title:literal $audience:ident $effect:ident $load:ident
       $description:path, $rules:expr;)*) => {
        vec![$(table!(@$kind $name Row {
            kind: RunKind::$kind,
            name: table!(@name $name $($called)?),
            title: $title,
            audience: $audience,
            effect: $effect,
            load: $load,
            description: $description.into(),
            rules: $rules,
        }),)*]
    };
    (@name $name:ident) => { stringify!($name) };
    (@name $name:ident $called:literal) => { $called };
    (@Change $name:ident $row:expr) => {
        Tool::change($row, |service, caller, key, input| service.$name(caller, key, input))
    };
    (@$kind:ident $name:ident $row:expr) => {
        Tool::read($row, |service, caller, input| service.$name(caller, input))
    };
}

/// Which fields of `reportObservation` go together: those of its full form, or those of
/// its short one.
const OBSERVATION_RULES: &[FieldRule] = &[
    // Every field of the full form comes with these.
    FieldRule::Apart(observation::FULL_NEEDS, observation::SHORT),
    FieldRule::Together(observation::FULL, observation::FULL_NEEDS),
];

/// Every tool there is.
#[rustfmt::skip]
static TABLE: LazyLock<Vec<Tool>> = LazyLock::new(|| table! {
    //     name                title                 for     effect   loaded description                     rules
    Read   list_projects       "List projects"       Board   Reads    Search projects::LIST_PROJECTS,        &[];
    Read   list_repos          "List repositories"   Board   Reads    Search projects::LIST_REPOS,           &[];
    Read   list_executors      "List executors"      Board   Reads    Search executors::LIST_EXECUTORS,      &[];
    Change create_project      "Create project"      Board   Adds     Search projects::CREATE_PROJECT,       &[];
    Change add_repo            "Add repository"      Board   Adds     Search projects::ADD_REPO,             &[];
    Change create_task         "Create task"         Board   Adds     Search tasks::CREATE_TASK,             &[];
    Read   list_tasks          "List tasks"          Board   Reads    Always tasks::LIST_TASKS,              &[];
    Bulk   get_task            "Get task"            Board   Reads    Search tasks::GET_TASK,                &[];
    Change update_task         "Update task"         Board   Replaces Search tasks::UPDATE_TASK,             tasks::UPDATE_RULES;
    Change delete_task         "Delete task"         Board   Removes  Search tasks::DELETE_TASK,             &[];
    Change start_task_attempt  "Start task attempt"  Board   Starts   Always attempts::START_TASK_ATTEMPT,   attempts::START_RULES;
    Read   list_task_attempts  "List task attempts"  Board   Reads    Search attempts::LIST_TASK_ATTEMPTS,   &[];
    Read   get_attempt_status  "Get attempt status"  Board   Reads    Always attempts::GET_ATTEMPT_STATUS,   attempts::STATUS_RULES;
    Wait   wait_for_attempts   "Wait for attempts"   Board   Reads    Always waits::WAIT_FOR_ATTEMPTS,       &[];
    Bulk   tail_attempt_logs   "Tail attempt logs"   Board   Reads    Always logs::TAIL_ATTEMPT_LOGS,        logs::TAIL_RULES;
    Bulk   tail_session_messages "Tail session messages" Board Reads  Search sessions::TAIL_SESSION_MESSAGES, sessions::MESSAGES_RULES;
    Bulk   get_attempt_changes "Get attempt changes" Board   Reads    Search artifacts::GET_ATTEMPT_CHANGES, &[];
    Bulk   get_attempt_file    "Get attempt file"    Board   Reads    Search artifacts::GET_ATTEMPT_FILE,    artifacts::FILE_RULES;
    Bulk   get_attempt_patch   "Get attempt patch"   Board   Reads    Search artifacts::GET_ATTEMPT_PATCH,   &[];
    Change follow_up           "Follow up"           Board   Steers   Always follow_up::FOLLOW_UP,           follow_up::FOLLOW_UP_RULES;
    Change comment_on_changes  "Comment on changes"  Board   Steers   Search comments::COMMENT_ON_CHANGES, comments::COMMENT_RULES;
    Change stop_attempt        "Stop attempt"        Board   Replaces Search attempts::STOP_ATTEMPT,         &[];
    Change finish_attempt      "Finish attempt"      Board   Publishes Search finish::FINISH_ATTEMPT,          finish::FINISH_RULES;
    Read   list_inbox          "List inbox"          Board   Reads    Search decisions::LIST_INBOX,           decisions::INBOX_RULES;
    Change answer              "Answer"              Board   Steers   Search decisions::ANSWER,               decisions::ANSWER_RULES;
    Read   list_approvals      "List approvals"      Board   Reads    Former approvals::LIST_APPROVALS,       &[];
    Change respond_approval    "Respond to approval" Board   Steers   Former approvals::RESPOND_APPROVAL,     approvals::RESPOND_RULES;
    Read   list_questions      "List questions"      Board   Reads    Former inbox::LIST_QUESTIONS,            &[];
    Change answer_question     "Answer question"     Board   Steers   Former inbox::ANSWER_QUESTION,           &[];
    Read   get_context         "Get context"         Inside  Reads    Search attempts::GET_CONTEXT,          &[];
    // The worker API, by its own names.
    Change get_next_task = "getNextTask" "Get next task" Worker Asks Search next::GET_NEXT_TASK, &[];
    Change report_task_done = "reportTaskDone" "Report task done" Worker Adds Search done::REPORT_TASK_DONE, &[];
    Wait   ask_question = "askQuestion" "Ask question" Worker Asks Search question::ASK_QUESTION, &[FieldRule::Apart(question::NEEDS_1_2, question::FORM_1_0)];
    Change report_observation = "reportObservation" "Report observation" Worker Adds Search observation::REPORT_OBSERVATION, OBSERVATION_RULES;
    Change report_test_failure = "reportTestFailure" "Report test failure" Worker Adds Search failure::REPORT_TEST_FAILURE, &[];
    Change report_verification_result = "reportVerificationResult" "Report verification result" Worker Adds Search verification::REPORT_VERIFICATION_RESULT, &[];
    Change report_task_completed = "reportTaskCompleted" "Report task completed" Worker Adds Search completed::REPORT_TASK_COMPLETED, &[];
    Change report_issue = "reportIssue" "Report issue" Worker Adds Search issue::REPORT_ISSUE, &[];
    Change report_task_status = "reportTaskStatus" "Report task status" Worker Adds Search status::REPORT_TASK_STATUS, &[];
    Wait   get_immediate_answer = "getImmediateAnswer" "Get immediate answer" Worker Asks Search question::GET_IMMEDIATE_ANSWER, &[];
    Change create_ticket = "createTicket" "Create ticket" Worker Adds Search ticket::CREATE_TICKET, &[];
    Wait   call_coe_agent = "callCOEAgent" "Call answering agent" Worker Asks Search question::CALL_COE_AGENT, &[];
});

/// The tools of lists, in their order.
pub fn listed() -> impl Iterator<Item = &'static Tool> {
    TABLE.iter().filter(|tool| tool.is_listed())
}

/// Every tool, with those that are called by former names.
#[cfg(test)]
pub fn all() -> &'static [Tool] {
    &TABLE
}

/// The tool of a name.
pub fn find(name: &str) -> Option<&'static Tool> {
    TABLE.iter().find(|tool| tool.name == name)
}
