//! Whole attempts, as their actors need them: written at their start, and read again by a new daemon or a new
//! actor.

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, ProcessId};
use provost_actors::journal::{
    Attempt, AttemptRepo, AttemptStarted, Attempts, Idempotent, Key, Process,
};
use provost_actors::workspace::Places;
use serde_json::json;

use super::{
    Db, Refusal, Result, RetryBudget, Sql, Store, finishes, not_found, now, placement,
    session_queue, task_status,
};

/// Whole attempts, oldest first; `$which` is the condition. [`complete`] adds the lists from other tables.
macro_rules! select {
    ($which:literal) => {
        concat!(
            "SELECT a.*, a.parent_id AS parent, a.queue_held AS held,
                    CASE WHEN a.forked_from IS NOT NULL THEN
                        json_object('attempt_id', a.forked_from, 'turn', a.forked_turn) END AS fork,
                    t.title AS task_title,
                    t.project_id, p.name AS project_name,
                    t.priority, t.kind = 'answer' AS is_answer,
                    s.session_id,
                    (SELECT CASE status WHEN 'completed' THEN status ELSE 'failed' END FROM processes
                     WHERE attempt_id = a.attempt_id AND run_reason = 'coding_agent'
                       AND ended_at IS NOT NULL
                     ORDER BY turn DESC, process_id DESC LIMIT 1) AS ended_as,
                    json_object('process_id', x.process_id, 'run_reason', x.run_reason,
                                'turn', x.turn, 'prompt', x.prompt, 'variant', x.variant,
                                'queue_id', x.queue_id,
                                'executor_session_id', s.executor_session_id,
                                'status', x.status, 'exit_code', x.exit_code,
                                'exit_signal', x.exit_signal) AS process,
                    '[]' AS repos, '[]' AS leftovers, '[]' AS waiting,
                    NULL AS finish, NULL AS lends, (SELECT process_id FROM processes d
                     WHERE d.attempt_id = a.attempt_id AND d.run_reason = 'dev_server'
                       AND d.ended_at IS NULL
                     ORDER BY d.process_id DESC LIMIT 1) AS dev_server,
                    EXISTS (SELECT 1 FROM processes d WHERE d.attempt_id = a.attempt_id
                            AND d.snapshot_due = 1) AS snapshot_due,
                    (SELECT json_object('level', d.sandbox ->> 'level',
                                        'variant', d.variant)
                     FROM processes d
                     WHERE d.attempt_id = a.attempt_id AND d.run_reason = 'coding_agent'
                       AND d.sandbox IS NOT NULL
                     ORDER BY d.sandbox ->> 'level' IS NOT DISTINCT FROM 'strict' DESC, d.turn DESC
                     LIMIT 1) AS most_held
             FROM attempts a
             JOIN tasks t ON t.task_id = a.task_id
             JOIN projects p ON p.project_id = t.project_id
             JOIN processes x ON x.process_id = (
                 SELECT process_id FROM processes
                 WHERE attempt_id = a.attempt_id AND run_reason = 'coding_agent'
                 ORDER BY turn DESC, process_id DESC LIMIT 1)
             JOIN sessions s ON s.session_id = x.session_id
             WHERE ",
            $which,
            " ORDER BY a.created_at, a.attempt_id"
        )
    };
}

/// Adds what other tables hold of an attempt: repositories, waiting prompts, leftover processes, and its
/// finish.
async fn complete(db: Db<'_>, mut attempt: Attempt, places: &Places) -> Result<Attempt> {
    attempt.repos = repos_of(db, attempt.attempt_id, places).await?;
    let sql = "SELECT * FROM follow_ups WHERE session_id = $1 ORDER BY position";
    attempt.waiting = db.all(sql, (attempt.session_id,)).await?;
    // Leftovers are processes that have begun and of which something may still be alive, oldest first.
    // Scripts do not count: the preparation of the turn finds its own scripts.
    let sql = "SELECT *, $2 AS executor_session_id FROM processes
         WHERE attempt_id = $1 AND status <> 'planned' AND closed = 0
           AND run_reason = 'coding_agent'
         ORDER BY turn, process_id";
    let values = (attempt.attempt_id, &attempt.process.executor_session_id);
    let mut leftovers: Vec<Process> = db.all(sql, values).await?;
    // The turn that has not settled yet is no leftover.
    let current = attempt.phase.is_active().then_some(attempt.process.process_id);
    leftovers.retain(|process| Some(process.process_id) != current);
    attempt.leftovers = leftovers;
    attempt.finish = finishes::open_finish(db, attempt.attempt_id).await?;
    attempt.lends = finishes::lent_to(db, attempt.attempt_id).await?;
    Ok(attempt)
}

/// The repositories of an attempt, with the paths where this host has them.
pub(super) async fn repos_of(
    db: Db<'_>,
    attempt: AttemptId,
    places: &Places,
) -> Result<Vec<AttemptRepo>> {
    let sql = "SELECT *, path AS board_path FROM attempt_repos WHERE attempt_id = $1
         ORDER BY position";
    let mut repos: Vec<AttemptRepo> = db.all(sql, (attempt,)).await?;
    for repo in &mut repos {
        repo.path = places.of(repo.repo_id, &repo.board_path).to_string_lossy().into_owned();
    }
    Ok(repos)
}

