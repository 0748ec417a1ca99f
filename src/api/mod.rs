//! The tools as the daemon knows them, for every protocol: inputs, outputs, descriptions and field rules, and
//! beside each group of tools the trait that answers it. Pure: this module knows no protocol and no database,
//! and calls no actor.
//!
//! The doc comments of inputs and outputs are part of the published schema. A change to one of them changes
//! the product.

#[macro_use]
mod macros;

pub mod approvals;
pub mod args;
pub mod artifacts;
pub mod attempts;
pub mod brief;
pub mod commands;
pub mod comments;
pub mod conflicts;
pub mod decisions;
pub mod descriptions;
pub mod executors;
pub mod field_path;
pub mod field_rules;
pub mod finish;
pub mod follow_up;
pub mod inside;
pub mod logs;
pub mod person;
pub mod placed;
pub mod plans;
mod prelude;
pub mod projects;
pub mod remotes;
pub mod sessions;
pub mod tasks;
pub mod timeline;
pub mod users;
pub mod waits;
pub mod window;
pub mod worker;

use std::path::PathBuf;

use async_trait::async_trait;
use provost_actors::ids::AttemptId;
pub use provost_actors::journal::{Idempotent, Key};
pub use provost_actors::process::place::CallerLocation;
pub use provost_actors::refusal::{Code, Refusal};
use provost_actors::text::{NAME_SHOWN_MAX, cut};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::inside::Inside;
use self::placed::Placed;
pub use crate::role::{Access, Role};

/// The caller of a connection: what is known about it for as long as the connection lasts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Caller {
    pub role: Role,
    /// The attempt that the caller works in; `None`: none is known.
    pub attempt: Option<AttemptId>,
    /// Where the caller's process is, as the kernel shows it. Unlike the attempt above, the
    /// caller can't make this up.
    pub place: CallerLocation,
    /// The caller is a person's command line outside of all attempts; it may call the methods of the command
    /// line.
    pub is_person: bool,
    /// The caller's name for rate limits and leases: the attempt, or the bridge.
    pub agent: String,
    pub access: Access,
    /// The caller's working directory, if it has said so.
    pub cwd: Option<PathBuf>,
    /// Who the caller is and how it is connected, for the audit log.
    pub origin: Origin,
}

/// Who calls, and by which way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The name of a user of the HTTP interface; `None`: whoever the permissions of the socket let in.
    pub user: Option<String>,
    /// The other end: such as `socket pid 4711` or `127.0.0.1:53124`.
    pub from: String,
    /// The host whose daemon has the caller's connection, if this daemon carries out the call for another
    /// one.
    pub host: Option<String>,
}

/// A call that the daemon of another host should carry out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForwardedCall {
    /// The name of the tool, or a method of the command line.
    pub tool: String,
    /// The caller, as the daemon with the connection has found it.
    pub caller: Caller,
    pub arguments: Map<String, Value>,
    /// The id that the client gave the call; a repetition of the call has the same one.
    pub id: Option<String>,
}

/// A JSON-RPC error of a method outside MCP. Any code is allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomError {
    pub code: i32,
    pub message: String,
    pub data: Option<Value>,
}

/// JSON-RPC 2.0 §5.1: the method does not exist.
const METHOD_NOT_FOUND: i32 = -32601;

impl CustomError {
    /// The error for a method that does not exist; a long name is cut.
    pub fn method_not_found(method: &str) -> Self {
        Self {
            code: METHOD_NOT_FOUND,
            message: format!("there is no method `{}`", cut(method.to_owned(), NAME_SHOWN_MAX)),
            data: None,
        }
    }

    /// Whether the method does not exist, or not for this caller.
    pub fn is_unknown_method(&self) -> bool {
        self.code == METHOD_NOT_FOUND
    }
}

/// A result for callers: a failure is a refusal, which says what to do next.
pub type Refusable<T> = Result<T, Refusal>;

