//! How a task's status follows its attempts: a start or a follow-up puts it to
//! `inprogress`, and the last of them that settles to `inreview`, if there is
//! something to look at. What a person, an orchestrator or a report has said of
//! the task since is left alone. Parts of transactions.

use super::Writing;

/// The newest revision of all attempts.
const NEWEST: &str = "(SELECT coalesce(max(revision), 0) FROM attempts)";

/// An attempt at the task is to run. `false`: the task is not on the board any more.
pub(super) async fn by_start(
    writing: Writing<'_>,
    task: &str,
    now: i64,
) -> Result<bool, sqlx::Error> {
    let begun = sqlx::query(sqlx::AssertSqlSafe(format!(
        "UPDATE tasks SET updated_at = ?2, status = 'inprogress',
                begun_revision = CASE WHEN status = 'inprogress'
                    THEN coalesce(begun_revision, {NEWEST}) ELSE {NEWEST} END
         WHERE task_id = ?1 AND deleted_at IS NULL"
    )))
    .bind(task)
    .bind(now)
    .execute(writing)
    .await?;
    Ok(begun.rows_affected() > 0)
}

/// A turn of an attempt begins by a follow-up. A task that is closed, or of which a
/// report has the word, stays as it is.
pub(super) async fn by_follow_up(
    writing: Writing<'_>,
    attempt: &str,
    now: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(sqlx::AssertSqlSafe(format!(
        "UPDATE tasks SET updated_at = ?2, status = 'inprogress',
                begun_revision = CASE WHEN status = 'inprogress'
                    THEN coalesce(begun_revision, {NEWEST}) ELSE {NEWEST} END
         WHERE task_id = (SELECT task_id FROM attempts WHERE attempt_id = ?1)
           AND status IN ('todo', 'inprogress', 'inreview') AND standing IS NULL
           AND deleted_at IS NULL"
    )))
    .bind(attempt)
    .bind(now)
    .execute(writing)
    .await
    .map(drop)
}

/// An attempt has settled, as its row says by now. Questions to an executor are over
/// when they are answered.
pub(super) async fn settled(
    writing: Writing<'_>,
    attempt: &str,
    now: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "UPDATE tasks SET status = 'inreview', begun_revision = NULL, updated_at = ?2
         WHERE task_id = (SELECT task_id FROM attempts WHERE attempt_id = ?1)
           AND status = 'inprogress' AND begun_revision IS NOT NULL AND standing IS NULL
           AND kind <> 'answer' AND deleted_at IS NULL
           AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.task_id = tasks.task_id
                           AND a.phase IN ('queued', 'preparing', 'running', 'stopping'))
           AND EXISTS (SELECT 1 FROM attempts a WHERE a.task_id = tasks.task_id
                       AND a.state = 'completed' AND a.settled_revision > tasks.begun_revision)",
    )
    .bind(attempt)
    .bind(now)
    .execute(writing)
    .await
    .map(drop)
}
