//! Attempts as the tools show them: lists, and the full status of one.

use std::collections::HashMap;

use provost_actors::event::{ErrorType, Timestamp};
use provost_actors::host::HostState;
use provost_actors::ids::{AttemptId, ProcessId, SessionId, TaskId};
use provost_actors::journal::{AttemptRepo, FinishAction, FinishState, State, WaitingOn};
use provost_actors::plain;
use provost_actors::sandbox::Receipt;
use serde::Deserialize;

use super::attempts::repos_of;
use super::changes::ChangeWatch;
use super::{Db, Page, Refusal, Result, Sql, Store, not_found, tasks};
use crate::api::attempts::{AttemptLimit, AttemptPhase, AttemptUsage};
use crate::api::commands::AttemptLine;
use crate::api::tasks::TaskStatus;

/// An attempt in one line, with the facts that lists and other tools need besides.
#[derive(Clone, Debug, Deserialize)]
pub struct AttemptOverview {
    #[serde(flatten)]
    pub line: AttemptLine,
    /// The handle of the task, such as TASK-001.
    pub handle: String,
    pub task_status: TaskStatus,
    /// Why it waits for the disk; `None`: it does not. Kept in memory, because a full disk has no room for a
    /// row.
    #[serde(skip)]
    pub waits_for_disk: Option<String>,
    /// The attempt whose setup it waits for; `None`: it waits for none. Kept in memory.
    #[serde(skip)]
    pub waits_for_setup: Option<AttemptId>,
    pub pending_approvals: u32,
    /// The state of its host; `None`: the host is not registered any more.
    pub host_state: Option<HostState>,
    /// The last turn that has a snapshot; `None`: none has one.
    pub latest_snapshot_turn: Option<u32>,
    /// Set when the last turn has ended without a snapshot yet: empty while the snapshot is being made, else
    /// why it can't be made.
    snapshot_due: Option<String>,
    /// Set if a limit of the executor ended the last turn, and no turn has begun since.
    pub quota: Option<Quota>,
    /// When that limit ends; `None`: the executor did not say.
    pub resume_at: Option<Timestamp>,
    #[serde(rename = "session_id")]
    pub latest_session_id: Option<SessionId>,
    #[serde(rename = "session_executor")]
    pub latest_session_executor: Option<String>,
}

impl AttemptOverview {
    /// Whether the snapshot of its last turn is being made.
    pub fn is_snapshot_pending(&self) -> bool {
        self.snapshot_due.as_deref() == Some("")
    }

    /// Why the snapshot of its last turn can't be made. It is tried again before the next turn.
    pub fn snapshot_failed(&self) -> Option<&str> {
        self.snapshot_due.as_deref().filter(|why| !why.is_empty())
    }
}

/// Who resumes an attempt after the limit that ended its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quota {
    /// A caller, by a follow-up.
    Ask,
    /// The daemon, when the limit is over.
    Auto,
}

/// The full status of an attempt, as far as the store knows it.
#[derive(Clone, Debug, Deserialize)]
pub struct AttemptRow {
    #[serde(flatten)]
    pub overview: AttemptOverview,
    /// Its newest process that has begun or is about to begin.
    #[serde(rename = "process_id")]
    pub latest_execution_process_id: Option<ProcessId>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    pub failure_summary: Option<String>,
    /// The kind of error that ended its latest turn.
    pub error_type: Option<ErrorType>,
    pub final_message: Option<String>,
    /// The sum over all its turns that have ended.
    #[serde(rename = "spent")]
    pub usage: Option<AttemptUsage>,
    /// The limits of its latest process, and how each is enforced.
    pub limits: Vec<AttemptLimit>,
    /// What confines its latest process; `None`: the process has no sandbox.
    pub sandbox: Option<Receipt>,
    /// Whether a permission was denied that its latest process asked for.
    pub was_denied: bool,
    pub queued_follow_ups: u32,
    pub queue_held: bool,
    /// The newest finish since its latest process; a refused one does not count.
    pub finish: Option<LastFinish>,
    /// The number of its latest change, from one counter for all attempts.
    pub revision: i64,
    /// The number of the change by which it last settled; 0: it never has.
    pub settled_revision: i64,
}

