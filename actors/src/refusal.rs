//! Every reason to say no, in one place: the code a client sees, whether the
//! same call may work later, and the hint that leads to the right call. Pure.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $text:literal $retryable:literal $hint:literal,)*) => {
        /// The error codes. The set and the spellings are part of the outside
        /// behaviour: never rename one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl Code {
            /// All codes, in the order in which they are documented.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The spelling on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Whether the fault may pass by itself, so that the same call can work later.
            #[must_use]
            pub fn retryable(self) -> bool {
                match self { $(Self::$name => $retryable,)* }
            }

            /// The general way out; a refusal's own hint is usually more exact.
            #[must_use]
            pub fn hint(self) -> &'static str {
                match self { $(Self::$name => $hint,)* }
            }
        }
    };
}

codes! {
    MissingRequired "missing_required" false "Call the tool again with the field that details.path names.",
    InvalidArgument "invalid_argument" false "Call the tool again with details.path changed to what the message asks for.",
    UnknownField "unknown_field" false "Call the tool again without the field that details.path names.",
    AmbiguousTarget "ambiguous_target" false "Call the tool again with exactly one of the two target ids.",
    MixedPagination "mixed_pagination" false "Call the tool again with either cursor (older) or after_entry_index (newer), not both.",
    ProjectNotFound "project_not_found" false "Call list_projects and use a project_id from it.",
    RepoNotFound "repo_not_found" false "Call list_repos with project_id and use a repo_id from it.",
    TaskNotFound "task_not_found" false "Call list_tasks with project_id and use a task_id from it.",
    AttemptNotFound "attempt_not_found" false "Call list_task_attempts with task_id and use an attempt_id from it.",
    SessionNotFound "session_not_found" false "Call get_attempt_status with attempt_id and use its latest_session_id.",
    FileNotFound "file_not_found" false "Call get_attempt_changes with attempt_id and use a path from its files.",
    ExecutorNotFound "executor_not_found" false "Call list_executors and use one of its executor values.",
    VariantNotFound "variant_not_found" false "Call list_executors and use one of that executor's variants, or leave variant out.",
    ExecutorUnavailable "executor_unavailable" false "Call list_executors and use one with available = true, or install the program that unavailable_reason names.",
    BranchNotFound "branch_not_found" false "Call list_repos with project_id to see the default branch, and give a target_branch that exists.",
    NoSessionYet "no_session_yet" true "Call get_attempt_status with attempt_id and try again once latest_session_id is not null.",
    TurnActive "turn_active" true "Call get_attempt_status with attempt_id and try again once state is not running, or call stop_attempt first.",
    AttemptRunning "attempt_running" true "Call stop_attempt with the attempt_id in details, then try again.",
    IdempotencyConflict "idempotency_conflict" false "Call the tool again with a new request_id; this one was used for another payload.",
    WorkspaceFailed "workspace_failed" false "Mend what the message names in the repository, then call the tool again.",
    SpawnFailed "spawn_failed" false "Call list_executors to see what can run, mend what the message names, then call start_task_attempt again.",
    StorageFull "storage_full" true "Free disk space where PROVOST_HOME lies, then call the tool again.",
    RateLimited "rate_limited" true "Wait for some of the calls in flight to end, then call the tool again.",
    NotPermitted "not_permitted" false "Use a tool of this connection's role; provost tools --role lists them.",
    DependencyCycle "dependency_cycle" false "Call the tool again with depends_on free of the cycle in details.",
    DaemonUnavailable "daemon_unavailable" true "Start the daemon with `provost daemon`, then call the tool again.",
    DaemonRestarting "daemon_restarting" true "Call the tool again; the daemon is coming back.",
    ShuttingDown "shutting_down" true "Call the tool again once the daemon runs again.",
    Internal "internal" false "This is a fault in Provost; see the daemon's log. get_attempt_status tells what is true now.",
}

/// A refused call: what is wrong, and the next call that helps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub code: Code,
    /// One sentence that says what failed.
    pub message: String,
    /// Names the next tool and field; following it word for word works.
    pub hint: String,
    /// Small facts for programs: `path`, ids, nearest names.
    pub details: Map<String, Value>,
}

impl Refusal {
    /// A refusal with its code's general hint. The message is made a sentence.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = sentence(&message.into());
        Self { code, message, hint: code.hint().to_owned(), details: Map::new() }
    }

    /// Replaces the hint by a more exact one.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// What leaves through every door. The order of the fields is part of it:
    /// `error` comes first, for some clients hide that a result is one.
    #[must_use]
    pub fn envelope(&self) -> Value {
        #[derive(Serialize)]
        struct Envelope<'a> {
            error: &'a str,
            code: Code,
            message: &'a str,
            retryable: bool,
            hint: &'a str,
            #[serde(skip_serializing_if = "Map::is_empty")]
            details: &'a Map<String, Value>,
        }
        let envelope = Envelope {
            error: &self.message,
            code: self.code,
            message: &self.message,
            retryable: self.code.retryable(),
            hint: &self.hint,
            details: &self.details,
        };
        // Strings, a bool and a map of JSON always serialize.
        serde_json::to_value(envelope).unwrap_or_default()
    }

    /// A fault of ours: its text goes to the client and, by the caller, to the log.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }
}

/// One line that begins with a capital, where it begins with a plain word, and
/// ends with a full stop: what other programs say is made of many pieces.
fn sentence(text: &str) -> String {
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_word =
        words.split(' ').next().is_some_and(|it| it.bytes().all(|b| b.is_ascii_alphabetic()));
    if let Some(first) = words.get_mut(..1).filter(|_| is_word) {
        first.make_ascii_uppercase();
    }
    if !words.ends_with(['.', '!', '?']) {
        words.push('.');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_sentence_whatever_it_is_made_of() {
        let message = |text: &str| Refusal::new(Code::Internal, text).message;
        assert_eq!(message("there is no task x"), "There is no task x.");
        assert_eq!(message("/tmp: fatal:\n  not here\n"), "/tmp: fatal: not here.");
        assert_eq!(message("Übrig."), "Übrig.");
        assert_eq!(message("get_task needs `x`"), "get_task needs `x`.");
    }

    #[test]
    fn every_code_has_a_spelling_of_its_own_and_a_hint() {
        let spellings: std::collections::BTreeSet<_> =
            Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(spellings.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(code.hint().ends_with('.'), "{}", code.as_str());
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }
}