#[async_trait]
impl Attempts for Store {
    /// One transaction: either the attempt is on the board with all of its rows, or nothing of it exists and
    /// nothing runs.
    async fn record_start(
        &self,
        key: Option<&Key>,
        attempt: &Attempt,
        answer: &AttemptStarted,
    ) -> Result<Idempotent<AttemptStarted>, Refusal> {
        let recorded = self
            .keyed(RetryBudget::Long, key, "start", async |db| {
                let now = now();
                // Someone may have deleted the task since the caller checked it.
                if !task_status::by_start(db, attempt.task_id, now).await? {
                    return Err(not_found::task(attempt.task_id).into());
                }
                insert(db, attempt, now).await?;
                if attempt.host.is_empty() {
                    placement::hint(db).await?;
                }
                Ok(answer.clone())
            })
            .await?;
        self.changes.announce(attempt.attempt_id);
        Ok(recorded)
    }

    async fn attempt(&self, id: AttemptId) -> Result<Option<Attempt>, Refusal> {
        self.read(async |db| match db.find(select!("a.attempt_id = $1"), (id,)).await? {
            Some(found) => complete(db, found, &self.places).await.map(Some),
            None => Ok(None),
        })
        .await
    }

    async fn unsettled(&self) -> Result<Vec<Attempt>, Refusal> {
        let sql = select!(
            "a.host = $1 AND (a.phase IN ('queued', 'preparing', 'running', 'stopping')
             OR EXISTS (SELECT 1 FROM processes l WHERE l.attempt_id = a.attempt_id
                        AND (l.status <> 'planned' AND l.closed = 0
                             AND l.run_reason = 'coding_agent'
                             OR l.run_reason = 'dev_server' AND l.ended_at IS NULL
                             OR l.snapshot_due = 1))
             OR EXISTS (SELECT 1 FROM finishes f WHERE f.attempt_id = a.attempt_id
                        AND f.state = 'open'))"
        );
        self.read(async |db| {
            let mut attempts = Vec::new();
            for attempt in db.all(sql, (&self.host,)).await? {
                attempts.push(complete(db, attempt, &self.places).await?);
            }
            Ok(attempts)
        })
        .await
    }

    async fn resumable(&self) -> Result<Vec<(AttemptId, ProcessId, Timestamp)>, Refusal> {
        let sql = "SELECT x.attempt_id, x.process_id, x.resume_at
             FROM processes x JOIN attempts a ON a.attempt_id = x.attempt_id
             WHERE a.host = $1 AND x.quota = 'auto' AND x.resume_at IS NOT NULL AND a.phase = 'settled'
               AND x.turn = (SELECT max(turn) FROM processes WHERE attempt_id = x.attempt_id)";
        self.read(async |db| db.all(sql, (&self.host,)).await).await
    }
}

async fn insert(db: Db<'_>, attempt: &Attempt, now: i64) -> Result<()> {
    // Lists sort attempts by their times: if the clock was set back, this attempt must still be newer
    // than the last one.
    let sql =
        "SELECT coalesce((SELECT created_at FROM attempts ORDER BY attempt_id DESC LIMIT 1), 0),
                (SELECT coalesce(max(revision), 0) FROM attempts)";
    let (last, revision): (i64, i64) = db.one(sql, ()).await?;
    let now = now.max(last + 1);
    let Attempt { attempt_id, session_id, executor, .. } = attempt;
    let row = json!({
        "attempt_id": attempt_id, "task_id": attempt.task_id, "branch": attempt.branch,
        "folder": attempt.folder, "executor": executor, "host": attempt.host,
        "labels": attempt.labels, "memory": attempt.memory, "phase": attempt.phase,
        "state": attempt.state, "epoch": attempt.epoch, "created_at": now, "updated_at": now,
        "parent_id": attempt.parent, "revision": revision + 1,
        "forked_from": attempt.fork.map(|fork| fork.attempt_id),
        "forked_turn": attempt.fork.map(|fork| fork.turn),
    });
    db.insert("INTO attempts", row).await?;
    for (position, repo) in attempt.repos.iter().enumerate() {
        let AttemptRepo { repo_id, name, board_path, target_branch, base_commit, .. } = repo;
        let row = json!({
            "attempt_id": attempt_id, "position": position, "repo_id": repo_id, "name": name,
            "path": board_path, "target_branch": target_branch, "base_commit": base_commit,
        });
        db.insert("INTO attempt_repos", row).await?;
    }
    let row = json!({
        "session_id": session_id, "attempt_id": attempt_id, "executor": executor, "created_at": now,
    });
    db.insert("INTO sessions", row).await?;
    session_queue::insert_process(db, *session_id, *attempt_id, &attempt.process, now).await
}