/// The newest finish of an attempt that was not refused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LastFinish {
    pub action: FinishAction,
    pub state: FinishState,
    /// Why its current step is not done yet.
    pub waits_for: Option<String>,
}

/// Where an attempt's work is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct WorkspaceView {
    pub task_id: TaskId,
    #[serde(deserialize_with = "plain::branch")]
    pub branch: String,
    /// The name of its folder under `worktrees/`.
    #[serde(deserialize_with = "plain::name")]
    pub folder: String,
    #[serde(skip)]
    pub repos: Vec<AttemptRepo>,
}

/// The folder of an attempt with the name of one of its repositories.
#[derive(Deserialize)]
struct FolderRow {
    attempt_id: AttemptId,
    #[serde(deserialize_with = "plain::name")]
    folder: String,
    #[serde(deserialize_with = "plain::name")]
    name: String,
}

/// The statuses of the attempts that a condition picks. The usage of a process is that of its turn alone, so
/// the usages can be added up. If one process has no cost, the total cost is unknown.
macro_rules! statuses {
    ($which:literal) => {
        concat!(
            "SELECT o.*, o.title AS task_title, o.branch AS workspace_branch,
                    t.handle, t.status AS task_status,
                    (SELECT h.state FROM hosts h WHERE h.host_id = o.host) AS host_state,
                    (SELECT json_object('action', f.request ->> 'action', 'state', f.state,
                                        'waits_for', f.receipt ->> 'waits_for')
                     FROM finishes f
                     WHERE f.attempt_id = o.attempt_id AND f.state <> 'refused'
                       AND f.finish_id > o.process_id
                     ORDER BY f.finish_id DESC LIMIT 1) AS finish,
                    (SELECT e.error_type FROM processes e
                     WHERE e.process_id = o.process_id) AS error_type,
                    o.state = 'failed' AND EXISTS (
                        SELECT 1 FROM processes k
                        WHERE k.process_id = o.process_id AND k.status = 'killed') AS stopped,
                    EXISTS (SELECT 1 FROM approvals a
                            WHERE a.attempt_id = o.attempt_id AND a.process_id = o.process_id
                              AND a.of_attempt = 0 AND a.status = 'denied') AS was_denied,
                    (SELECT b.sandbox FROM processes b
                     WHERE b.process_id = o.process_id) AS sandbox,
                    (SELECT max(turn) FROM turn_snapshots n
                     WHERE n.attempt_id = o.attempt_id) AS latest_snapshot_turn,
                    (SELECT coalesce(d.snapshot_failed, '') FROM processes d
                     WHERE d.attempt_id = o.attempt_id AND d.snapshot_due = 1
                     ORDER BY d.turn DESC LIMIT 1) AS snapshot_due,
                    (SELECT CASE WHEN count(*) > 0 THEN
                         json_object('input_tokens', sum(CAST(p.usage ->> 'input_tokens' AS BIGINT)),
                                     'output_tokens', sum(CAST(p.usage ->> 'output_tokens' AS BIGINT)),
                                     'cost_usd', CASE WHEN count(*) = count(p.usage ->> 'cost_usd')
                                         THEN sum(CAST(p.usage ->> 'cost_usd' AS DOUBLE PRECISION)) END) END
                     FROM processes p
                     WHERE p.attempt_id = o.attempt_id AND p.usage IS NOT NULL) AS spent
             FROM attempt_overview o JOIN tasks t ON t.task_id = o.task_id ",
            $which
        )
    };
}

