//! The table of all tools, a line each, in the order in which they are listed.
//! A tool's fields and description stand in its group's file; adding one takes
//! its structs and a method of its group's trait in `api`, and a line here.

use std::sync::LazyLock;

use super::tool::Audience::{Board, Inside, Worker};
use super::tool::Effect::{Adds, Asks, Reads, Removes, Replaces, Starts, Steers};
use super::tool::Load::{Always, Search};
use super::tool::Row;
pub use super::tool::Tool;
use crate::api::field_rules::FieldRule;
use crate::api::worker::{
    completed, consult, done, failure, immediate, inbox, issue, next, observation, question,
    status, ticket, verification,
};
use crate::api::{
    approvals, artifacts, attempts, context, executors, follow_up, logs, projects, sessions, tasks,
    waits,
};

macro_rules! table {
    ($($kind:ident $name:ident $(= $called:literal)? $title:literal $audience:ident $effect:ident $load:ident
       $description:path, $rules:expr;)*) => {
        vec![$(Tool::$kind(
            Row {
                name: table!(@name $name $($called)?),
                title: $title,
                audience: $audience,
                effect: $effect,
                load: $load,
                description: $description,
                rules: $rules,
            },
            table!(@method $kind $name),
        ),)*]
    };
    (@name $name:ident) => { stringify!($name) };
    (@name $name:ident $called:literal) => { $called };
    (@method wait $name:ident) => { table!(@method read $name) };
    (@method bulk $name:ident) => { table!(@method read $name) };
    (@method read $name:ident) => { |service, session, input| service.$name(session, input) };
    (@method change $name:ident) => { |service, session, key, input| service.$name(session, key, input) };
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
    read   list_projects       "List projects"       Board   Reads    Search projects::LIST_PROJECTS,        &[];
    read   list_repos          "List repositories"   Board   Reads    Search projects::LIST_REPOS,           &[];
    read   list_executors      "List executors"      Board   Reads    Search executors::LIST_EXECUTORS,      &[];
    change create_project      "Create project"      Board   Adds     Search projects::CREATE_PROJECT,       &[];
    change add_repo            "Add repository"      Board   Adds     Search projects::ADD_REPO,             &[];
    change create_task         "Create task"         Board   Adds     Search tasks::CREATE_TASK,             &[];
    read   list_tasks          "List tasks"          Board   Reads    Always tasks::LIST_TASKS,              &[];
    bulk   get_task            "Get task"            Board   Reads    Search tasks::GET_TASK,                &[];
    change update_task         "Update task"         Board   Replaces Search tasks::UPDATE_TASK,             tasks::UPDATE_RULES;
    change delete_task         "Delete task"         Board   Removes  Search tasks::DELETE_TASK,             &[];
    change start_task_attempt  "Start task attempt"  Board   Starts   Always attempts::START_TASK_ATTEMPT,   &[];
    read   list_task_attempts  "List task attempts"  Board   Reads    Search attempts::LIST_TASK_ATTEMPTS,   &[];
    read   get_attempt_status  "Get attempt status"  Board   Reads    Always attempts::GET_ATTEMPT_STATUS,   attempts::STATUS_RULES;
    wait   wait_for_attempts   "Wait for attempts"   Board   Reads    Always waits::WAIT_FOR_ATTEMPTS,       &[];
    bulk   tail_attempt_logs   "Tail attempt logs"   Board   Reads    Always logs::TAIL_ATTEMPT_LOGS,        logs::TAIL_RULES;
    bulk   tail_session_messages "Tail session messages" Board Reads  Search sessions::TAIL_SESSION_MESSAGES, sessions::MESSAGES_RULES;
    bulk   get_attempt_changes "Get attempt changes" Board   Reads    Search artifacts::GET_ATTEMPT_CHANGES, &[];
    bulk   get_attempt_file    "Get attempt file"    Board   Reads    Search artifacts::GET_ATTEMPT_FILE,    artifacts::FILE_RULES;
    bulk   get_attempt_patch   "Get attempt patch"   Board   Reads    Search artifacts::GET_ATTEMPT_PATCH,   &[];
    change follow_up           "Follow up"           Board   Steers   Always follow_up::FOLLOW_UP,           follow_up::FOLLOW_UP_RULES;
    change stop_attempt        "Stop attempt"        Board   Replaces Search attempts::STOP_ATTEMPT,         &[];
    read   list_approvals      "List approvals"      Board   Reads    Search approvals::LIST_APPROVALS,       &[];
    change respond_approval    "Respond to approval" Board   Steers   Search approvals::RESPOND_APPROVAL,     approvals::RESPOND_RULES;
    read   list_questions      "List questions"      Board   Reads    Search inbox::LIST_QUESTIONS,            &[];
    change answer_question     "Answer question"     Board   Steers   Search inbox::ANSWER_QUESTION,           &[];
    read   get_context         "Get context"         Inside  Reads    Search context::GET_CONTEXT,           &[];
    // The worker API, by its own names.
    change get_next_task = "getNextTask" "Get next task" Worker Asks Search next::GET_NEXT_TASK, &[];
    change report_task_done = "reportTaskDone" "Report task done" Worker Adds Search done::REPORT_TASK_DONE, &[];
    wait   ask_question = "askQuestion" "Ask question" Worker Asks Search question::ASK_QUESTION, &[FieldRule::Apart(question::NEEDS_1_2, question::FORM_1_0)];
    change report_observation = "reportObservation" "Report observation" Worker Adds Search observation::REPORT_OBSERVATION, OBSERVATION_RULES;
    change report_test_failure = "reportTestFailure" "Report test failure" Worker Adds Search failure::REPORT_TEST_FAILURE, &[];
    change report_verification_result = "reportVerificationResult" "Report verification result" Worker Adds Search verification::REPORT_VERIFICATION_RESULT, &[];
    change report_task_completed = "reportTaskCompleted" "Report task completed" Worker Adds Search completed::REPORT_TASK_COMPLETED, &[];
    change report_issue = "reportIssue" "Report issue" Worker Adds Search issue::REPORT_ISSUE, &[];
    change report_task_status = "reportTaskStatus" "Report task status" Worker Adds Search status::REPORT_TASK_STATUS, &[];
    wait   get_immediate_answer = "getImmediateAnswer" "Get immediate answer" Worker Asks Search immediate::GET_IMMEDIATE_ANSWER, &[];
    change create_ticket = "createTicket" "Create ticket" Worker Adds Search ticket::CREATE_TICKET, &[];
    wait   call_coe_agent = "callCOEAgent" "Call answering agent" Worker Asks Search consult::CALL_COE_AGENT, &[];
});

/// Every tool, in listing order.
pub fn all() -> &'static [Tool] {
    &TABLE
}

/// The tool of a name.
pub fn find(name: &str) -> Option<&'static Tool> {
    TABLE.iter().find(|tool| tool.name() == name)
}
