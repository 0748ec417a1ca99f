//! What Provost needs of an executor: how to launch it, how to read its output, and, where
//! its protocol is two-way, what to send. Adapters live outside this crate; all here is pure.
//!
//! The client's side of a two-way protocol is a [`Normalizer`] too: its messages are a
//! function of the raw entries, each under a key of its own. So the next daemon reads the
//! entries again, derives the same messages, and sends those that are not on file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{Action, ErrorType, Event, RawEntry, Timestamp, TokenUsage};
use crate::limits::{Limits, OnLeaseLate};
use crate::sandbox::Wanted;

/// Why an executor can't run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    #[error("it has no command")]
    NoCommand,
    #[error("{0} is not on the daemon's PATH")]
    NotOnPath(String),
    #[error("{0} is a relative path; give an absolute one, or a name on PATH")]
    RelativePath(String),
    #[error("{0} does not exist")]
    Missing(String),
    #[error("{0} is not executable")]
    NotExecutable(String),
    /// Agents in a sandbox can write where its program is.
    #[error("{0}")]
    Replaceable(String),
}

/// An executor as `list_executors` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
pub struct Description {
    pub name: String,
    /// Its protocol's name in the configuration.
    pub protocol: &'static str,
    pub variants: Vec<String>,
    pub default_variant: Option<String>,
    pub supports_mcp: bool,
    pub supports_resume: bool,
    /// Its protocol has an interrupt; others are interrupted by SIGINT.
    pub supports_interrupt: bool,
    /// A variant of it can ask for permission.
    pub supports_approvals: bool,
    /// It is scripted and has no model.
    pub stand_in: bool,
    /// `None`: it can run.
    pub unavailable: Option<Unavailable>,
    pub install: Option<String>,
    pub note: Option<String>,
}

/// What one turn is launched with.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// The attempt's id.
    pub attempt: String,
    /// From 1.
    pub number: u32,
    pub prompt: String,
    pub variant: Option<String>,
    /// The conversation to resume.
    pub executor_session_id: Option<String>,
    /// That one stays as it is: the turn goes on in a copy of it.
    pub forks: bool,
    /// Where the process starts: an absolute path.
    pub cwd: PathBuf,
    /// Where [`Launch::files`] will be: an absolute path, of this process alone.
    pub scratch: PathBuf,
    pub mcp: McpServer,
}

/// This daemon as an MCP server (stdio) for the worker of one attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpServer {
    pub name: &'static str,
    /// Absolute path of the program.
    pub command: PathBuf,
    pub args: Vec<String>,
    /// Needed also by a CLI that gives its servers none of its own environment.
    pub env: BTreeMap<String, String>,
}

/// A command line, less what is the same for all executors.
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
    /// Launch state for [`Executor::normalizer`], now and after every restart.
    pub dialogue: Value,
}

/// The standard input of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stdin {
    Empty,
    Bytes(Vec<u8>),
    /// A pipe that stays open until the turn has ended: the protocol is two-way.
    Open,
}

/// A coding-agent CLI, or anything configured as one.
#[async_trait]
pub trait Executor: Send + Sync {
    fn describe(&self) -> Description;

    /// The version of the installed program, if known: within seconds the first time.
    async fn version(&self) -> Option<String> {
        None
    }

    /// Whether the program says that it has credentials; `None` if it does not say it. It is asked
    /// anew each time, within seconds.
    async fn is_logged_in(&self) -> Option<bool> {
        None
    }

    /// Why the program is not asked about itself, in a sentence without its full stop; `None`: it
    /// is asked.
    fn unasked_reason(&self) -> Option<String> {
        None
    }

    /// The command line of a turn. `Err` is a sentence.
    fn launch(&self, turn: &Turn) -> Result<Launch, String>;

    /// The command line of its own terminal interface, for a person who goes on with a session;
    /// `None`: none is known. `Err` is a sentence.
    fn resume(&self, _variant: Option<&str>, _session: &str) -> Result<Option<Launch>, String> {
        Ok(None)
    }

    /// A reader for one process; `dialogue` is its [`Launch::dialogue`].
    fn normalizer(&self, dialogue: &Value) -> Box<dyn Normalizer>;

    /// The message with the verdict on a request; `None`: the protocol has none.
    fn answer(&self, _request: &Request, _verdict: &Verdict) -> Option<Message> {
        None
    }

    /// A turn without a session has a summary of those before it in its prompt.
    fn takes_recaps(&self) -> bool {
        false
    }

    /// Its later turns go on with the ones before by themselves.
    fn remembers_turns(&self) -> bool {
        false
    }

    /// It can go on in a copy of a conversation, from another worktree too.
    fn forks_sessions(&self) -> bool {
        false
    }

