//! What Provost needs of an executor: how to launch it, and how to read what it
//! says. Adapters live outside this crate; everything here is pure.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::event::{Event, RawEntry, Usage};
use crate::limits::Limits;

/// An executor as `list_executors` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub name: String,
    pub variants: Vec<String>,
    pub default_variant: Option<String>,
    pub supports_mcp: bool,
    pub supports_resume: bool,
    pub supports_interrupt: bool,
    /// `None`: it can run. Else why not.
    pub unavailable_reason: Option<String>,
}

/// What one turn is launched with.
#[derive(Clone, Debug)]
pub struct Turn {
    pub prompt: String,
    pub variant: Option<String>,
    /// The executor's own id of the conversation, when a follow-up resumes it.
    pub executor_session_id: Option<String>,
}

/// A command line ready to be spawned, less what is the same for all executors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Absolute path of the program.
    pub program: PathBuf,
    pub args: Vec<String>,
    /// Added to the environment that every executor gets.
    pub env: BTreeMap<String, String>,
    pub stdin: Stdin,
}

/// What the process finds on its standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: end of file at once.
    Empty,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
    /// A pipe that stays open: the protocol is two-way.
    Open,
}

/// A coding-agent CLI, or anything configured as one.
pub trait Executor: Send + Sync {
    fn describe(&self) -> Description;

    /// The command line of a turn. `Err` says in a sentence why it can't run now.
    fn launch(&self, turn: &Turn) -> Result<Launch, String>;

    /// A reader for one process of this executor.
    fn normalizer(&self) -> Box<dyn Normalizer>;
}

/// What a normalizer makes of the raw channel.
#[derive(Clone, Debug, PartialEq)]
pub enum Observed {
    /// One entry of the normalized channel.
    Entry(Event),
    /// The tail of a message still being streamed; `None` when there is none.
    InProgress(Option<InProgress>),
    /// The executor's own id of the conversation.
    ExecutorSession(String),
    /// Tokens used by the turn so far.
    Usage(Usage),
    /// The executor itself says how the turn ended; this outranks its exit code.
    TurnEnded { failed: bool, error: Option<String> },
}

/// A message that has begun and not ended.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct InProgress {
    pub kind: String,
    pub text: String,
}

/// Reads one process's raw entries, in order, into normalized ones.
///
/// Deterministic: the same raw entries give the same output, however they are
/// cut into calls, also when it is checkpointed and restored in between. It
/// never fails: what it doesn't understand becomes a `system_message`.
pub trait Normalizer: Send {
    fn raw(&mut self, entry: &RawEntry, out: &mut Vec<Observed>);

    /// The process has ended and all it wrote has been given: flush what is open.
    fn end(&mut self, out: &mut Vec<Observed>);

    /// What must be remembered to go on from here. Default: nothing.
    fn checkpoint(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Goes on from a checkpoint of the same normalizer.
    fn restore(&mut self, _checkpoint: &serde_json::Value) {}
}

/// The executors that can be named in `start_task_attempt`.
pub trait Executors: Send + Sync {
    fn get(&self, name: &str) -> Option<Arc<dyn Executor>>;
    /// What processes of an executor may use.
    fn limits(&self, name: &str) -> Limits;
    /// In a fixed order.
    fn all(&self) -> Vec<Arc<dyn Executor>>;
}

/// The normalizer of an executor that is configured no more: its lines, as they are.
#[must_use]
pub fn unknown() -> Box<dyn Normalizer> {
    struct Unknown;
    impl Normalizer for Unknown {
        fn raw(&mut self, entry: &RawEntry, out: &mut Vec<Observed>) {
            out.push(Observed::Entry(Event::SystemMessage { text: entry.text.clone() }));
        }
        fn end(&mut self, _: &mut Vec<Observed>) {}
    }
    Box::new(Unknown)
}
