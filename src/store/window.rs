//! What the pages read: first the facts of all open tasks and their attempts, by a fixed number of
//! statements; then the details of those that the page shows.

use provost_actors::event::Timestamp;
use provost_actors::ids::{ApprovalId, AttemptId, ProjectId, TaskId};
use provost_actors::journal::Approval;
use serde::Deserialize;

use super::{Refusal, Result, Sql, Store};
use crate::api::window::{FailedCheck, Outcome, TaskLine, UsageRow};
use crate::work::attention::{AttemptFacts, TaskFacts};

/// A statement with the table `open`: the tasks that are not closed, and those whose work was verified and
/// may still have to be merged; of the project `$1`, or of all. There may be thousands of tasks that have not
/// been begun, and each of them needs no more than its row: `is_unbegun` separates them.
macro_rules! of_open {
    ($($rest:literal),+) => {
        concat!(
            "WITH live AS MATERIALIZED (
                 SELECT project_id FROM projects
                 WHERE deleted_at IS NULL AND (project_id = $1 OR $1 IS NULL)),
             asking AS MATERIALIZED (
                 SELECT a.task_id FROM questions q
                 JOIN question_askers a ON a.question_id = q.question_id
                 WHERE q.status = 'open' AND a.task_id IS NOT NULL
                 UNION ALL
                 SELECT k.blocks_task_id FROM tickets k
                 WHERE k.status = 'open' AND k.kind <> 'investigation'
                   AND k.blocks_task_id IS NOT NULL),
             found AS (
                 SELECT task_id, priority, updated_at, status, standing FROM tasks
                 WHERE status NOT IN ('done', 'cancelled') AND deleted_at IS NULL
                   AND kind <> 'answer' AND project_id IN (SELECT project_id FROM live)
                 UNION ALL
                 SELECT task_id, priority, updated_at, status, standing FROM tasks
                 WHERE status = 'done' AND standing = 'verified' AND deleted_at IS NULL
                   AND kind <> 'answer' AND project_id IN (SELECT project_id FROM live)),
             open AS (
                 SELECT *, status = 'todo' AND standing IS NULL
                     AND task_id NOT IN (SELECT task_id FROM asking)
                     AND NOT EXISTS (SELECT 1 FROM attempts b WHERE b.task_id = found.task_id)
                     AS is_unbegun
                 FROM found) ",
            $($rest),+
        )
    };
}

/// The facts of the open tasks `o` that a condition picks.
macro_rules! task_facts {
    ($rest:literal) => {
        of_open!(
            "SELECT o.task_id, o.priority, o.updated_at, o.status, o.standing,
                    EXISTS (SELECT 1 FROM task_dependencies d
                            JOIN tasks u ON u.task_id = d.depends_on
                            WHERE d.task_id = o.task_id AND u.status <> 'done'
                              AND u.deleted_at IS NULL) AS waits,
                    o.task_id IN (SELECT task_id FROM asking) AS asks
             FROM ",
            $rest
        )
    };
}

const TASK_FACTS: &str = task_facts!("open o WHERE NOT o.is_unbegun");

/// The tasks that have not been begun, in the order in which they should be.
const UNBEGUN: &str = task_facts!(
    "(SELECT * FROM open WHERE is_unbegun
      ORDER BY CASE priority WHEN 'critical' THEN 3 WHEN 'high' THEN 2 WHEN 'medium' THEN 1
               ELSE 0 END DESC, task_id DESC LIMIT $2) o"
);
const UNBEGUN_COUNT: &str = of_open!("SELECT count(*) FROM open WHERE is_unbegun");

