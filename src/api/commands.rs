//! The daemon's methods that only the command line calls: what each takes (`…Params`) and
//! returns. Pure.

mod hosts;
mod users;
mod worktrees;

use std::path::PathBuf;

use provost_actors::attempt::Collection;

use crate::api::logs::TailAttemptLogsInput;
pub use crate::api::plans::*;
use crate::api::prelude::*;
pub use hosts::*;
pub use users::*;
pub use worktrees::*;

/// What an id can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdKind {
    Project,
    Repo,
    Task,
    Attempt,
    Session,
    ExecutionProcess,
}

impl IdKind {
    pub const ALL: [Self; 6] = [
        Self::Project,
        Self::Repo,
        Self::Task,
        Self::Attempt,
        Self::Session,
        Self::ExecutionProcess,
    ];

    /// The name of the fields that hold such an id.
    pub fn field(self) -> &'static str {
        match self {
            Self::Project => "project_id",
            Self::Repo => "repo_id",
            Self::Task => "task_id",
            Self::Attempt => "attempt_id",
            Self::Session => "session_id",
            Self::ExecutionProcess => "execution_process_id",
        }
    }
}

/// A piece of an id, and what it may name.
#[derive(Debug, Deserialize)]
pub struct ResolveParams {
    pub id: String,
    pub kinds: Vec<IdKind>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Resolved {
    pub matches: Vec<Match>,
}

/// A thing whose id matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    pub kind: IdKind,
    pub id: String,
}

#[derive(Debug, Deserialize)]
pub struct AttemptsParams {
    #[serde(default)]
    pub all: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the shape of the answer is given")]
pub struct Attempts {
    /// Newest first.
    pub attempts: Vec<AttemptLine>,
    /// How many there are, listed or not.
    pub total: usize,
    /// How many hosts are registered.
    pub hosts: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttemptLine {
    pub attempt_id: AttemptId,
    pub task_id: TaskId,
    pub task_title: String,
    pub project_id: ProjectId,
    pub project_name: String,
    pub executor: String,
    pub variant: Option<String>,
    /// Null while it waits for one.
    #[serde(deserialize_with = "host")]
    pub host: Option<String>,
    pub workspace_branch: String,
    pub worktree: Option<Worktree>,
    pub state: AttemptState,
    pub phase: AttemptPhase,
    pub waiting_on: Option<WaitingOn>,
    /// A stop ended its last turn.
    #[serde(default, deserialize_with = "flag")]
    pub stopped: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A truth value as rows have it: SQLite's is a number.
fn flag<'de, D: serde::Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    match Value::deserialize(value)? {
        Value::Bool(is_set) => Ok(is_set),
        number => Ok(number.as_u64().is_some_and(|number| number != 0)),
    }
}

/// A host as rows have it: empty where there is none.
fn host<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let host: Option<String> = Deserialize::deserialize(from)?;
    Ok(host.filter(|host| !host.is_empty()))
}