impl Store {
    /// Adds whether the attempt waits, and for what. An attempt that waits for an approval counts as waiting,
    /// not running; one whose last turn has no snapshot yet counts as running, not settled.
    fn with_waits(&self, mut overview: AttemptOverview) -> AttemptOverview {
        let is_kept =
            overview.line.phase == AttemptPhase::Settled && overview.is_snapshot_pending();
        let line = &mut overview.line;
        if is_kept {
            (line.phase, line.state) = (AttemptPhase::Running, State::Running);
            line.stopped = false;
        }
        overview.waits_for_disk = self.changes.waits_for_disk(line.attempt_id);
        overview.waits_for_setup = self.changes.waits_for_setup(line.attempt_id);
        let may_ask = matches!(line.phase, AttemptPhase::Preparing | AttemptPhase::Running);
        let is_asking = may_ask && overview.pending_approvals > 0;
        line.waiting_on = match line.phase {
            _ if overview.waits_for_disk.is_some() => Some(WaitingOn::Disk),
            _ if is_asking => Some(WaitingOn::Approval),
            _ if is_kept => Some(WaitingOn::Snapshot),
            AttemptPhase::Preparing if overview.waits_for_setup.is_some() => Some(WaitingOn::Setup),
            AttemptPhase::Queued if overview.host_state == Some(HostState::Draining) => {
                Some(WaitingOn::Host)
            }
            AttemptPhase::Queued => Some(WaitingOn::Slot),
            AttemptPhase::Settled if overview.quota.is_some() => Some(WaitingOn::Quota),
            AttemptPhase::Running => self.changes.waits_for(line.attempt_id),
            _ => None,
        };
        if is_asking {
            line.phase = AttemptPhase::Waiting;
        }
        overview
    }

    /// The status as callers see it, with its waits.
    fn whole(&self, status: AttemptRow) -> AttemptRow {
        // Both describe the newest process, which has not run yet where the attempt is idle.
        let has_ended = matches!(status.overview.line.state, State::Failed | State::Completed);
        AttemptRow {
            overview: self.with_waits(status.overview),
            failure_summary: status.failure_summary.filter(|_| has_ended),
            error_type: status.error_type.filter(|_| has_ended),
            ..status
        }
    }

    /// A page of a task's attempts, newest first and ties by ascending id; `after` is the last attempt of the
    /// page before. The attempts of a deleted task stay readable.
    pub async fn attempts(
        &self,
        task: TaskId,
        limit: usize,
        after: Option<(Timestamp, AttemptId)>,
    ) -> Result<Page<AttemptOverview>, Refusal> {
        let (created_at, id) = after.unzip();
        let created_at = created_at.map(Timestamp::millis);
        let sql = statuses!(
            "WHERE o.task_id = $1
               AND (o.created_at < $2 OR $2 IS NULL OR (o.created_at = $2 AND attempt_id > $3))
             ORDER BY o.created_at DESC, attempt_id ASC LIMIT $4"
        );
        let found = self.read(async |db| {
            tasks::require_known(db, task).await?;
            db.all(sql, (task, created_at, id, limit + 1)).await
        });
        let found: Vec<AttemptOverview> = found.await?;
        Ok(Page::cut(found.into_iter().map(|it| self.with_waits(it)).collect(), limit))
    }

    /// The attempts of all projects, newest first. With `all` = `false`: those that are queued or active, and
    /// the newest 20.
    pub async fn overview(&self, all: bool) -> Result<Vec<AttemptOverview>, Refusal> {
        let sql = statuses!(
            "WHERE $1 OR phase IN ('queued', 'preparing', 'running', 'stopping')
                OR attempt_id IN (SELECT attempt_id FROM attempts
                                  ORDER BY created_at DESC, attempt_id ASC LIMIT 20)
             ORDER BY o.created_at DESC, attempt_id ASC"
        );
        let found: Vec<AttemptOverview> = self.read(async |db| db.all(sql, (all,)).await).await?;
        Ok(found.into_iter().map(|it| self.with_waits(it)).collect())
    }

    /// How many attempts there are, of all projects.
    pub async fn count_attempts(&self) -> Result<usize, Refusal> {
        self.read(async |db| db.one("SELECT count(*) FROM attempts", ()).await).await
    }

