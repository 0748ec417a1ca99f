//! How far a tool reaches for a caller inside an attempt, and refusals for one that asks for more than it
//! may. Pure.

use provost_actors::refusal::{Code, Refusal};

use super::Caller;

/// How far a tool of the board reaches for an attempt whose executor is configured as an orchestrator: the
/// attempts that it started, and its project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// The tool is a person's to call.
    Never,
    /// It shows nothing of any project.
    OfNoProject,
    /// It names what it is about, all of which has to be within reach.
    Named,
    /// The same, with one of these arguments: without them it reaches beyond one project, or none of them
    /// says how far.
    NamedBy(&'static [&'static str]),
}

/// Who calls, as far as it is known, and the way out that a refusal names.
fn described(caller: &Caller) -> (String, &'static str) {
    match caller.place.attempt() {
        Some(attempt) => (
            format!("the caller runs inside attempt {attempt}"),
            "Leave it to a person outside of the attempt, who may also give this executor \
             `role = \"orchestrator\"` in config.toml. Or call getNextTask for work, or \
             askQuestion for what a person has to decide.",
        ),
        None => (
            "the daemon can't see that the caller runs outside of all attempts, so it counts \
             as inside one"
                .to_owned(),
            "Run it again as a process that lives until it is answered, in the daemon's own PID \
             namespace (not in a container), where /proc shows its parents (no hidepid).",
        ),
    }
}

/// A tool or a method that is not for a caller inside an attempt.
pub fn refused(caller: &Caller, what: &str) -> Refusal {
    let (who, way_out) = described(caller);
    refusal(caller, what, format!("{what} is not permitted: {who}"), way_out)
}

/// A call that names something beyond the caller's reach.
pub fn too_far(caller: &Caller, tool: &str, argument: &str, id: &str) -> Refusal {
    let message = format!(
        "{tool} is not permitted with {argument} {id:?}: {}, and reaches its own project and the \
         attempts that it started",
        described(caller).0
    );
    let hint = "Call get_context for its project_id, or start_task_attempt to start an attempt.";
    refusal(caller, tool, message, hint).detail("path", argument)
}

/// A call that leaves open what it is about.
pub fn lacking(caller: &Caller, tool: &str, arguments: &[&str]) -> Refusal {
    let (all, argument) = (arguments.join(" or "), arguments.last().copied().unwrap_or_default());
    let message = format!("{tool} is permitted with {all} only: {}", described(caller).0);
    let hint = format!("Call {tool} again with {argument}.");
    refusal(caller, tool, message, &hint).detail("path", argument)
}

fn refusal(caller: &Caller, what: &str, message: String, hint: &str) -> Refusal {
    let refusal = Refusal::new(Code::NotPermitted, message).hint(hint).detail("tool", what);
    match caller.place.attempt() {
        Some(attempt) => refusal.detail("attempt_id", attempt.to_string()),
        None => refusal,
    }
}
