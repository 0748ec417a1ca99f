//! What an attempt with the role of an orchestrator may name in its calls: the attempts that
//! it started with their sessions and approvals, and its own project.

use provost_actors::ids::AttemptId;

use super::{Refusal, Sql, Store};
use crate::api::placed::Subject;

/// A field that names something of which an attempt reaches a part.
#[derive(Clone, Copy, Debug)]
pub struct Named(&'static str);

impl Named {
    /// What a field of a tool names, if this is known: the statement says whether the
    /// attempt $2 reaches $1.
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
            // By id or handle; only the attempts that it started have asked or opened it.
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
            // Its own is for its reports and their checks to close.
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
    /// The host of the attempt that something belongs to, and that attempt, unless it is a run of
    /// checks; `None`: there is no such thing.
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

    /// The attempt that is meant, if no host has it.
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
            // Nothing of one asks for a permission, and runs of checks have hosts of their own.
            Subject::Approval(_) | Subject::ChecksOf(_) => return Ok(None),
        };
        self.read(async |db| db.find(sql, (id,)).await).await
    }

    /// Whether what is named is within an attempt's reach.
    pub async fn reaches(
        &self,
        attempt: AttemptId,
        named: Named,
        id: &str,
    ) -> Result<bool, Refusal> {
        self.read(async |db| db.one(named.0, (id, attempt)).await).await
    }
}
