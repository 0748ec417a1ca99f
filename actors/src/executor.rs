//! What Provost needs of an executor: how to launch it, how to read what it
//! says, and, where its protocol is two-way, what to say to it. Adapters live
//! outside this crate; everything here is pure.
//!
//! The client's side of a two-way protocol is a [`Normalizer`] too: what it says
//! is a function of the raw entries, and each message has a key of its own. So a
//! daemon that was killed in the middle of a conversation reads what was said
//! again, derives the same messages, and sends those that are not on file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{Action, ErrorType, Event, RawEntry, Timestamp, Usage};
use crate::limits::Limits;

/// An executor as `list_executors` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
pub struct Description {
    pub name: String,
    /// What it speaks, as the configuration calls it.
    pub protocol: &'static str,
    pub variants: Vec<String>,
    pub default_variant: Option<String>,
    pub supports_mcp: bool,
    pub supports_resume: bool,
    /// Its protocol has an interrupt of its own; others are interrupted by SIGINT.
    pub supports_interrupt: bool,
    /// A variant of it can ask for permission.
    pub supports_approvals: bool,
    /// It is scripted and has no model.
    pub stand_in: bool,
    /// `None`: it can run. Else why not.
    pub unavailable_reason: Option<String>,
    /// How to install it, where that is known.
    pub install: Option<String>,
    /// What to know before it or a variant of it is chosen.
    pub note: Option<String>,
}

/// What one turn is launched with.
#[derive(Clone, Debug)]
pub struct Turn {
    pub prompt: String,
    pub variant: Option<String>,
    /// The executor's own id of the conversation, when a follow-up resumes it.
    pub executor_session_id: Option<String>,
    /// Where the process starts: an absolute path.
    pub cwd: PathBuf,
    /// Where [`Launch::files`] will be: an absolute path, of this process alone.
    pub scratch: PathBuf,
    /// The way back.
    pub mcp: McpServer,
}

impl Turn {
    /// One that is not to be run: what it would be launched with can be seen.
    #[must_use]
    pub fn nowhere() -> Self {
        let nowhere = PathBuf::from("/");
        Self {
            prompt: String::new(),
            variant: None,
            executor_session_id: None,
            cwd: nowhere.clone(),
            scratch: nowhere.clone(),
            mcp: McpServer {
                name: "provost",
                command: nowhere,
                args: Vec::new(),
                env: BTreeMap::new(),
            },
        }
    }
}

/// This daemon as an MCP server (stdio) for the worker of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServer {
    pub name: &'static str,
    /// Absolute path of the program.
    pub command: PathBuf,
    pub args: Vec<String>,
    /// Needed also by a CLI that gives its servers none of its own environment.
    pub env: BTreeMap<String, String>,
}

/// A command line ready to be spawned, less what is the same for all executors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Absolute path of the program.
    pub program: PathBuf,
    pub args: Vec<String>,
    /// What the log shows as its command; `None`: program and arguments.
    pub shown_as: Option<String>,
    /// Added to the environment that every executor gets.
    pub env: BTreeMap<String, String>,
    pub stdin: Stdin,
    /// Files for the CLI to read, by their name in [`Turn::scratch`].
    pub files: BTreeMap<String, Vec<u8>>,
    /// What the normalizer of this process has to know: kept with the process,
    /// and given to [`Executor::normalizer`] now and after every restart.
    pub dialogue: Value,
}

/// What the process finds on its standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: end of file at once.
    Empty,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
    /// A pipe that stays open until the turn has ended: the protocol is two-way.
    Open,
}

/// A coding-agent CLI, or anything configured as one.
#[async_trait]
pub trait Executor: Send + Sync {
    fn describe(&self) -> Description;

    /// The version of the installed program, if it can be found out: within seconds the
    /// first time, later at once.
    async fn version(&self) -> Option<String> {
        None
    }

    /// The command line of a turn. `Err` says in a sentence why it can't run now.
    fn launch(&self, turn: &Turn) -> Result<Launch, String>;

    /// A reader for one process of this executor; `dialogue` is its launch's.
    fn normalizer(&self, dialogue: &Value) -> Box<dyn Normalizer>;

