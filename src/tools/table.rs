//! The table of all tools, one line each, in the order in which they are listed. A tool's fields and
//! description are in its group's file. A new tool needs its structs and a method of its group's trait in
//! `api`, and a line here.

use std::sync::LazyLock;

use super::row::Audience::{Attempts, Board, Worker};
use super::row::Effect::{Adds, Asks, Publishes, Reads, Removes, Replaces, Starts, Steers};
use super::row::Load::{Always, Search};
use super::row::{Row, RunKind};
pub use super::tool::Tool;
use crate::api::field_rules::FieldRule;
use crate::api::inside::Inside::{Named, NamedBy, Never, OfNoProject};
use crate::api::placed::{COMMENTS, FINISH, FOLLOW_UP, HOST, ROWS, STOP};
use crate::api::worker::{
    completed, done, failure, issue, next, observation, question, status, ticket, verification,
};
use crate::api::{
    artifacts, attempts, comments, decisions, executors, finish, follow_up, logs, projects,
    sessions, tasks, waits,
};

macro_rules! table {
    ($($kind:ident $name:ident $(= $called:literal)? $title:literal, $audience:expr, $effect:ident $load:ident
       $verb:literal $placed:path, $description:path, $rules:expr;)*) => {
        vec![$(table!(@$kind $name Row {
            kind: RunKind::$kind,
            name: table!(@name $name $($called)?),
            title: $title,
            audience: $audience,
            effect: $effect,
            load: $load,
            verb: $verb,
            placed: $placed,
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

/// The fields of `reportObservation` that go together: those of its full form, or those of its short one.
const OBSERVATION_RULES: &[FieldRule] = &[
    // Every field of the full form comes with these.
    FieldRule::Apart(observation::FULL_NEEDS, observation::SHORT),
    FieldRule::Together(observation::FULL, observation::FULL_NEEDS),
];

/// All tools. The schemas are made when the table is first used.
#[rustfmt::skip]
static TABLE: LazyLock<Vec<Tool>> = LazyLock::new(|| table! {
    // name, title, audience (and how far it reaches inside an attempt), effect, when it is loaded, what a
    // person types for it, where it is carried out, description, rules
    Read   list_projects         "List projects",         Board(Never),       Reads     Search "provost project list"        ROWS,      projects::LIST_PROJECTS,         &[];
    Read   list_repos            "List repositories",     Board(Named),       Reads     Search "provost project list"        ROWS,      projects::LIST_REPOS,            &[];
    Read   list_executors        "List executors",        Board(OfNoProject), Reads     Search "provost executors"           ROWS,      executors::LIST_EXECUTORS,       &[];
    Change create_project        "Create project",        Board(Never),       Adds      Search ""                            ROWS,      projects::CREATE_PROJECT,        &[];
    Change add_repo              "Add repository",        Board(Never),       Adds      Search ""                            ROWS,      projects::ADD_REPO,              &[];
    Change create_task           "Create task",           Board(Named),       Adds      Search ""                            ROWS,      tasks::CREATE_TASK,              &[];
    Read   list_tasks            "List tasks",            Board(Named),       Reads     Always "provost task list"           ROWS,      tasks::LIST_TASKS,               &[];
    Bulk   get_task              "Get task",              Board(Named),       Reads     Search "provost task show TASK"      ROWS,      tasks::GET_TASK,                 &[];
    Change update_task           "Update task",           Board(Named),       Replaces  Search ""                            ROWS,      tasks::UPDATE_TASK,              tasks::UPDATE_RULES;
    Change delete_task           "Delete task",           Board(Never),       Removes   Search ""                            ROWS,      tasks::DELETE_TASK,              &[];
    Change start_task_attempt    "Start task attempt",    Board(Named),       Starts    Always "provost task start TASK"     ROWS,      attempts::START_TASK_ATTEMPT,    attempts::START_RULES;
    Read   list_task_attempts    "List task attempts",    Board(Named),       Reads     Search "provost ps --all"            ROWS,      attempts::LIST_TASK_ATTEMPTS,    &[];
    Read   get_attempt_status    "Get attempt status",    Board(Named),       Reads     Always "provost status ATTEMPT"      ROWS,      attempts::GET_ATTEMPT_STATUS,    attempts::STATUS_RULES;
    Wait   wait_for_attempts     "Wait for attempts",     Board(Named),       Reads     Always "provost wait ATTEMPT"        ROWS,      waits::WAIT_FOR_ATTEMPTS,        &[];
    Bulk   tail_attempt_logs     "Tail attempt logs",     Board(Named),       Reads     Always "provost logs ATTEMPT"        ROWS,      logs::TAIL_ATTEMPT_LOGS,         logs::TAIL_RULES;
    Bulk   tail_session_messages "Tail session messages", Board(Named),       Reads     Search ""                            ROWS,      sessions::TAIL_SESSION_MESSAGES, sessions::MESSAGES_RULES;
    Bulk   get_attempt_changes   "Get attempt changes",   Board(Named),       Reads     Search "provost diff --stat ATTEMPT" ROWS,      artifacts::GET_ATTEMPT_CHANGES,  &[];
    Bulk   get_attempt_file      "Get attempt file",      Board(Named),       Reads     Search ""                            ROWS,      artifacts::GET_ATTEMPT_FILE,     artifacts::FILE_RULES;
    Bulk   get_attempt_patch     "Get attempt patch",     Board(Named),       Reads     Search "provost diff ATTEMPT"        ROWS,      artifacts::GET_ATTEMPT_PATCH,    &[];
    Change follow_up             "Follow up",             Board(Named),       Steers    Always "provost send ATTEMPT PROMPT" FOLLOW_UP, follow_up::FOLLOW_UP,            follow_up::FOLLOW_UP_RULES;
    Change comment_on_changes    "Comment on changes",    Board(Named),       Steers    Search "provost review list ATTEMPT" COMMENTS,  comments::COMMENT_ON_CHANGES,    comments::COMMENT_RULES;
    Change stop_attempt          "Stop attempt",          Board(Named),       Replaces  Search "provost stop ATTEMPT"        STOP,      attempts::STOP_ATTEMPT,          &[];
    Change finish_attempt        "Finish attempt",        Board(Never),       Publishes Search "provost merge ATTEMPT"       FINISH,    finish::FINISH_ATTEMPT,          finish::FINISH_RULES;
    Read   list_inbox            "List inbox",            Board(NamedBy(&["project_id", "attempt_id"])), Reads     Search "provost inbox"               ROWS,      decisions::LIST_INBOX,           decisions::INBOX_RULES;
    Change answer                "Answer",                Board(NamedBy(&["approval_id", "project_id"])), Steers    Search ""                            HOST,      decisions::ANSWER,               decisions::ANSWER_RULES;
    Read   get_context           "Get context",           Attempts,           Reads     Search ""                            ROWS,      attempts::GET_CONTEXT,           &[];
    // The worker API, by its own names.
    Change get_next_task = "getNextTask"                           "Get next task",              Worker, Asks Search "" ROWS, next::GET_NEXT_TASK,                      &[];
    Change report_task_done = "reportTaskDone"                     "Report task done",           Worker, Adds Search "" ROWS, done::REPORT_TASK_DONE,                   &[];
    Wait   ask_question = "askQuestion"                            "Ask question",               Worker, Asks Search "" ROWS, question::ASK_QUESTION,                   &[FieldRule::Apart(question::NEEDS_1_2, question::FORM_1_0)];
    Change report_observation = "reportObservation"                "Report observation",         Worker, Adds Search "" ROWS, observation::REPORT_OBSERVATION,          OBSERVATION_RULES;
    Change report_test_failure = "reportTestFailure"               "Report test failure",        Worker, Adds Search "" ROWS, failure::REPORT_TEST_FAILURE,             &[];
    Change report_verification_result = "reportVerificationResult" "Report verification result", Worker, Adds Search "" ROWS, verification::REPORT_VERIFICATION_RESULT, &[];
    Change report_task_completed = "reportTaskCompleted"           "Report task completed",      Worker, Adds Search "" ROWS, completed::REPORT_TASK_COMPLETED,         &[];
    Change report_issue = "reportIssue"                            "Report issue",               Worker, Adds Search "" ROWS, issue::REPORT_ISSUE,                      &[];
    Change report_task_status = "reportTaskStatus"                 "Report task status",         Worker, Adds Search "" ROWS, status::REPORT_TASK_STATUS,               &[];
    Wait   get_immediate_answer = "getImmediateAnswer"             "Get immediate answer",       Worker, Asks Search "" ROWS, question::GET_IMMEDIATE_ANSWER,           &[];
    Change create_ticket = "createTicket"                          "Create ticket",              Worker, Adds Search "" ROWS, ticket::CREATE_TICKET,                    &[];
    Wait   call_coe_agent = "callCOEAgent"                         "Call answering agent",       Worker, Asks Search "" ROWS, question::CALL_COE_AGENT,                 &[];
});

/// All tools, in the order in which they are listed.
pub fn all() -> &'static [Tool] {
    &TABLE
}

/// The tool with exactly this name.
pub fn find(name: &str) -> Option<&'static Tool> {
    TABLE.iter().find(|tool| tool.name == name)
}
