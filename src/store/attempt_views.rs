//! Attempts as the tools show them: listed, or one in full.

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

/// An attempt in one line, with what else lists and tools need of it.
#[derive(Clone, Debug, Deserialize)]
pub struct AttemptOverview {
    #[serde(flatten)]
    pub line: AttemptLine,
    /// The task's: TASK-001.
    pub handle: String,
    pub task_status: TaskStatus,
    /// Why it waits for the disk, if it does: no row says so.
    #[serde(skip)]
    pub waits_for_disk: Option<String>,
    /// The attempt whose setup it waits for, if it does: no row says so.
    #[serde(skip)]
    pub waits_for_setup: Option<AttemptId>,
    pub pending_approvals: u32,
    /// Of its host; `None`: that is not registered any more.
    pub host_state: Option<HostState>,
    /// The last turn that has a snapshot.
    pub latest_snapshot_turn: Option<u32>,
    /// Its last turn has ended, and the snapshot of that is being made ("") or can't be made: why.
    snapshot_due: Option<String>,
    /// A limit ended its last turn, and nothing has begun since.
    pub quota: Option<Quota>,
    /// When that limit is over, if the executor said so.
    pub resume_at: Option<Timestamp>,
    #[serde(rename = "session_id")]
    pub latest_session_id: Option<SessionId>,
    #[serde(rename = "session_executor")]
    pub latest_session_executor: Option<String>,
}

impl AttemptOverview {
    /// The snapshot of its last turn is being made.
    pub fn is_snapshot_pending(&self) -> bool {
        self.snapshot_due.as_deref() == Some("")
    }

    /// Why the snapshot of its last turn can't be made; it is tried again before the next turn.
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

/// The whole status of an attempt, as far as the store knows it.
#[derive(Clone, Debug, Deserialize)]
pub struct AttemptRow {
    #[serde(flatten)]
    pub overview: AttemptOverview,
    /// The newest process that is more than planned, or is about to be.
    #[serde(rename = "process_id")]
    pub latest_execution_process_id: Option<ProcessId>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    pub failure_summary: Option<String>,
    /// Of the error that it failed by.
    pub error_type: Option<ErrorType>,
    pub final_message: Option<String>,
    /// What all its turns that have ended used.
    #[serde(rename = "spent")]
    pub usage: Option<AttemptUsage>,
    /// How the limits of that process are held.
    pub limits: Vec<AttemptLimit>,
    /// What holds that process; `None`: it has no box.
    pub sandbox: Option<Receipt>,
    /// A permission that it asked for was denied.
    pub was_denied: bool,
    pub queued_follow_ups: u32,
    pub queue_held: bool,
    /// What its work became after its latest process.
    pub finish: Option<LastFinish>,
    /// Number of its latest change, in one count over all attempts.
    pub revision: i64,
    /// Number of the change by which it last settled; 0 if it never has.
    pub settled_revision: i64,
}

/// The newest finish of an attempt that was not refused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LastFinish {
    pub action: FinishAction,
    pub state: FinishState,
    /// Why its step under way is not done yet.
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

/// Where one repository of an attempt is checked out.
#[derive(Deserialize)]
struct FolderRow {
    attempt_id: AttemptId,
    #[serde(deserialize_with = "plain::name")]
    folder: String,
    #[serde(deserialize_with = "plain::name")]
    name: String,
}

/// The statuses of attempts for a condition. The usage of a process is that of its turn alone, so
/// theirs can be added up; a cost that one of them does not have makes the sum unknown.
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
    /// Adds whether it waits, and for what: one that waits for an answer does not run, and one whose
    /// last turn gets its snapshot has not settled yet.
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

    fn whole(&self, status: AttemptRow) -> AttemptRow {
        // The failure is the newest process's, which has not run where the attempt is idle.
        let has_ended = matches!(status.overview.line.state, State::Failed | State::Completed);
        AttemptRow {
            overview: self.with_waits(status.overview),
            failure_summary: status.failure_summary.filter(|_| has_ended),
            error_type: status.error_type.filter(|_| has_ended),
            ..status
        }
    }

    /// A task's attempts, newest first, ties by id ascending; of those that come after the
    /// given one. Those of a deleted task stay readable.
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

    /// The attempts of all projects, newest first; without `all`, those that are
    /// queued or active and the newest 20.
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

    /// The newest attempts of all projects, with their tasks' titles.
    pub async fn newest_attempts(&self, most: usize) -> Result<Vec<(AttemptId, String)>, Refusal> {
        let sql = "SELECT a.attempt_id, t.title FROM attempts a
             JOIN tasks t ON t.task_id = a.task_id
             ORDER BY a.created_at DESC, a.attempt_id ASC LIMIT $1";
        self.read(async |db| db.all(sql, (most,)).await).await
    }

    /// The status of an attempt.
    pub async fn status(&self, attempt: AttemptId) -> Result<AttemptRow, Refusal> {
        let sql = statuses!("WHERE o.attempt_id = $1");
        let read = async |db: Db<'_>| db.find(sql, (attempt,)).await;
        let found: Option<AttemptRow> = self.read_once("status", attempt, read).await?;
        Ok(self.whole(found.ok_or_else(|| not_found::attempt(attempt))?))
    }

    /// The status of each of these attempts, in the order asked, all of one moment.
    pub async fn statuses(&self, attempts: &[AttemptId]) -> Result<Vec<AttemptRow>, Refusal> {
        let sql = statuses!("WHERE o.attempt_id IN (SELECT value FROM json_each($1))");
        let found: Vec<AttemptRow> = self.read(async |db| db.all(sql, (attempts,)).await).await?;
        let found: HashMap<AttemptId, AttemptRow> =
            found.into_iter().map(|it| (it.overview.line.attempt_id, self.whole(it))).collect();
        let of = |id: &AttemptId| found.get(id).cloned().ok_or_else(|| not_found::attempt(*id));
        attempts.iter().map(of).collect()
    }

    /// The number of the latest change of any attempt.
    pub async fn newest_revision(&self) -> Result<i64, Refusal> {
        let sql = "SELECT coalesce(max(revision), 0) FROM attempts";
        self.read(async |db| db.one(sql, ()).await).await
    }

    /// Registers for a wake-up when one of these attempts changes.
    pub fn watch(&self, attempts: &[AttemptId]) -> ChangeWatch {
        self.changes.watch(attempts)
    }

    /// The attempt whose worktrees are in this folder.
    pub async fn attempt_in(&self, folder: &str) -> Result<Option<AttemptId>, Refusal> {
        let sql = "SELECT attempt_id FROM attempts WHERE folder = $1";
        self.read(async |db| db.find(sql, (folder,)).await).await
    }

    /// The folder of each of these attempts and the names of its repositories: a row
    /// for each repository.
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

    /// Where the work of this attempt is.
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
