//! What Provost needs of an executor: how to launch it, how to read its output, and, where its protocol is
//! two-way, what to send. Adapters live outside this crate; all here is pure.
//!
//! The client's side of a two-way protocol is a [`Normalizer`] too: its messages are a function of the raw
//! entries, and each has a key of its own. So the next daemon reads the entries again, derives the same
//! messages, and sends those that are not on file as sent.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{Action, ErrorType, Event, RawEntry, Timestamp, TokenUsage};
use crate::limits::{Limits, OnLeaseLate};
use crate::sandbox::Wanted;

/// Why an executor can't run, as the rest of a sentence.
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
    /// Agents in a sandbox can write where its program is, so they could replace it. The text says where.
    #[error("{0}")]
    Replaceable(String),
}

/// An executor as `list_executors` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
pub struct Description {
    pub name: String,
    /// The name of its protocol in the configuration.
    pub protocol: &'static str,
    pub variants: Vec<String>,
    pub default_variant: Option<String>,
    /// Its agent can call the tools of Provost.
    pub supports_mcp: bool,
    /// A later turn can continue what an earlier one has done.
    pub supports_resume: bool,
    /// Its protocol has an interrupt. Others are interrupted by SIGINT.
    pub supports_interrupt: bool,
    /// One of its variants can ask for permission.
    pub supports_approvals: bool,
    /// It is scripted and has no model: for tests.
    pub stand_in: bool,
    /// `None`: it can run.
    pub unavailable: Option<Unavailable>,
    /// How to install its program.
    pub install: Option<String>,
    pub note: Option<String>,
}

/// What one turn is launched with.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// The attempt's id.
    pub attempt: String,
    /// The number of the turn in the attempt, from 1.
    pub number: u32,
    pub prompt: String,
    pub variant: Option<String>,
    /// The conversation to resume; `None`: a new one.
    pub executor_session_id: Option<String>,
    /// That conversation stays as it is: the turn continues in a copy of it.
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
    /// The environment of the server: some CLIs give their servers none of their own.
    pub env: BTreeMap<String, String>,
}

/// A command line, without what is the same for all executors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Absolute path of the program.
    pub program: PathBuf,
    pub args: Vec<String>,
    /// What the log shows as its command; `None`: the program and its arguments.
    pub shown_as: Option<String>,
    /// Variables beside those that every executor gets.
    pub env: BTreeMap<String, String>,
    pub stdin: Stdin,
    /// Files that the CLI reads, by their names in [`Turn::scratch`].
    pub files: BTreeMap<String, Vec<u8>>,
    /// What [`Executor::normalizer`] has to know of the launch, now and after each restart: it is kept
    /// beside the process.
    pub dialogue: Value,
}

/// The standard input that a process gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stdin {
    Empty,
    /// These bytes, and then the end of the input.
    Bytes(Vec<u8>),
    /// A pipe that stays open until the turn has ended: the protocol is two-way.
    Open,
}

/// A coding-agent CLI, or anything configured as one.
#[async_trait]
pub trait Executor: Send + Sync {
    /// What it is, and whether it can run now: its program is looked up at each call.
    fn describe(&self) -> Description;

    /// The version of the installed program; `None`: it is not known. The first time it takes seconds.
    async fn version(&self) -> Option<String> {
        None
    }

    /// Whether the program says that it has credentials; `None` if it does not say. The program is asked
    /// each time, which takes seconds.
    async fn is_logged_in(&self) -> Option<bool> {
        None
    }

    /// Why the program is not asked about its version and login, in a sentence without its full stop;
    /// `None`: it is asked.
    fn unasked_reason(&self) -> Option<String> {
        None
    }

    /// The command line of a turn. `Err` is a sentence that becomes the failure of the turn.
    fn launch(&self, turn: &Turn) -> Result<Launch, String>;

    /// The command line of its own terminal interface, for a person who continues a session; `None`: there
    /// is none. `Err` is a sentence.
    fn resume(&self, _variant: Option<&str>, _session: &str) -> Result<Option<Launch>, String> {
        Ok(None)
    }

    /// A reader for the output of one process; `dialogue` is its [`Launch::dialogue`].
    fn normalizer(&self, dialogue: &Value) -> Box<dyn Normalizer>;

    /// The message that gives it the verdict on a request; `None`: its protocol has none.
    fn answer(&self, _request: &Request, _verdict: &Verdict) -> Option<Message> {
        None
    }

    /// Whether a turn without a session gets a summary of the earlier turns in its prompt.
    fn takes_recaps(&self) -> bool {
        false
    }

    /// Whether a later turn knows by itself what the earlier ones did, without a session and without a
    /// summary.
    fn remembers_turns(&self) -> bool {
        false
    }

    /// Whether it can continue in a copy of a conversation, from another worktree, too.
    fn forks_sessions(&self) -> bool {
        false
    }

    /// The sandbox that the configuration asks for around a turn of this variant.
    fn sandbox(&self, _variant: Option<&str>) -> Wanted {
        Wanted::default()
    }

