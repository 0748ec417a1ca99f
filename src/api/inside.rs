//! What the tools of the board allow a caller inside an attempt, and the refusals of what they do not allow.
//! Pure.

use provost_actors::refusal::{Code, Refusal};

use super::Caller;

/// How a tool of the board is limited for an attempt with the role of an orchestrator. Within its reach are
/// the attempts that it started, and its own project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// The tool is for persons only.
    Never,
    /// The tool shows nothing of any project, so it needs no limit.
    OfNoProject,
    /// The call names what it is about, and everything it names must be within reach.
    Named,
    /// The same, and the call must give one of these arguments: without them it would reach beyond one
    /// project, or nothing in it would say how far it reaches.
    NamedBy(&'static [&'static str]),
}

/// Who the caller is, as far as the daemon knows, and the way out that the refusal offers.
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

/// The refusal of a tool or method that callers inside an attempt may not call.
pub fn refused(caller: &Caller, what: &str) -> Refusal {
    let (who, way_out) = described(caller);
    refusal(caller, what, format!("{what} is not permitted: {who}"), way_out)
}

/// The refusal of a call that names something beyond the caller's reach.
pub fn too_far(caller: &Caller, tool: &str, argument: &str, id: &str) -> Refusal {
    let message = format!(
        "{tool} is not permitted with {argument} {id:?}: {}, and reaches its own project and the \
         attempts that it started",
        described(caller).0
    );
    let hint = "Call get_context for its project_id, or start_task_attempt to start an attempt.";
    refusal(caller, tool, message, hint).detail("path", argument)
}

/// The refusal of a call without any of the arguments that [`Inside::NamedBy`] asks for.
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
