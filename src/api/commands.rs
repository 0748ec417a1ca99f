//! The methods (`provost/…`) that only the command line calls: what each takes (`…Params`) and returns. Pure.

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

/// The methods that change nothing: a program may call them again if the daemon ends before it answers.
pub const READING: &[&str] = &[
    "provost/resolve",
    "provost/attempts",
    "provost/check_log",
    "provost/info",
    "provost/next_log_page",
    "provost/comments",
    "provost/conflicts",
    "provost/doctor",
    "provost/environment",
    "provost/started_as",
    "provost/hosts",
    "provost/base",
    "provost/blob",
    "provost/processes",
    "provost/plans",
    "provost/remotes",
    "provost/repo_settings",
    "provost/users",
];

/// The kinds of things that have ids.
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
    /// In the order in which an id is looked up.
    pub const ALL: [Self; 6] = [
        Self::Project,
        Self::Repo,
        Self::Task,
        Self::Attempt,
        Self::Session,
        Self::ExecutionProcess,
    ];

    /// The name of the fields that hold ids of this kind.
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

/// What `provost/resolve` takes: a piece of an id, and the kinds that it may name.
#[derive(Debug, Deserialize)]
pub struct ResolveParams {
    pub id: String,
    pub kinds: Vec<IdKind>,
}

/// What `provost/resolve` returns; no match if nothing has such an id.
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

/// What `provost/attempts` takes; without `all` only the active and the newest ones are listed.
#[derive(Debug, Deserialize)]
pub struct AttemptsParams {
    #[serde(default)]
    pub all: bool,
}

/// What `provost/attempts` returns.
#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the shape of the answer is given")]
pub struct Attempts {
    /// Newest first.
    pub attempts: Vec<AttemptLine>,
    /// How many attempts there are, listed or not.
    pub total: usize,
    /// How many hosts are registered.
    pub hosts: usize,
}

/// An attempt in one line, as `provost ps` shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttemptLine {
    pub attempt_id: AttemptId,
    pub task_id: TaskId,
    pub task_title: String,
    pub project_id: ProjectId,
    pub project_name: String,
    pub executor: String,
    pub variant: Option<String>,
    /// Null while no host has the attempt.
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

/// Reads a truth value of a row; SQLite has a number for it.
fn flag<'de, D: serde::Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    match Value::deserialize(value)? {
        Value::Bool(is_set) => Ok(is_set),
        number => Ok(number.as_u64().is_some_and(|number| number != 0)),
    }
}

/// Reads a host of a row; an empty text stands for none.
fn host<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let host: Option<String> = Deserialize::deserialize(from)?;
    Ok(host.filter(|host| !host.is_empty()))
}

/// What `provost/set_target_branch` takes: a repository, and the branch from which its next attempts start.
#[derive(Debug, Deserialize)]
pub struct SetTargetBranchParams {
    pub repo_id: RepoId,
    pub path: String,
    pub target_branch: String,
}

/// What `provost/set_target_branch` returns.
#[derive(Debug, Serialize, Deserialize)]
pub struct TargetBranchSet {
    pub repo_id: RepoId,
    pub default_target_branch: String,
}

/// What `provost/check_executor` takes: the executor and variant of an attempt that is about to be made.
#[derive(Debug, Deserialize)]
pub struct CheckExecutorParams {
    pub executor: String,
    pub variant: Option<String>,
}

/// The answer of a method that has nothing to say but that it succeeded.
#[derive(Debug, Serialize, Deserialize)]
pub struct Empty {}

/// What `provost/check_log` takes: a task and the name of one of its checks.
#[derive(Debug, Deserialize)]
pub struct CheckLogParams {
    pub task_id: TaskId,
    pub name: String,
}

/// What `provost/next_log_page` takes: the page after an entry, which the log may not have yet.
#[derive(Debug, Deserialize)]
pub struct NextLogPageParams {
    pub page: TailAttemptLogsInput,
    /// How long to wait for an entry, in milliseconds; more than 10,000 counts as 10,000.
    pub wait_ms: u64,
}

/// What `provost/check_log` returns: the end of a check's output.
#[derive(Debug, Serialize, Deserialize)]
pub struct CheckLog {
    pub text: String,
    /// The output has a beginning that is left out.
    pub is_cut: bool,
}

/// The severity of a finding of `provost doctor`.
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
    /// What to do about it; `None`: nothing.
    pub hint: Option<String>,
}

/// What `provost/info` returns: facts about the daemon.
#[derive(Debug, Serialize, Deserialize)]
pub struct Info {
    /// The URL of the page; null if it is not served.
    pub page: Option<String>,
    /// Why the page is not served.
    pub no_page: Option<String>,
    pub version: String,
    pub pid: u32,
    pub home: PathBuf,
    /// The engine with its version, and where the board is. Absent from an older daemon.
    #[serde(default)]
    pub engine: Option<String>,
    /// `PATH`, in which the daemon looks for executors' programs.
    pub path: Option<String>,
    /// How many attempts run, and how many wait for a slot.
    pub running: usize,
    pub queued: usize,
}