    /// The box that is asked for around a turn of this variant.
    fn sandbox(&self, _variant: Option<&str>) -> Wanted {
        Wanted::default()
    }

    /// What its configuration leaves unsaid: that its turns run without a box. A sentence without its full
    /// stop.
    fn unboxed_reason(&self) -> Option<&'static str> {
        None
    }

    /// What becomes of its processes while the lease of their host is late.
    fn on_lease_late(&self) -> OnLeaseLate {
        OnLeaseLate::default()
    }

    /// What the host of its attempts has to have.
    fn labels(&self) -> Vec<String> {
        Vec::new()
    }

    /// Bytes of the host's memory that each of its attempts asks for; 0: it is not counted.
    fn memory(&self) -> u64 {
        0
    }

    /// How many of its attempts run at once, on all hosts of the board together; `None`: any.
    fn max_running(&self) -> Option<u64> {
        None
    }

    fn on_quota(&self) -> OnQuota {
        OnQuota::default()
    }

    /// Its assistant messages are the lines of one answer.
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
    /// Unique within the process: no message is sent twice.
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
    /// It asks a question: no permission is given or refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<AgentQuestion>,
    /// For [`Executor::answer`].
    pub context: Value,
}

/// What can be answered to a question of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentQuestion {
    pub options: Vec<String>,
    /// Any other text is an answer too.
    pub is_open: bool,
}

/// The decision on a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    Approve,
    Deny {
        reason: String,
    },
    /// To a [question](Request::question).
    Answer {
        text: String,
    },
}

/// How a turn ended, as the executor reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnded {
    pub failed: bool,
    pub error: Option<String>,
    #[serde(default)]
    pub error_type: Option<ErrorType>,
    /// When the limit that ended the turn ends.
    #[serde(default)]
    pub resume_at: Option<Timestamp>,
}

/// What a normalizer makes of the raw channel.
#[derive(Clone, Debug, PartialEq)]
pub enum Observed {
    Entry(Event),
    /// The tail of a message that is still streamed.
    InProgress(Option<InProgress>),
    /// The executor's own id of the conversation.
    ExecutorSession(String),
    /// It does not know the conversation to resume: the next turn begins a new one.
    SessionLost,
    /// Tokens used by the turn so far.
    Usage(TokenUsage),
    /// The executor tries again after this fault of its model's service.
    Retrying(String),
    /// To be sent to the executor.
    Say(Message),
    /// The executor waits for a permission.
    Ask(Request),
    /// The executor no longer waits for this permission.
    Withdraw {
        key: String,
    },
    /// The message that interrupts the turn from now on; `None`: a signal does.
    Interrupt(Option<Message>),
    /// Outranks the exit code. Closes the executor's standard input.
    TurnEnded(TurnEnded),
    /// The executor has answered, and goes on by itself once its work in the background has ended.
    RoundEnded,
    /// The turn has ended so if the executor writes nothing for so many seconds; `None`: it goes on.
    EndsIfQuiet(Option<(u64, TurnEnded)>),
}

/// A message that has begun and not ended.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct InProgress {
    pub kind: String,
    pub text: String,
}

/// Reads one process's raw entries, in order, into normalized ones. Deterministic, also when
/// it is checkpointed and restored in between. Never fails: what it doesn't understand
/// becomes a `system_message`.
pub trait Normalizer: Send {
    /// The process is about to start: the first messages of a two-way protocol.
    fn begin(&mut self, _out: &mut Vec<Observed>) {}

    fn raw(&mut self, entry: RawEntry, out: &mut Vec<Observed>);

    /// The process has ended, and all its entries were given.
    fn end(&mut self, out: &mut Vec<Observed>);

    /// The state to restore later.
    fn checkpoint(&self) -> Value {
        Value::Null
    }

    fn restore(&mut self, _checkpoint: &Value) {}
}

/// The executors that can be named in `start_task_attempt`.
pub trait Executors: Send + Sync {
    fn get(&self, name: &str) -> Option<Arc<dyn Executor>>;
    fn limits(&self, name: &str) -> Limits;
    /// Whether its agents start attempts of their own.
    fn orchestrates(&self, name: &str) -> bool;
    /// In a fixed order.
    fn all(&self) -> Vec<Arc<dyn Executor>>;
}

/// Output without a protocol: of leftovers, and of executors no longer configured.
pub struct PlainLines;

impl Normalizer for PlainLines {
    fn raw(&mut self, entry: RawEntry, out: &mut Vec<Observed>) {
        out.push(Observed::Entry(Event::SystemMessage { text: entry.text }));
    }

    fn end(&mut self, _: &mut Vec<Observed>) {}
}