    /// A sentence without its full stop, for an executor whose turns run without a sandbox although its
    /// configuration does not say so; `None` for all others.
    fn unboxed_reason(&self) -> Option<&'static str> {
        None
    }

    /// What happens to its processes while the renewal of their host's lease is late.
    fn on_lease_late(&self) -> OnLeaseLate {
        OnLeaseLate::default()
    }

    /// The labels that the host of its attempts must have.
    fn labels(&self) -> Vec<String> {
        Vec::new()
    }

    /// Bytes of the host's memory that each of its attempts asks for; 0: none.
    fn memory(&self) -> u64 {
        0
    }

    /// How many of its attempts may run at once, on all hosts of the board together; `None`: any number.
    fn max_running(&self) -> Option<u64> {
        None
    }

    /// What happens to a turn that a rate limit has ended.
    fn on_quota(&self) -> OnQuota {
        OnQuota::default()
    }

    /// Whether its assistant messages are the lines of one answer, so that together they are the final
    /// message.
    fn answers_in_lines(&self) -> bool {
        false
    }
}

/// What happens to a turn that a rate limit has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnQuota {
    /// The daemon resumes it when the limit ends, at the time that the executor reported.
    Auto,
    /// It waits for a client to resume it.
    #[default]
    Ask,
    /// The turn has failed, as by any other error.
    Never,
}

/// A line for the executor's standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Unique within the process: a message is sent at most once for each key.
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
    /// What it wants to do, in one line.
    pub text: String,
    pub action: Action,
    /// It asks a question instead: no permission is given or refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<AgentQuestion>,
    /// What [`Executor::answer`] needs in addition.
    pub context: Value,
}

/// The answers that are possible to a question of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentQuestion {
    /// The answers that the agent offers; empty: none.
    pub options: Vec<String>,
    /// Any other text is an answer, too.
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

/// How a turn ended, as the executor reported it. Outranks the exit code of its process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnded {
    pub failed: bool,
    pub error: Option<String>,
    #[serde(default)]
    pub error_type: Option<ErrorType>,
    /// When the limit that ended the turn is over, if the executor says so.
    #[serde(default)]
    pub resume_at: Option<Timestamp>,
}

/// What a normalizer makes of the raw channel.
#[derive(Clone, Debug, PartialEq)]
pub enum Observed {
    /// An entry of the normalized channel.
    Entry(Event),
    /// The end of a message that is still being streamed; `None`: none is.
    InProgress(Option<InProgress>),
    /// The executor's own id of the conversation.
    ExecutorSession(String),
    /// It does not know the conversation that it should resume: the next turn begins a new one.
    SessionLost,
    /// Tokens used by the turn so far.
    Usage(TokenUsage),
    /// The service of the model has failed in this way, and the executor tries again.
    Retrying(String),
    /// A message for the executor.
    Say(Message),
    /// The executor waits for a permission.
    Ask(Request),
    /// The executor no longer waits for this permission.
    Withdraw { key: String },
    /// The message that interrupts the turn from now on; `None`: a signal has to.
    Interrupt(Option<Message>),
    /// The executor reports the turn's end. Its standard input is closed then.
    TurnEnded(TurnEnded),
    /// The executor has answered, and continues by itself when its work in the background has ended.
    RoundEnded,
    /// The turn has ended in this way if the executor now writes nothing for so many seconds; `None`: the
    /// turn continues.
    EndsIfQuiet(Option<(u64, TurnEnded)>),
}

/// A message that has begun and is not complete.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct InProgress {
    pub kind: String,
    pub text: String,
}

/// Reads one process's raw entries, in order, into normalized ones. Deterministic, also when its state is
/// saved and restored in between: the log relies on that after each restart. Never fails: what it does not
/// understand becomes a `system_message`.
pub trait Normalizer: Send {
    /// The process is about to start: gives the first messages of a two-way protocol.
    fn begin(&mut self, _out: &mut Vec<Observed>) {}

    /// Reads one entry, and adds to `out` what it makes of that.
    fn raw(&mut self, entry: RawEntry, out: &mut Vec<Observed>);

    /// The process has ended, and all of its entries were read.
    fn end(&mut self, out: &mut Vec<Observed>);

    /// The state, for [`restore`](Self::restore); null: it has none.
    fn checkpoint(&self) -> Value {
        Value::Null
    }

    /// Continues from a state that [`checkpoint`](Self::checkpoint) gave, perhaps in another version of
    /// Provost.
    fn restore(&mut self, _checkpoint: &Value) {}
}

/// The executors that are configured.
pub trait Executors: Send + Sync {
    /// The executor of this name; `None`: it is not configured, or no longer.
    fn get(&self, name: &str) -> Option<Arc<dyn Executor>>;
    fn limits(&self, name: &str) -> Limits;
    /// Whether its agents start attempts of their own.
    fn orchestrates(&self, name: &str) -> bool;
    /// All executors, in a fixed order.
    fn all(&self) -> Vec<Arc<dyn Executor>>;
}

/// Reads output that has no protocol: of processes that outlive their turn, and of executors that are no
/// longer configured.
pub struct PlainLines;

impl Normalizer for PlainLines {
    fn raw(&mut self, entry: RawEntry, out: &mut Vec<Observed>) {
        out.push(Observed::Entry(Event::SystemMessage { text: entry.text }));
    }

    fn end(&mut self, _: &mut Vec<Observed>) {}
}
