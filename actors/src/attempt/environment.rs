//! The environment of an executor: made, not inherited. Pure.

use std::collections::BTreeMap;

use crate::base::inherited;
use crate::journal::Attempt;

/// Longest prompt put into `PROVOST_PROMPT`, in bytes: execve(2) refuses single
/// strings over 128 KiB, and all of them share one budget.
const PROMPT_MAX: usize = 96 * 1024;

/// The attempt's own variables, over what the executor's entry adds, over the base.
#[must_use]
pub fn make(
    base: &BTreeMap<String, String>,
    launch: &BTreeMap<String, String>,
    home: Option<&str>,
    attempt: &Attempt,
) -> BTreeMap<String, String> {
    let mut env = inherited(base);
    env.extend(launch.iter().map(|(name, value)| (name.clone(), value.clone())));
    let mut set = |name: &str, value: String| {
        // A NUL can't be in an environment (execve(2)).
        if !value.contains('\0') {
            env.insert(name.to_owned(), value);
        }
    };
    if let Some(home) = home {
        set("PROVOST_HOME", home.to_owned());
    }
    set("PROVOST_ATTEMPT_ID", attempt.attempt_id.to_string());
    set("PROVOST_PROCESS_ID", attempt.process.process_id.to_string());
    set("PROVOST_SESSION_ID", attempt.session_id.to_string());
    set("PROVOST_TASK_ID", attempt.task_id.to_string());
    set("PROVOST_PROJECT_ID", attempt.project_id.to_string());
    set("PROVOST_PROJECT_NAME", attempt.project_name.clone());
    set("PROVOST_BRANCH", attempt.branch.clone());
    if attempt.process.prompt.len() <= PROMPT_MAX {
        set("PROVOST_PROMPT", attempt.process.prompt.clone());
    }
    if let Some(id) = &attempt.process.executor_session_id {
        set("PROVOST_EXECUTOR_SESSION_ID", id.clone());
    }
    env
}
