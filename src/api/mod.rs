//! The tools as the daemon knows them, for every protocol: inputs, outputs, descriptions
//! and field rules, and beside each group of tools the trait that answers it. Pure: it knows no
//! protocol or database, and calls no actor.

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
pub use provost_actors::journal::{Key, Once};
pub use provost_actors::process::place::CallerLocation;
pub use provost_actors::refusal::{Code, Refusal};
use provost_actors::text::{NAME_SHOWN_MAX, cut};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::inside::Inside;
use self::placed::Placed;
pub use crate::role::{Access, Role};

/// The caller at the other end of a connection, as it is known for as long as that lasts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Caller {
    pub role: Role,
    /// The attempt that the caller works in, if it does.
    pub attempt: Option<AttemptId>,
    /// Where its process is, as the kernel shows it: unlike the attempt above, it
    /// can't be made up.
    pub place: CallerLocation,
    /// A person's command line outside of all attempts: it has bare methods of its own.
    pub is_person: bool,
    /// The caller for limits and leases: the attempt, or the bridge.
    pub agent: String,
    pub access: Access,
    /// The caller's working directory, if it said.
    pub cwd: Option<PathBuf>,
    /// Who it is and by which way it came, for the audit log.
    pub origin: Origin,
}

/// Who calls, and by which way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The name of a user of the HTTP face; `None`: whoever the socket's file lets in.
    pub user: Option<String>,
    /// Such as `socket pid 4711` or `127.0.0.1:53124`.
    pub from: String,
    /// The host whose daemon has the caller's connection, where this daemon only carries the call
    /// out.
    pub host: Option<String>,
}

/// A call that the daemon of another host is to carry out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForwardedCall {
    /// Or a method of the command line.
    pub tool: String,
    /// As the daemon that has its connection has established it.
    pub caller: Caller,
    pub arguments: Map<String, Value>,
    /// The client's id of the call: the same when it is sent again.
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
    /// The method does not exist.
    pub fn method_not_found(method: &str) -> Self {
        Self {
            code: METHOD_NOT_FOUND,
            message: format!("there is no method `{}`", cut(method.to_owned(), NAME_SHOWN_MAX)),
            data: None,
        }
    }
}

pub type Refusable<T> = Result<T, Refusal>;

/// What the daemon offers to its faces. A future may be dropped at any await when its caller
/// cancels or disconnects: by then a change has either been handed to its owner or not begun.
/// `key` is `None` when the caller gave no idempotency key.
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

/// A change whose beginning is in the audit log.
#[derive(Debug)]
#[must_use = "its end belongs in the audit log"]
pub struct Change(pub uuid::Uuid);

/// The log of who changed what.
pub trait Audit: Send + Sync {
    /// Records a change before it has an effect. A log that can't be written holds up nothing: the
    /// daemon's own log says so.
    fn begin_change(&self, caller: &Caller, what: &str, arguments: &Map<String, Value>) -> Change;

    /// Records how it ended. A change without an end was given up by its caller, or cut off.
    fn end_change(&self, change: Change, refused: Option<&str>);
}

/// What a caller may do.
#[async_trait]
pub trait Reach: Send + Sync {
    /// Refuses a call of one of the board's tools that a caller inside an attempt may
    /// not make. `reach` and `access` are the tool's.
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
    /// Whether there may be such hosts.
    fn is_shared(&self) -> bool;

    /// Refuses a caller that this daemon does not serve.
    fn admit(&self, caller: &Caller) -> Refusable<()>;

    /// The host that a call needs, if it is another one than this daemon's. If what it is about is on
    /// no host yet, this gives it one.
    async fn elsewhere(
        &self,
        placed: Placed,
        arguments: &Map<String, Value>,
    ) -> Refusable<Option<String>>;

    /// Has the daemon of another host carry out a call, and waits for its answer.
    async fn carry(&self, host: &str, call: ForwardedCall) -> Refusable<Once<Value>>;

    /// The calls that other daemons ask this one for, each with its id, apart from those that are
    /// `running`; waits until there are some. Cancel safe.
    async fn take_calls(&self, running: &[String]) -> Refusable<Vec<(String, ForwardedCall)>>;

    /// Gives the answer to such a call.
    async fn answer_call(&self, id: &str, answer: Refusable<Once<Value>>);

    /// Carries out a method of the command line, which the asking daemon has let its caller call.
    async fn carried_method(
        &self,
        caller: &Caller,
        method: &str,
        arguments: Map<String, Value>,
    ) -> Refusable<Once<Value>>;
}

/// Tasks by their handles.
#[async_trait]
pub trait TaskNames: Send + Sync {
    /// The id of the task that a handle such as `TASK-001` names: in `project` if it is
    /// given, else in the caller's project, else where only one project has it.
    async fn task_id(
        &self,
        caller: &Caller,
        handle: &str,
        project: Option<&str>,
    ) -> Refusable<String>;
}

/// The tool of a refused call.
pub struct Callee<'a> {
    pub name: &'static str,
    /// Its fields, by their names.
    pub fields: &'a Value,
    /// Whether a call may end or overwrite something.
    pub is_destructive: bool,
}

/// Refusals made useful.
#[async_trait]
pub trait Clarify: Send + Sync {
    /// Completes a refusal for a caller that shortened an id or gave one of another kind.
    async fn clarify(&self, callee: &Callee<'_>, arguments: &Value, refusal: Refusal) -> Refusal;
}

/// JSON-RPC methods beside MCP's own, for the command line.
#[async_trait]
pub trait CliMethods: Send + Sync {
    async fn call_method(
        &self,
        caller: &Caller,
        method: &str,
        params: Option<Value>,
    ) -> Result<Value, CustomError>;
}