/// What `provost/gc` takes: which worktrees to collect, and whether to collect them (`yes`) or only to list
/// them.
#[derive(Debug, Deserialize)]
pub struct GcParams {
    pub yes: bool,
    /// Saves what would be lost under a reference first, so that such worktrees can be collected too.
    #[serde(default)]
    pub snapshot: bool,
    /// Only attempts without a change for at least this time.
    #[serde(default)]
    pub older_than_secs: u64,
    #[serde(default)]
    pub project_id: Option<ProjectId>,
}

/// What `provost/gc` returns.
#[derive(Debug, Serialize, Deserialize)]
pub struct Collected {
    pub dry_run: bool,
    pub attempts: Vec<CollectedAttempt>,
    /// The old snapshots of turns, of attempts whose worktrees are collected.
    #[serde(default)]
    pub turns: Vec<ForgottenTurns>,
}

/// The snapshots of an attempt whose worktrees were collected earlier.
#[derive(Debug, Serialize, Deserialize)]
pub struct ForgottenTurns {
    pub attempt_id: AttemptId,
    pub turns: Vec<u32>,
    /// Why they are kept; `None`: they are removed, or would be.
    pub kept: Option<String>,
}

/// An attempt whose worktrees are, or would be, collected or kept.
#[derive(Debug, Serialize, Deserialize)]
pub struct CollectedAttempt {
    pub attempt_id: AttemptId,
    pub task_title: String,
    pub project_name: String,
    pub workspace_branch: String,
    /// The verdict, the reason, the folder, ignored files and snapshots.
    #[serde(flatten)]
    pub collection: Collection,
}

/// What `provost/gc_kept` takes: which references that keep work to remove, and whether to remove them
/// (`yes`).
#[derive(Debug, Deserialize)]
pub struct GcKeptParams {
    pub yes: bool,
    /// Only work that has been kept for at least this time.
    pub older_than_secs: u64,
    #[serde(default)]
    pub project_id: Option<ProjectId>,
}

/// What `provost/gc_kept` returns.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeptWorks {
    pub dry_run: bool,
    /// Oldest first.
    pub kept: Vec<KeptWork>,
}

/// A reference that keeps the unmerged work of an attempt whose worktrees or branch are gone.
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

/// What `provost/empty_trash` and `provost/empty_cache` take; without `yes` they only list.
#[derive(Debug, Deserialize)]
pub struct EmptyTrashParams {
    pub yes: bool,
    pub older_than_secs: u64,
}

/// What `provost/empty_trash` returns.
#[derive(Debug, Serialize, Deserialize)]
pub struct Trash {
    pub dry_run: bool,
    pub trash: Vec<Trashed>,
}

/// One item in the trash.
#[derive(Debug, Serialize, Deserialize)]
pub struct Trashed {
    pub name: String,
    pub since: Timestamp,
    /// `removable`, `removed` or `kept`.
    pub verdict: String,
    pub reason: Option<String>,
}

/// The format of a file of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImportFormat {
    Json,
    Markdown,
}

/// What `provost/import_tasks` takes.
#[derive(Debug, Deserialize)]
pub struct ImportParams {
    pub project_id: ProjectId,
    pub text: String,
    pub format: ImportFormat,
    /// Imports the file even if it was imported before.
    #[serde(default)]
    pub again: bool,
}

/// What `provost/import_tasks` returns.
#[derive(Debug, Serialize, Deserialize)]
pub struct ImportedTasks {
    pub tasks: Vec<ImportedTask>,
    /// Nothing was imported now: these are the tasks of the earlier import of the same text.
    pub imported_before: bool,
}

/// A task that an import has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedTask {
    pub task_id: TaskId,
    pub handle: String,
    pub title: String,
    /// The name that the file gives the task; `None`: it gives none.
    pub name: Option<String>,
}

/// What `provost/shutdown` takes; with `stop_all` every attempt and check is stopped first.
#[derive(Debug, Deserialize)]
pub struct ShutdownParams {
    #[serde(default)]
    pub stop_all: bool,
}

/// What `provost/shutdown` returns.
#[derive(Debug, Serialize, Deserialize)]
pub struct Shutdown {
    /// Attempts and checks with a process that is still alive. If there are any, the daemon keeps running.
    pub alive: Vec<Survivor>,
    /// Attempts whose stop is not recorded yet.
    pub unrecorded: Vec<AttemptId>,
}

/// An attempt or a check that could not be stopped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Survivor {
    /// `None`: it is a check.
    pub attempt_id: Option<AttemptId>,
    pub reason: String,
}