    /// The newest attempts of all projects, each with the title of its task.
    pub async fn newest_attempts(&self, most: usize) -> Result<Vec<(AttemptId, String)>, Refusal> {
        let sql = "SELECT a.attempt_id, t.title FROM attempts a
             JOIN tasks t ON t.task_id = a.task_id
             ORDER BY a.created_at DESC, a.attempt_id ASC LIMIT $1";
        self.read(async |db| db.all(sql, (most,)).await).await
    }

    /// The status of an attempt; refused if the id is unknown.
    pub async fn status(&self, attempt: AttemptId) -> Result<AttemptRow, Refusal> {
        let sql = statuses!("WHERE o.attempt_id = $1");
        let read = async |db: Db<'_>| db.find(sql, (attempt,)).await;
        let found: Option<AttemptRow> = self.read_once("status", attempt, read).await?;
        Ok(self.whole(found.ok_or_else(|| not_found::attempt(attempt))?))
    }

    /// The statuses of these attempts in this order, read by one statement. Refused if one id is unknown.
    pub async fn statuses(&self, attempts: &[AttemptId]) -> Result<Vec<AttemptRow>, Refusal> {
        let sql = statuses!("WHERE o.attempt_id IN (SELECT value FROM json_each($1))");
        let found: Vec<AttemptRow> = self.read(async |db| db.all(sql, (attempts,)).await).await?;
        let found: HashMap<AttemptId, AttemptRow> =
            found.into_iter().map(|it| (it.overview.line.attempt_id, self.whole(it))).collect();
        let of = |id: &AttemptId| found.get(id).cloned().ok_or_else(|| not_found::attempt(*id));
        attempts.iter().map(of).collect()
    }

    /// The number of the latest change of any attempt; 0: there was none.
    pub async fn newest_revision(&self) -> Result<i64, Refusal> {
        let sql = "SELECT coalesce(max(revision), 0) FROM attempts";
        self.read(async |db| db.one(sql, ()).await).await
    }

    /// Registers a waiter that is woken when one of these attempts changes.
    pub fn watch(&self, attempts: &[AttemptId]) -> ChangeWatch {
        self.changes.watch(attempts)
    }

    /// The attempt whose worktrees are in this folder below `worktrees/`.
    pub async fn attempt_in(&self, folder: &str) -> Result<Option<AttemptId>, Refusal> {
        let sql = "SELECT attempt_id FROM attempts WHERE folder = $1";
        self.read(async |db| db.find(sql, (folder,)).await).await
    }

    /// Where the worktrees of these attempts are: the attempt, its folder and the name of a repository, one
    /// item for each repository. Only those of this host.
    pub async fn worktree_folders(
        &self,
        attempts: &[AttemptId],
    ) -> Result<Vec<(AttemptId, String, String)>, Refusal> {
        let sql = "SELECT a.attempt_id, a.folder, r.name
             FROM json_each($1) e JOIN attempts a ON a.attempt_id = e.value
             JOIN attempt_repos r ON r.attempt_id = a.attempt_id WHERE a.host = $2";
        let read = async |db: Db<'_>| {
            let rows: Vec<FolderRow> = db.all(sql, (attempts, &self.host)).await?;
            Ok(rows.into_iter().map(|it| (it.attempt_id, it.folder, it.name)).collect())
        };
        self.read_once("worktree folders", attempts, read).await
    }

    /// The branch, folder and repositories of an attempt.
    pub async fn workspace(&self, attempt: AttemptId) -> Result<WorkspaceView, Refusal> {
        let sql = "SELECT task_id, branch, folder FROM attempts WHERE attempt_id = $1";
        self.read(async |db| {
            let found: Option<WorkspaceView> = db.find(sql, (attempt,)).await?;
            let found = found.ok_or_else(|| not_found::attempt(attempt))?;
            let repos = repos_of(db, attempt, &self.places).await?;
            Ok(WorkspaceView { repos, ..found })
        })
        .await
    }
}