/// A repository, and the branch that its next attempts start from.
#[derive(Debug, Deserialize)]
pub struct SetTargetBranchParams {
    pub repo_id: RepoId,
    pub path: String,
    pub target_branch: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct TargetBranchSet {
    pub repo_id: RepoId,
    pub default_target_branch: String,
}

#[derive(Debug, Deserialize)]
pub struct CheckExecutorParams {
    pub executor: String,
    pub variant: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Empty {}

#[derive(Debug, Deserialize)]
pub struct CheckLogParams {
    pub task_id: TaskId,
    pub name: String,
}

/// Which page to wait for: one after an entry, which the log may not have yet.
#[derive(Debug, Deserialize)]
pub struct NextLogPageParams {
    pub page: TailAttemptLogsInput,
    /// How long to wait for an entry at most, in milliseconds; taken as 10,000 at most.
    pub wait_ms: u64,
}

/// The end of a check's output.
#[derive(Debug, Serialize, Deserialize)]
pub struct CheckLog {
    pub text: String,
    pub is_cut: bool,
}

/// The severity of a finding of the doctor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    Ok,
    /// Worth knowing.
    Note,
    /// Something is wrong, but Provost works.
    Warn,
    /// Something does not work.
    Fail,
}

/// A line of `provost doctor --json`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Finding {
    pub name: String,
    pub status: CheckStatus,
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// What a daemon says about itself.
#[derive(Debug, Serialize, Deserialize)]
pub struct Info {
    /// Where the page is; null if it is not served.
    pub page: Option<String>,
    /// Why it is not served.
    pub no_page: Option<String>,
    pub version: String,
    pub pid: u32,
    pub home: PathBuf,
    /// Where the board is: the engine with its version, and the place.
    #[serde(default)]
    pub engine: Option<String>,
    /// Where it looks for executors' programs.
    pub path: Option<String>,
    pub running: usize,
    pub queued: usize,
}

/// Which worktrees to collect, and whether this is a dry run.
#[derive(Debug, Deserialize)]
pub struct GcParams {
    pub yes: bool,
    #[serde(default)]
    pub snapshot: bool,
    /// Only attempts that nothing has changed for so long.
    #[serde(default)]
    pub older_than_secs: u64,
    #[serde(default)]
    pub project_id: Option<ProjectId>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Collected {
    pub dry_run: bool,
    pub attempts: Vec<CollectedAttempt>,
    /// Old snapshots of turns.
    #[serde(default)]
    pub turns: Vec<ForgottenTurns>,
}

/// The snapshots of turns of an attempt whose worktrees were collected.
#[derive(Debug, Serialize, Deserialize)]
pub struct ForgottenTurns {
    pub attempt_id: AttemptId,
    pub turns: Vec<u32>,
    /// Why they are kept; `None`: they are removed, or would be.
    pub kept: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct CollectedAttempt {
    pub attempt_id: AttemptId,
    pub task_title: String,
    pub project_name: String,
    pub workspace_branch: String,
    /// Its verdict, reason, folder, ignored files and snapshots.
    #[serde(flatten)]
    pub collection: Collection,
}

/// Which references that keep work to remove, and whether this is a dry run.
#[derive(Debug, Deserialize)]
pub struct GcKeptParams {
    pub yes: bool,
    /// Only work that was kept so long ago.
    pub older_than_secs: u64,
    #[serde(default)]
    pub project_id: Option<ProjectId>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct KeptWorks {
    pub dry_run: bool,
    /// Oldest first.
    pub kept: Vec<KeptWork>,
}

/// A reference that keeps unmerged work of an attempt whose worktrees or branch are gone.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeptWork {
    pub attempt_id: AttemptId,
    pub task_title: String,
    pub project_name: String,
    /// The repository's path on this host.
    pub repo: String,
    pub reference: String,
    pub commit: String,
    pub since: Timestamp,
    /// `removable`, `removed` or `kept`.
    pub verdict: String,
    pub reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct EmptyTrashParams {
    pub yes: bool,
    pub older_than_secs: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Trash {
    pub dry_run: bool,
    pub trash: Vec<Trashed>,
}

/// One thing in the trash.
#[derive(Debug, Serialize, Deserialize)]
pub struct Trashed {
    pub name: String,
    pub since: Timestamp,
    /// `removable`, `removed` or `kept`.
    pub verdict: String,
    pub reason: Option<String>,
}

/// What a file of tasks is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImportFormat {
    Json,
    Markdown,
}

#[derive(Debug, Deserialize)]
pub struct ImportParams {
    pub project_id: ProjectId,
    pub text: String,
    pub format: ImportFormat,
    /// Imports it even if it was imported before.
    #[serde(default)]
    pub again: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ImportedTasks {
    pub tasks: Vec<ImportedTask>,
    pub imported_before: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedTask {
    pub task_id: TaskId,
    pub handle: String,
    pub title: String,
    /// Its name in the file.
    pub name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct ShutdownParams {
    #[serde(default)]
    pub stop_all: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Shutdown {
    /// Attempts and checks with a process that is still alive. Unless there is none, the
    /// daemon keeps running.
    pub alive: Vec<Survivor>,
    /// Attempts whose stop is not recorded yet.
    pub unrecorded: Vec<AttemptId>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Survivor {
    /// `None` for a check.
    pub attempt_id: Option<AttemptId>,
    pub reason: String,
}
