//! Why calls are refused: the code, whether the same call may work later, and the hint that leads to the
//! right call. Pure.
//!
//! Models and programs read a hint. A hint that names a call begins with a sentence of one of these forms;
//! any other hint asks for something that no call can do. T and U are tools, F and G fields (or paths such
//! as `repos[0].path`), V is JSON or a member of the details:
//!
//! ```text
//! Call T again with F = V and G = W.          Call T again with F from U.
//! Call T again with F = V instead of G and H. Call T again with F = V.
//! Call T again with F instead of G.           Call T again without F and G.
//! Call T again with exactly one of F and G.   Call T again with a new request_id.
//! Call T again with F, what it must be.       Call T again with one or more of F, G.
//! Call T again when ….                        Call U instead.
//! Call U with F = V, then T again.            Call U until …, then T again.
//! Call U with F = V instead.
//! ```
//!
//! A hint never directs a destructive call to another target, and does not begin with a way around a guard.
//! "The tool" is the tool that was called; [`Refusal::of_tool`] puts its name there.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::text::cut;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $text:literal $retryable:literal $hint:literal,)*) => {
        /// The error codes. They are outside behaviour: never rename one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl Code {
            /// All codes, in the order in which they are documented.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The spelling on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Whether the fault may pass by itself, so that the same call can work later.
            pub fn retryable(self) -> bool {
                match self { $(Self::$name => $retryable,)* }
            }

            /// Whether the store can't be used now: disk full, database locked or gone.
            pub fn is_of_store(self) -> bool {
                matches!(self, Self::StorageFull | Self::DbLocked | Self::DbUnavailable)
            }

            /// The general way out; a refusal's own hint is usually more exact.
            pub fn hint(self) -> &'static str {
                match self { $(Self::$name => $hint,)* }
            }
        }
    };
}

codes! {
    MissingRequired "missing_required" false "Call the tool again with details.path, as the message says.",
    InvalidArgument "invalid_argument" false "Call the tool again with details.path, as the message says.",
    UnknownField "unknown_field" false "Call the tool again without details.path.",
    AmbiguousTarget "ambiguous_target" false "Call the tool again with exactly one of the fields in details.fields.",
    MixedPagination "mixed_pagination" false "Call the tool again with exactly one of cursor (older) and after_entry_index (newer).",
    ProjectNotFound "project_not_found" false "Call the tool again with project_id from list_projects.",
    RepoNotFound "repo_not_found" false "Call the tool again with repo_id from list_repos.",
    TaskNotFound "task_not_found" false "Call the tool again with task_id from list_tasks.",
    AttemptNotFound "attempt_not_found" false "Call the tool again with attempt_id from list_task_attempts.",
    SessionNotFound "session_not_found" false "Call the tool again with session_id from get_attempt_status.",
    TurnNotFound "turn_not_found" false "Call the tool again with to_turn, one of details.turns.",
    TicketNotFound "ticket_not_found" false "Call the tool again with question_id from list_inbox.",
    QuestionNotFound "question_not_found" false "Call the tool again with question_id from list_inbox.",
    FileNotFound "file_not_found" false "Call the tool again with path from get_attempt_changes.",
    ExecutorNotFound "executor_not_found" false "Call the tool again with executor from list_executors.",
    VariantNotFound "variant_not_found" false "Call the tool again without variant.",
    ExecutorUnavailable "executor_unavailable" false "Call the tool again with executor from list_executors, one with available = true.",
    BranchNotFound "branch_not_found" false "Call the tool again with target_branch, a branch that exists.",
    NoSessionYet "no_session_yet" true "Call get_attempt_status until latest_session_id is not null, then the tool again.",
    TurnActive "turn_active" true "Call get_attempt_status until state is not running, then the tool again. Or call stop_attempt first.",
    AttemptRunning "attempt_running" true "Call stop_attempt with attempt_id = details.attempt_id, then the tool again.",
    IdempotencyConflict "idempotency_conflict" false "Call the tool again with a new request_id.",
    CheckoutInTheWay "checkout_in_the_way" true "Commit, stash or remove what the message names, then call the tool again.",
    WorkspaceFailed "workspace_failed" false "Fix the problem in the repository that the message names, then call the tool again.",
    SpawnFailed "spawn_failed" false "Fix the problem that the message names, then call the tool again. list_executors shows what can run.",
    SandboxUnavailable "sandbox_unavailable" false "Run Provost on a kernel with Landlock, Linux 6.2 or later (`provost doctor` shows it), or write sandbox = \"none\" for the executor in config.toml and restart the daemon. Then call the tool again. A built-in executor also has the variant \"unsafe\", which nothing holds.",
    InvalidState "invalid_state" false "Call getNextTask instead.",
    TokenLimitExceeded "token_limit_exceeded" false "Call the tool again with context, shorter than it was.",
    Timeout "timeout" true "Call createTicket instead.",
    DbLocked "db_locked" true "Call the tool again when details.retry_after_seconds have passed.",
    DbUnavailable "db_unavailable" true "Repair the database of PROVOST_HOME, then call the tool again. `provost doctor` shows what is wrong with it.",
    StorageFull "storage_full" true "Free disk space where PROVOST_HOME lies, then call the tool again.",
    RateLimited "rate_limited" true "Call the tool again when some of the calls in flight have ended.",
    Elsewhere "elsewhere" false "Ask the daemon of the host that details.host names.",
    NotPermitted "not_permitted" false "Use a tool of this connection's role; provost tools --role lists them.",
    DependencyCycle "dependency_cycle" false "Call the tool again with depends_on, free of the cycle in details.cycle.",
    DaemonUnavailable "daemon_unavailable" true "Start the daemon with `provost daemon`, then call the tool again.",
    DaemonRestarting "daemon_restarting" true "Call the tool again when the daemon is back.",
    ShuttingDown "shutting_down" true "Call the tool again when the daemon runs again.",
    Internal "internal" false "See the daemon's log: this is a fault in Provost. get_attempt_status shows the current state.",
}

