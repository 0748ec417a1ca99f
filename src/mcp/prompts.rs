//! MCP prompts: texts that a person gives to an agent by their name. Pure.

use provost_actors::text::{NAME_SHOWN_MAX, cut};
use rmcp::ErrorData;
use rmcp::model::{GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::{Value, json};

use crate::api::{Caller, Role as Audience};

const NAME: &str = "orchestrate";
const ABOUT: &str = "Have coding agents carry out a goal: plan, start, wait, check, correct.";
const ARGUMENTS: [(&str, &str); 2] = [
    ("project_id", "The project to work in, a UUID; the agent finds one if left out."),
    ("goal", "The goal; the agent asks if left out."),
];

/// The closed loop, for the agent that runs it.
pub const ORCHESTRATE: &str = "\
You direct coding agents through Provost's tools: you plan, they write, you check.
1. Look: list_tasks with the project_id (list_projects if you have none). Split the goal into \
tasks that can be done and checked apart: create_task, with depends_on where the order matters.
2. Start: start_task_attempt for each task that can begin, with an executor from list_executors \
and a request_id. Attempts run side by side, each on a branch of its own.
3. Wait: wait_for_attempts with the attempt_ids that run; then again with after from its answer. \
Don't poll.
4. Read: tail_session_messages for each that has settled. If its state is failed, read \
failure_summary in get_attempt_status, then tail_attempt_logs.
5. Check: get_attempt_changes, then get_attempt_patch or get_attempt_file for what matters.
6. Decide: follow_up with action send to have the same agent correct it; stop_attempt for one that \
goes wrong; start_task_attempt for a fresh try; update_task with status done when it is good.
Continue until every task is done or cancelled. Then say what was done, on which branches \
(workspace_branch), and what is left. finish_attempt merges what a person wants merged.";

/// The prompts that a caller sees: only callers that run the board have any.
pub fn list(caller: &Caller) -> Vec<Prompt> {
    if caller.role == Audience::Worker {
        return Vec::new();
    }
    let arguments = ARGUMENTS.map(|(name, about)| {
        PromptArgument::new(name).with_description(about).with_required(false)
    });
    vec![Prompt::new(NAME, Some(ABOUT), Some(arguments.into())).with_title("Orchestrate")]
}

/// A prompt, with the arguments appended to its text.
///
/// # Errors
/// The caller has no such prompt, or an argument is unknown or not a string.
pub fn get(
    name: &str,
    arguments: &JsonObject,
    caller: &Caller,
) -> Result<GetPromptResult, ErrorData> {
    if name != NAME || caller.role == Audience::Worker {
        let shown = cut(name.to_owned(), NAME_SHOWN_MAX);
        let hint = json!({"hint": "Use one of the prompts in prompts/list."});
        return Err(ErrorData::invalid_params(
            format!("There is no prompt `{shown}`."),
            Some(hint),
        ));
    }
    let mut text = ORCHESTRATE.to_owned();
    for (name, value) in arguments {
        let is_known = ARGUMENTS.iter().any(|(known, _)| known == name);
        match value {
            Value::Null if is_known => {}
            Value::String(value) if is_known => text.extend(["\n\n", name, ": ", value]),
            _ => return Err(bad_argument(name)),
        }
    }
    let message = PromptMessage::new_text(Role::User, text);
    Ok(GetPromptResult::new(vec![message]).with_description(ABOUT))
}

fn bad_argument(name: &str) -> ErrorData {
    let names = ARGUMENTS.map(|(name, _)| name).join(" and ");
    let shown = cut(name.to_owned(), NAME_SHOWN_MAX);
    let message = format!("`{shown}` is not an argument of {NAME}, or its value is not a string.");
    let hint = json!({"hint": format!("Its arguments are {names}, both strings.")});
    ErrorData::invalid_params(message, Some(hint))
}
