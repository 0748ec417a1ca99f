//! Which type each call of the command line returns: the whole answer, or an item of its list. The
//! type of `Context::call::<T>` selects the tool or method. Pure.

use serde::Deserialize;
use serde_json::Value;

pub use crate::api::worker::inbox::*;
pub use crate::api::{
    approvals::*, artifacts::*, attempts::*, commands::*, comments::*, conflicts::*, executors::*,
    finish::*, follow_up::*, person::*, projects::*, remotes::*, tasks::*, waits::*,
};
use crate::client::CallOutput;

macro_rules! calls {
    ($($call:literal => $output:ty,)*) => {
        $(impl CallOutput for $output {
            const CALL: &'static str = $call;
        })*
    };
}

calls! {
    "answer" => AnswerQuestionOutput,
    "answer" => RespondApprovalOutput,
    "comment_on_changes" => CommentOnChangesOutput,
    "create_project" => CreateProjectOutput,
    "create_task" => CreateTaskOutput,
    "delete_task" => DeleteTaskOutput,
    "finish_attempt" => FinishAttemptOutput,
    "follow_up" => FollowUpOutput,
    "get_attempt_changes" => GetAttemptChangesOutput,
    "get_attempt_patch" => GetAttemptPatchOutput,
    "get_attempt_status" => AttemptStatus,
    "get_attempt_status" => AttemptStatuses,
    "get_task" => GetTaskOutput,
    "list_executors" => ListExecutorsOutput,
    "list_projects" => ProjectSummary,
    "list_repos" => ListReposOutput,
    "list_tasks" => TaskSummary,
    "start_task_attempt" => StartTaskAttemptOutput,
    "stop_attempt" => StopAttemptOutput,
    "tail_attempt_logs" => LogPage,
    "update_task" => TaskOutput,
    "wait_for_attempts" => WaitForAttemptsOutput,
    "provost/add_plan" => AddedPlan,
    "provost/attempts" => Attempts,
    "provost/by_hand" => ByHand,
    "provost/change_host" => ChangedHosts,
    "provost/check_executor" => Empty,
    "provost/check_log" => CheckLog,
    "provost/comments" => AttemptComments,
    "provost/conflicts" => Conflicts,
    "provost/discard" => Discarded,
    "provost/empty_cache" => CachedSetups,
    "provost/empty_trash" => Trash,
    "provost/ended_by_hand" => EndedByHand,
    "provost/environment" => Environment,
    "provost/gc" => Collected,
    "provost/gc_kept" => KeptWorks,
    "provost/give_token" => UserToken,
    "provost/hosts" => HostsListed,
    "provost/import_tasks" => ImportedTasks,
    "provost/next_log_page" => NextLogPage,
    "provost/open" => Login,
    "provost/plans" => Plans,
    "provost/preview" => PreviewedAttempt,
    "provost/quiet_worktree" => Quieted,
    "provost/remotes" => Remotes,
    "provost/remove_plan" => RemovedPlan,
    "provost/remove_project" => RemovedProject,
    "provost/repo_settings" => ShownRepos,
    "provost/resolve" => Resolved,
    "provost/revoke_user" => RevokedUser,
    "provost/set_target_branch" => TargetBranchSet,
    "provost/shutdown" => Shutdown,
    "provost/started_as" => StartedAs,
    "provost/trust" => TrustedRepos,
    "provost/users" => UsersListed,
}

/// The answer of `list_inbox` has two lists, so each of its items names its own.
impl CallOutput for ApprovalSummary {
    const CALL: &'static str = "list_inbox";
    const ITEMS: &'static str = "approvals";
}

impl CallOutput for QuestionSummary {
    const CALL: &'static str = "list_inbox";
    const ITEMS: &'static str = "questions";
}

/// The answer to `provost/discard`, which removes the branch too.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Discarded(pub FinishAttemptOutput);

/// All hosts, after one of them was changed. A type of its own, because a type belongs to one call.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct ChangedHosts(pub HostsListed);

/// All users, after one of them was revoked.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct RevokedUser(pub UsersListed);

/// The page after an entry, as soon as there is one; empty if the wait ended first.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct NextLogPage(pub LogPage);

/// A page of a log. Its entries stay JSON, so that those of unknown kinds are shown too.
#[derive(Clone, Debug, Deserialize)]
pub struct LogPage {
    pub entries: Vec<Value>,
    pub has_more: bool,
    pub latest_entry_index: Option<i64>,
    pub lost_host: Option<String>,
}
