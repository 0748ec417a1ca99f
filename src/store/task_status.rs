//! How a task's status follows its attempts: a start or a follow-up sets the task to `inprogress`, and the
//! last attempt that settles sets it to `inreview`, if one of them has completed. A status that a person, an
//! orchestrator or a report has set since then stays. All of these are parts of transactions.

use provost_actors::ids::{AttemptId, TaskId};

use super::{Db, Result, Sql};

/// Sets a task in progress, and records the revision of the attempts at which this began.
macro_rules! begin {
    ($which:literal) => {
        concat!(
            "UPDATE tasks SET updated_at = $2, status = 'inprogress',
                    begun_revision = coalesce(
                        CASE WHEN status = 'inprogress' THEN begun_revision END,
                        (SELECT coalesce(max(revision), 0) FROM attempts))
             WHERE deleted_at IS NULL AND ",
            $which
        )
    };
}

/// Notes that an attempt at the task is to run. `false`: the task is not on the board any more.
pub(super) async fn by_start(db: Db<'_>, task: TaskId, now: i64) -> Result<bool> {
    Ok(db.run(begin!("task_id = $1"), (task, now)).await? > 0)
}

/// Notes that a follow-up begins a turn. A closed task, or one whose status a report has set, stays as it is.
pub(super) async fn by_follow_up(db: Db<'_>, attempt: AttemptId, now: i64) -> Result<u64> {
    let sql = begin!(
        "task_id = (SELECT task_id FROM attempts WHERE attempt_id = $1)
         AND status IN ('todo', 'inprogress', 'inreview') AND standing IS NULL"
    );
    db.run(sql, (attempt, now)).await
}

/// Notes that an attempt has settled; its row must say so already. A task that puts a question to an executor
/// ends when the question is answered, not here.
pub(super) async fn settled(db: Db<'_>, attempt: AttemptId, now: i64) -> Result<u64> {
    let sql = "UPDATE tasks SET status = 'inreview', begun_revision = NULL, updated_at = $2
         WHERE task_id = (SELECT task_id FROM attempts WHERE attempt_id = $1)
           AND status = 'inprogress' AND begun_revision IS NOT NULL AND standing IS NULL
           AND kind <> 'answer' AND deleted_at IS NULL
           AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.task_id = tasks.task_id
                           AND a.phase IN ('queued', 'preparing', 'running', 'stopping'))
           AND EXISTS (SELECT 1 FROM attempts a WHERE a.task_id = tasks.task_id
                       AND a.state = 'completed' AND a.settled_revision > tasks.begun_revision)";
    db.run(sql, (attempt, now)).await
}