    /// What tells the executor the verdict on its request; `None` where its
    /// protocol asks for none.
    fn answer(&self, _request: &Request, _verdict: &Verdict) -> Option<Message> {
        None
    }

    /// It keeps conversations under ids of its own: one without an id is new to it.
    fn keeps_sessions(&self) -> bool {
        false
    }

    /// What happens to a turn that a rate limit has ended.
    fn on_quota(&self) -> OnQuota {
        OnQuota::default()
    }

    /// Its assistant messages are lines of text: those of a turn are one answer.
    fn answers_in_lines(&self) -> bool {
        false
    }
}

/// What happens to a turn that a rate limit has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnQuota {
    /// It resumes when the limit ends, as the executor reported.
    Auto,
    /// It waits for a client to resume it.
    #[default]
    Ask,
    /// It is a failure like others.
    Never,
}

/// A line for the executor's standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Tells it from all others of the process: what has been said under a key
    /// is not said again.
    pub key: String,
    /// Without its `\n`.
    pub line: String,
}

/// A permission that the executor asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The protocol's own id of the request, unique within the process.
    pub key: String,
    pub tool_call_id: Option<String>,
    pub tool_name: String,
    /// What it wants to do, in a line.
    pub text: String,
    pub action: Action,
    /// What [`Executor::answer`] needs to know of it.
    pub context: Value,
}

/// What becomes of a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    Approve,
    Deny { reason: String },
}

/// The executor's own word on how a turn ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnded {
    pub failed: bool,
    pub error: Option<String>,
    #[serde(default)]
    pub error_type: Option<ErrorType>,
    /// When the limit that ended it ends, if the executor reported it.
    #[serde(default)]
    pub resume_at: Option<Timestamp>,
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
    /// It does not know the conversation that it was to resume: the next turn
    /// begins a new one.
    SessionLost,
    /// Tokens used by the turn so far.
    Usage(Usage),
    /// The executor tries again after a fault of its model's service, in a sentence.
    Retrying(String),
    /// To be said to the executor, after all that was to be said before.
    Say(Message),
    /// The executor waits for a permission.
    Ask(Request),
    /// It waits for the answer to this request no longer.
    Withdraw { key: String },
    /// What interrupts the turn from now on; `None`: signals do.
    Interrupt(Option<Message>),
    /// How the turn ended: outranks the exit code. The executor's standard input
    /// is closed, and the process is ended if it does not end soon.
    TurnEnded(TurnEnded),
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
    /// The process is about to start: the first messages of a two-way protocol.
    fn begin(&mut self, _out: &mut Vec<Observed>) {}

    fn raw(&mut self, entry: &RawEntry, out: &mut Vec<Observed>);

    /// The process has ended and all it wrote has been given: flush what is open.
    fn end(&mut self, out: &mut Vec<Observed>);

    /// What must be remembered to go on from here. Default: nothing.
    fn checkpoint(&self) -> Value {
        Value::Null
    }

    /// Goes on from a checkpoint of the same normalizer.
    fn restore(&mut self, _checkpoint: &Value) {}
}

/// The executors that can be named in `start_task_attempt`.
pub trait Executors: Send + Sync {
    fn get(&self, name: &str) -> Option<Arc<dyn Executor>>;
    /// What processes of an executor may use.
    fn limits(&self, name: &str) -> Limits;
    /// Whether its agents are meant to start attempts of their own.
    fn orchestrates(&self, name: &str) -> bool;
    /// In a fixed order.
    fn all(&self) -> Vec<Arc<dyn Executor>>;
}

/// The normalizer of output that has no protocol: its lines, as they are. For leftovers
/// of a process, and for an executor that is no longer configured.
pub struct PlainLines;

impl Normalizer for PlainLines {
    fn raw(&mut self, entry: &RawEntry, out: &mut Vec<Observed>) {
        out.push(Observed::Entry(Event::SystemMessage { text: entry.text.clone() }));
    }

    fn end(&mut self, _: &mut Vec<Observed>) {}
}