/// The facts of the attempts of open tasks; those of a task come oldest first. `CROSS JOIN` makes SQLite
/// begin with the few open tasks.
const ATTEMPT_FACTS: &str = of_open!(
    "SELECT a.attempt_id, a.task_id, a.updated_at, a.phase, a.state,
            coalesce(x.ended_at, a.updated_at) AS settled_at,
            (a.phase IN ('preparing', 'running') AND EXISTS (
                 SELECT 1 FROM approvals v
                 WHERE v.attempt_id = a.attempt_id AND v.status = 'pending'
                   AND v.of_attempt = 0)) AS asks,
            (a.phase = 'settled' AND x.quota IS NOT DISTINCT FROM 'ask') AS quota_asks,
            (a.phase = 'settled' AND x.quota IS NOT DISTINCT FROM 'auto') AS resumes,
            f.request ->> 'action' AS finish, f.state AS finish_state,
            EXISTS (SELECT 1 FROM probes p
                    WHERE p.attempt_id = a.attempt_id AND p.other_id = '' AND p.path_count > 0)
                AS conflicts,
            (a.state = 'failed' AND x.status IS NOT DISTINCT FROM 'killed') AS was_stopped,
            EXISTS (SELECT 1 FROM hosts h
                    WHERE h.host_id = a.host AND h.state = 'draining') AS host_drains
     FROM open o
     CROSS JOIN attempts a ON a.task_id = o.task_id
     LEFT JOIN processes x ON x.process_id = (
         SELECT process_id FROM processes
         WHERE attempt_id = a.attempt_id AND run_reason = 'coding_agent' AND ended_at IS NOT NULL
         ORDER BY turn DESC, process_id DESC LIMIT 1)
     LEFT JOIN finishes f ON f.finish_id = (
         SELECT finish_id FROM finishes
         WHERE attempt_id = a.attempt_id AND state <> 'refused'
           AND finish_id > coalesce(x.process_id, '')
         ORDER BY finish_id DESC LIMIT 1)
     ORDER BY a.created_at, a.attempt_id DESC"
);

/// A statement about the closed tasks of the project `$1`, or of all. A verified task counts as open.
macro_rules! of_closed {
    ($select:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $select,
            " FROM tasks
             WHERE status IN ('done', 'cancelled') AND deleted_at IS NULL
               AND (status = 'cancelled' OR standing IS DISTINCT FROM 'verified') AND kind <> 'answer'
               AND project_id IN (SELECT project_id FROM projects
                                  WHERE deleted_at IS NULL AND (project_id = $1 OR $1 IS NULL)) ",
            $rest
        )
    };
}

const CLOSED_COUNT: &str = of_closed!("count(*)", "");
const CLOSED: &str = of_closed!("task_id, updated_at", "ORDER BY updated_at DESC LIMIT $2");

/// The newest pending approvals. `|| ''` keeps SQLite from reading all approvals in the order of their ids:
/// the index of the pending ones, which are few, is faster.
const PENDING: &str = "SELECT v.approval_id, v.asked_at FROM approvals v
    JOIN attempts a ON a.attempt_id = v.attempt_id JOIN tasks t ON t.task_id = a.task_id
    WHERE v.status = 'pending' AND (t.project_id = $1 OR $1 IS NULL)
    ORDER BY v.approval_id || '' DESC";

const TASK_LINES: &str = "SELECT t.task_id, t.handle, t.title, t.status, t.priority, t.project_id,
           p.name AS project_name, t.blocked_reason,
           (SELECT json_group_array(u.handle ORDER BY u.task_id)
            FROM task_dependencies d JOIN tasks u ON u.task_id = d.depends_on
            WHERE d.task_id = t.task_id AND u.status <> 'done' AND u.deleted_at IS NULL)
               AS waits_for,
           (SELECT count(*) FROM attempts a WHERE a.task_id = t.task_id) AS attempts
    FROM json_each($1) e
    JOIN tasks t ON t.task_id = e.value JOIN projects p ON p.project_id = t.project_id";

/// The checks that did not pass, of the newest run of each attempt.
const FAILED_CHECKS: &str =
    "SELECT e.value AS attempt_id, c.name, c.command, c.outcome, c.exit_code, c.reason
    FROM json_each($1) e
    JOIN receipts c ON c.run_id = (
        SELECT max(r.run_id) FROM check_runs r
        WHERE r.attempt_id = e.value AND r.attempt_id IS NOT NULL AND r.verdict IS NOT NULL)
    WHERE c.outcome <> 'passed' ORDER BY c.run_id, c.name";

