//! The environment of an attempt's processes. Pure.

use std::collections::BTreeMap;

use crate::environment::inherited;
use crate::journal::Attempt;
use crate::world::ActorSettings;

/// The longest `PROVOST_PROMPT`, in bytes; a longer prompt has no variable. execve(2) refuses strings of
/// more than 128 KiB.
const PROMPT_MAX: usize = 96 * 1024;

/// All of a process's environment: a part of the daemon's, what the executor's entry or the person's
/// configuration adds (`launch`), the attempt's ports, and the attempt's own variables. Later ones win.
pub fn of(
    settings: &ActorSettings,
    launch: &BTreeMap<String, String>,
    attempt: &Attempt,
    ports: &BTreeMap<String, u16>,
) -> BTreeMap<String, String> {
    let launch = launch.iter().map(|(name, value)| (name.clone(), value.clone()));
    inherited(&settings.launch.environment)
        .into_iter()
        .chain(launch)
        .chain(own(settings, attempt, ports))
        .collect()
}

/// The attempt's ports and its own variables: what a person's shell in the worktree gets too.
pub fn own(
    settings: &ActorSettings,
    attempt: &Attempt,
    ports: &BTreeMap<String, u16>,
) -> BTreeMap<String, String> {
    let process = &attempt.process;
    let own = [
        ("PROVOST_HOME", settings.launch.home_variable.clone()),
        ("PROVOST_ATTEMPT_ID", Some(attempt.attempt_id.to_string())),
        ("PROVOST_PROCESS_ID", Some(process.process_id.to_string())),
        ("PROVOST_SESSION_ID", Some(attempt.session_id.to_string())),
        ("PROVOST_TASK_ID", Some(attempt.task_id.to_string())),
        ("PROVOST_PROJECT_ID", Some(attempt.project_id.to_string())),
        ("PROVOST_PROJECT_NAME", Some(attempt.project_name.clone())),
        ("PROVOST_BRANCH", Some(attempt.branch.clone())),
        ("PROVOST_PROMPT", Some(process.prompt.clone()).filter(|it| it.len() <= PROMPT_MAX)),
        ("PROVOST_EXECUTOR_SESSION_ID", process.executor_session_id.clone()),
    ];
    // A NUL can't be in an environment (execve(2)).
    let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let own = own.filter(|(_, value)| !value.contains('\0'));
    let ports = ports.iter().map(|(name, port)| (name.clone(), port.to_string()));
    ports.chain(own).collect()
}