/// What the daemon offers to its interfaces. A future may be dropped at any `await`, when its caller cancels
/// or disconnects: by then a change has either been given to its owner, or has not begun. `key` is `None` if
/// the caller gave no idempotency key.
pub trait Service:
    artifacts::ChangesTool
    + artifacts::FileTool
    + artifacts::PatchTool
    + attempts::AttemptTools
    + comments::CommentTools
    + decisions::DecisionTools
    + executors::ExecutorTools
    + finish::FinishTools
    + follow_up::FollowUpTools
    + logs::LogTools
    + projects::ProjectTools
    + sessions::SessionTools
    + tasks::TaskTools
    + timeline::TimelineReads
    + waits::WaitTools
    + window::WindowReads
    + worker::question::ConsultTools
    + worker::question::ImmediateTools
    + worker::next::NextTools
    + worker::question::AskTools
    + worker::ReportTools
    + Reach
    + OtherHosts
    + TaskNames
    + Audit
    + users::Changes
    + users::Users
    + Clarify
    + CliMethods
    + 'static
{
}

/// A change whose begin is in the audit log; [`Audit::end_change`] takes it.
#[derive(Debug)]
#[must_use = "its end belongs in the audit log"]
pub struct Change(pub uuid::Uuid);

/// The log of who changed what.
pub trait Audit: Send + Sync {
    /// Records a change before it has an effect. If the log can't be written, the change goes ahead, and the
    /// daemon's own log reports the failure.
    fn begin_change(&self, caller: &Caller, what: &str, arguments: &Map<String, Value>) -> Change;

    /// Records how a change ended. A change without an end was given up by its caller, or cut off.
    fn end_change(&self, change: Change, refused: Option<&str>);
}

/// What a caller may do.
#[async_trait]
pub trait Reach: Send + Sync {
    /// Refuses a call of a tool of the board that a caller inside an attempt may not make. `reach` and
    /// `access` are those of the tool.
    async fn permit(
        &self,
        caller: &Caller,
        tool: &'static str,
        reach: Inside,
        access: Access,
        arguments: &Map<String, Value>,
    ) -> Refusable<()>;
}

/// The hosts that share the board.
#[async_trait]
pub trait OtherHosts: Send + Sync {
    /// Whether other hosts may share the board.
    fn is_shared(&self) -> bool;

    /// Refuses a caller that this daemon does not serve.
    fn admit(&self, caller: &Caller) -> Refusable<()>;

    /// The other host that must carry out a call; `None`: this daemon can. An attempt that no host has yet is
    /// given to one here, if the call needs that.
    async fn elsewhere(
        &self,
        placed: Placed,
        arguments: &Map<String, Value>,
    ) -> Refusable<Option<String>>;

    /// Has the daemon of another host carry out a call, and waits for the answer.
    async fn carry(&self, host: &str, call: ForwardedCall) -> Refusable<Idempotent<Value>>;

    /// The calls that other daemons ask of this one, each with its id, except for those that are `running`.
    /// Waits until there is one. Cancel safe.
    async fn take_calls(&self, running: &[String]) -> Refusable<Vec<(String, ForwardedCall)>>;

    /// Gives the answer to such a call to the daemon that asked.
    async fn answer_call(&self, id: &str, answer: Refusable<Idempotent<Value>>);

    /// Carries out a method of the command line for another daemon, which has checked that its caller may
    /// call it.
    async fn carried_method(
        &self,
        caller: &Caller,
        method: &str,
        arguments: Map<String, Value>,
    ) -> Refusable<Idempotent<Value>>;
}

/// Finds tasks by their handles.
#[async_trait]
pub trait TaskNames: Send + Sync {
    /// The id of the task with a handle such as `TASK-001`: in `project` if it is given, else in the caller's
    /// project, else where only one project has such a task.
    async fn task_id(
        &self,
        caller: &Caller,
        handle: &str,
        project: Option<&str>,
    ) -> Refusable<String>;
}

/// The tool whose call was refused.
pub struct Callee<'a> {
    pub name: &'static str,
    /// The schemas of its fields, by name.
    pub fields: &'a Value,
    /// Whether a call may end or overwrite something.
    pub is_destructive: bool,
}

/// Makes refusals more useful.
#[async_trait]
pub trait Clarify: Send + Sync {
    /// Adds to a refusal what a caller needs that has shortened an id, or given one of another kind.
    async fn clarify(&self, callee: &Callee<'_>, arguments: &Value, refusal: Refusal) -> Refusal;
}

/// JSON-RPC methods besides those of MCP, for the command line.
#[async_trait]
pub trait CliMethods: Send + Sync {
    /// Calls a method by its name; fails with `METHOD_NOT_FOUND` if there is none.
    async fn call_method(
        &self,
        caller: &Caller,
        method: &str,
        params: Option<Value>,
    ) -> Result<Value, CustomError>;
}