/// The paths of the newest finish that had conflicts, and those that a trial merge with the target has found.
const CONFLICT_PATHS: &str = "SELECT e.value, j.value ->> 'path'
    FROM json_each($1) e
    JOIN finishes f ON f.finish_id = (
        SELECT finish_id FROM finishes
        WHERE attempt_id = e.value AND state = 'conflicts' ORDER BY finish_id DESC LIMIT 1)
    JOIN json_each(f.receipt, '$.ending.conflicts.conflicts') j ON true
    UNION
    SELECT e.value, j.value
    FROM json_each($1) e
    JOIN probes p ON p.attempt_id = e.value AND p.other_id = '' AND p.path_count > 0
    JOIN json_each(p.paths) j ON true";

/// The newest attempts `$2` of the task `$1`, each with its turns, its finish and its checks.
const OUTCOMES: &str = "SELECT a.attempt_id,
           (SELECT count(*) FROM processes x
            WHERE x.attempt_id = a.attempt_id AND x.run_reason = 'coding_agent'
              AND x.ended_at IS NOT NULL) AS turns,
           (SELECT CAST(coalesce(sum(CASE WHEN x.ended_at > x.created_at
                                     THEN x.ended_at - x.created_at END), 0) AS BIGINT) FROM processes x
            WHERE x.attempt_id = a.attempt_id AND x.run_reason = 'coding_agent'
              AND x.ended_at IS NOT NULL) AS turns_ms,
           f.request ->> 'action' AS finish, f.state AS finish_state,
           (SELECT json_group_array(json_object('name', c.name, 'outcome', c.outcome)
                                    ORDER BY c.name)
            FROM receipts c WHERE c.run_id = (
                SELECT max(r.run_id) FROM check_runs r
                WHERE r.attempt_id = a.attempt_id AND r.attempt_id IS NOT NULL
                  AND r.verdict IS NOT NULL)) AS checks
    FROM attempts a
    LEFT JOIN finishes f ON f.finish_id = (
        SELECT finish_id FROM finishes WHERE attempt_id = a.attempt_id AND state <> 'refused'
        ORDER BY finish_id DESC LIMIT 1)
    WHERE a.task_id = $1 ORDER BY a.created_at DESC, a.attempt_id LIMIT $2";

/// `$1` is the time at which the first day begins, `$2` the length of a day in milliseconds.
const USAGE: &str = "SELECT (x.ended_at - $1) / $2 AS day, p.project_id, p.name AS project_name,
           s.executor, count(*) AS turns,
           CAST(coalesce(sum(CAST(x.usage ->> 'input_tokens' AS BIGINT)), 0) AS BIGINT) AS input_tokens,
           CAST(coalesce(sum(CAST(x.usage ->> 'output_tokens' AS BIGINT)), 0) AS BIGINT) AS output_tokens,
           coalesce(sum(CAST(x.usage ->> 'cost_usd' AS DOUBLE PRECISION)), 0.0) AS cost_usd,
           count(*) - count(x.usage ->> 'cost_usd') AS without_cost
    FROM processes x
    JOIN sessions s ON s.session_id = x.session_id
    JOIN attempts a ON a.attempt_id = x.attempt_id
    JOIN tasks t ON t.task_id = a.task_id
    JOIN projects p ON p.project_id = t.project_id
    WHERE x.run_reason = 'coding_agent' AND x.ended_at >= $1
    GROUP BY day, p.project_id, s.executor ORDER BY day, p.name, s.executor";

/// The facts of the open tasks that have been begun, or about which something is asked.
#[derive(Clone, Debug, Default)]
pub struct OpenFacts {
    pub tasks: Vec<TaskFacts>,
    pub attempts: Vec<AttemptFacts>,
}

/// A closed task and the time of its last change.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ClosedTask {
    pub task_id: TaskId,
    pub updated_at: Timestamp,
}

#[derive(Deserialize)]
struct CheckRow {
    attempt_id: AttemptId,
    name: String,
    command: String,
    outcome: String,
    exit_code: Option<i32>,
    reason: Option<String>,
}