/// A refused call: what is wrong, and the next call that helps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub code: Code,
    /// One sentence that says what failed.
    pub message: String,
    /// Names the next tool and field, and works if followed literally.
    pub hint: String,
    /// Facts for programs: `path` names the argument, others are ids, nearest names and the like.
    pub details: Map<String, Value>,
}

impl Refusal {
    /// A refusal with its code's general hint. The message is made one sentence: a capital, a full stop, no
    /// line breaks, and at most 4,000 characters.
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

    /// Replaces "the tool" in the hint by the name of the tool that was called.
    #[must_use]
    pub fn of_tool(mut self, tool: &str) -> Self {
        self.hint = self.hint.replace("the tool again", &format!("{tool} again"));
        self
    }

    /// Adds a fact; a text is cut to 4,096 characters.
    #[must_use]
    pub fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        let value = match value.into() {
            Value::String(text) => Value::String(cut(text, DETAIL_MAX)),
            value => value,
        };
        self.details.insert(key.to_owned(), value);
        self
    }

    /// The JSON that clients get. `error` comes first: some clients do not show that a result is an error.
    pub fn envelope(&self) -> Value {
        let mut envelope = json!({
            "error": self.message,
            "code": self.code,
            "message": self.message,
            "retryable": self.code.retryable(),
            "hint": self.hint,
        });
        if !self.details.is_empty() {
            envelope["details"] = self.details.clone().into();
        }
        envelope
    }

    /// The refusal where git failed; `is_shortage`: the machine lacks something to run it.
    pub fn of_git(message: String, is_shortage: bool) -> Self {
        if is_shortage {
            Self::shortage(message)
        } else {
            Self::new(Code::WorkspaceFailed, message)
        }
    }

    /// The machine, or the daemon's limits, have too few resources left at this time.
    pub fn shortage(message: impl Into<String>) -> Self {
        Self::new(Code::DaemonUnavailable, message).hint(
            "Call the tool again when fewer attempts run. There are too few descriptors, \
             processes or too little memory left: `provost doctor` shows the limits.",
        )
    }

    /// A fault of Provost. Its text goes to the client; the caller logs it.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }
}

/// The hint to run one of these commands first; `commands` has each in backquotes.
pub fn run_first(commands: &str, folder: &str) -> String {
    format!("Run {commands} in `{folder}`, then call the tool again.")
}

/// Most characters of a word, and of a message: names that callers give may be of any length.
const WORD_MAX: usize = 300;
const MESSAGE_MAX: usize = 4000;
/// Most characters of a text among the details.
const DETAIL_MAX: usize = 4096;

/// Makes a text one line with a full stop; a first word of small letters only gets a capital.
fn sentence(text: &str) -> String {
    let short = |word: &str| cut(word.to_owned(), WORD_MAX);
    let words: Vec<String> = text.split_whitespace().map(short).collect();
    let mut words = cut(words.join(" "), MESSAGE_MAX);
    let is_word =
        words.split(' ').next().is_some_and(|it| it.bytes().all(|b| b.is_ascii_lowercase()));
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
        let long = Refusal::new(Code::Internal, format!("there is no {}", "x".repeat(5000)));
        let long = long.detail("name", "x".repeat(10_000));
        assert!(long.message.chars().count() < 400, "{}", long.message);
        assert!(long.details["name"].as_str().unwrap().chars().count() <= DETAIL_MAX);
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
