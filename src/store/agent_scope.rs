//! What an attempt with the role of an orchestrator may name in its calls: the attempts that it started, with
//! their sessions, approvals and comments, and its own project.

use provost_actors::ids::AttemptId;

use super::{Refusal, Sql, Store};
use crate::api::placed::Subject;

/// A statement that answers whether the attempt `$2` may name the id `$1`.
#[derive(Clone, Copy, Debug)]
pub struct Named(&'static str);

impl Named {
    /// The check for a field of a tool; `None`: the field names nothing that is limited.
    pub fn by(field: &str, tool: &str) -> Option<Self> {
        Some(Self(match field {
            "attempt_id" | "attempt_ids" => {
                "SELECT EXISTS (SELECT 1 FROM attempts
                                WHERE attempt_id = lower($1) AND parent_id = $2)"
            }
            "session_id" => {
                "SELECT EXISTS (SELECT 1 FROM sessions s JOIN attempts a USING (attempt_id)
                                WHERE s.session_id = lower($1) AND a.parent_id = $2)"
            }
            "approval_id" => {
                "SELECT EXISTS (SELECT 1 FROM approvals v JOIN attempts a USING (attempt_id)
                                WHERE v.approval_id = lower($1) AND a.parent_id = $2)"
            }
            "comment_id" => {
                "SELECT EXISTS (SELECT 1 FROM comments c JOIN attempts a USING (attempt_id)
                                WHERE c.comment_id = lower($1) AND a.parent_id = $2)"
            }
            // By id or handle. The attempt may name it only if all askers are attempts that it started.
            "question_id" => {
                "WITH asked AS (
                     SELECT q.project_id, a.parent_id FROM questions q
                     JOIN question_askers k USING (question_id)
                     LEFT JOIN attempts a ON a.attempt_id = k.attempt_id
                     WHERE q.question_id = lower(trim($1)) OR q.handle = upper(trim($1))
                     UNION ALL
                     SELECT t.project_id, a.parent_id FROM tickets t
                     LEFT JOIN attempts a ON a.attempt_id = t.attempt_id
                     WHERE t.ticket_id = lower(trim($1)) OR t.handle = upper(trim($1))),
                 own AS (SELECT t.project_id FROM attempts a JOIN tasks t USING (task_id)
                         WHERE a.attempt_id = $2)
                 SELECT EXISTS (SELECT 1 FROM asked)
                    AND NOT EXISTS (SELECT 1 FROM asked
                                    WHERE parent_id IS DISTINCT FROM $2
                                       OR project_id IS DISTINCT FROM (SELECT project_id FROM own))"
            }
            "project_id" => {
                "SELECT EXISTS (SELECT 1 FROM attempts a JOIN tasks t USING (task_id)
                                WHERE a.attempt_id = $2 AND t.project_id = lower($1))"
            }
            // Not its own task: its reports and their checks close that one.
            "task_id" if tool == "update_task" => {
                "SELECT EXISTS (SELECT 1 FROM attempts a JOIN tasks o USING (task_id)
                                JOIN tasks t ON t.project_id = o.project_id
                                WHERE a.attempt_id = $2 AND t.task_id <> o.task_id
                                  AND (t.task_id = lower($1) OR t.handle = upper($1)))"
            }
            "task_id" => {
                "SELECT EXISTS (SELECT 1 FROM attempts a JOIN tasks o USING (task_id)
                                JOIN tasks t ON t.project_id = o.project_id
                                WHERE a.attempt_id = $2
                                  AND (t.task_id = lower($1) OR t.handle = upper($1)))"
            }
            _ => return None,
        }))
    }
}

impl Store {
    /// The host that something belongs to, with the attempt that it belongs to; a run of checks has no
    /// attempt here. `None`: the id names nothing.
    pub async fn host_of(
        &self,
        about: Subject<'_>,
    ) -> Result<Option<(String, Option<AttemptId>)>, Refusal> {
        let (sql, id) = match about {
            Subject::Attempt(id) => {
                ("SELECT host, attempt_id FROM attempts WHERE attempt_id = lower($1)", id)
            }
            Subject::Session(id) => (
                "SELECT a.host, a.attempt_id FROM sessions s JOIN attempts a USING (attempt_id)
                 WHERE s.session_id = lower($1)",
                id,
            ),
            Subject::Approval(id) => (
                "SELECT a.host, a.attempt_id FROM approvals v JOIN attempts a USING (attempt_id)
                 WHERE v.approval_id = lower($1)",
                id,
            ),
            Subject::ChecksOf(id) => (
                "SELECT host, NULL AS attempt_id FROM check_runs WHERE task_id = lower($1) AND finish_id IS NULL
                 ORDER BY run_id DESC LIMIT 1",
                id,
            ),
        };
        self.read(async |db| db.find(sql, (id,)).await).await
    }

    /// The attempt that an id belongs to, if no host has taken that attempt yet.
    pub async fn unplaced_of(&self, about: Subject<'_>) -> Result<Option<AttemptId>, Refusal> {
        let (sql, id) = match about {
            Subject::Attempt(id) => {
                ("SELECT attempt_id FROM attempts WHERE attempt_id = lower($1) AND host = ''", id)
            }
            Subject::Session(id) => (
                "SELECT a.attempt_id FROM sessions s JOIN attempts a USING (attempt_id)
                 WHERE s.session_id = lower($1) AND a.host = ''",
                id,
            ),
            // Only a running attempt asks for permissions, and check runs have hosts of their own.
            Subject::Approval(_) | Subject::ChecksOf(_) => return Ok(None),
        };
        self.read(async |db| db.find(sql, (id,)).await).await
    }

    /// Whether an attempt may name `id` in the field of `named`.
    pub async fn reaches(
        &self,
        attempt: AttemptId,
        named: Named,
        id: &str,
    ) -> Result<bool, Refusal> {
        self.read(async |db| db.one(named.0, (id, attempt)).await).await
    }
}