impl Store {
    /// The facts of the open tasks that have been begun, and of their attempts, for `work::attention`; of one
    /// project, or of all. Each attempt's wait for the disk is added from memory.
    pub async fn open_facts(&self, project: Option<ProjectId>) -> Result<OpenFacts, Refusal> {
        let tasks = self.read(async |db| db.all(TASK_FACTS, (project,)).await);
        let attempts = self.read(async |db| db.all(ATTEMPT_FACTS, (project,)).await);
        let (tasks, mut attempts): (_, Vec<AttemptFacts>) = tokio::try_join!(tasks, attempts)?;
        for attempt in &mut attempts {
            attempt.waits_for_disk = self.changes.waits_for_disk(attempt.attempt_id).is_some();
        }
        Ok(OpenFacts { tasks, attempts })
    }

    /// How many open tasks have not been begun, and the first `most` of them.
    pub async fn unbegun_tasks(
        &self,
        project: Option<ProjectId>,
        most: usize,
    ) -> Result<(usize, Vec<TaskFacts>), Refusal> {
        let count = self.read(async |db| db.one(UNBEGUN_COUNT, (project,)).await);
        let first = self.read(async |db| db.all(UNBEGUN, (project, most)).await);
        tokio::try_join!(count, first)
    }

    /// How many tasks are closed, and the `most` that changed last.
    pub async fn closed_tasks(
        &self,
        project: Option<ProjectId>,
        most: usize,
    ) -> Result<(usize, Vec<ClosedTask>), Refusal> {
        self.read(async |db| {
            let count = db.one(CLOSED_COUNT, (project,)).await?;
            Ok((count, db.all(CLOSED, (project, most)).await?))
        })
        .await
    }

    /// The pending approvals, newest first, each with the time at which it was asked for.
    pub async fn pending_approvals(
        &self,
        project: Option<ProjectId>,
    ) -> Result<Vec<(ApprovalId, Timestamp)>, Refusal> {
        self.read(async |db| db.all(PENDING, (project,)).await).await
    }

    /// These approvals, in any order; unknown ids are left out.
    pub async fn approvals_by_id(&self, ids: &[ApprovalId]) -> Result<Vec<Approval>, Refusal> {
        let sql = "SELECT * FROM approvals
             WHERE approval_id IN (SELECT value FROM json_each($1))";
        self.read(async |db| db.all(sql, (ids,)).await).await
    }

    /// The lines of these tasks, in any order; unknown ids are left out.
    pub async fn task_lines(&self, tasks: &[TaskId]) -> Result<Vec<TaskLine>, Refusal> {
        self.read(async |db| db.all(TASK_LINES, (tasks,)).await).await
    }

    /// The checks that did not pass in the newest run of each of these attempts.
    pub async fn failed_checks(
        &self,
        attempts: &[AttemptId],
    ) -> Result<Vec<(AttemptId, FailedCheck)>, Refusal> {
        let rows: Vec<CheckRow> =
            self.read(async |db| db.all(FAILED_CHECKS, (attempts,)).await).await?;
        let check = |row: CheckRow| {
            let CheckRow { attempt_id, name, command, outcome, exit_code, reason } = row;
            (attempt_id, FailedCheck { name, command, outcome, exit_code, reason })
        };
        Ok(rows.into_iter().map(check).collect())
    }

    /// The paths in which these attempts do not merge with their targets.
    pub async fn conflict_paths(
        &self,
        attempts: &[AttemptId],
    ) -> Result<Vec<(AttemptId, String)>, Refusal> {
        self.read(async |db| db.all(CONFLICT_PATHS, (attempts,)).await).await
    }

    /// The newest attempts of a task with what became of them, newest first.
    pub async fn outcomes(&self, task: TaskId, most: usize) -> Result<Vec<Outcome>, Refusal> {
        self.read(async |db| db.all(OUTCOMES, (task, most)).await).await
    }

    /// The usage of the turns that ended since `from`, by day, project and executor. Day 0 begins at `from`.
    pub async fn usage_since(
        &self,
        from: Timestamp,
        day_ms: i64,
    ) -> Result<Vec<UsageRow>, Refusal> {
        self.read(async |db| db.all(USAGE, (from.millis(), day_ms)).await).await
    }
}

#[cfg(test)]
mod tests;
