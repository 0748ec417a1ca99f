//! The statements that calls on the board can't do without, by themselves on a copy of the
//! database with the store's pragmas. As in the store, reads have a connection of their own, so that
//! they never wait for a write, and each finds its cache outdated after a commit.

use std::path::Path;
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Row as _, SqliteConnection};
use uuid::Uuid;

use crate::Result;

/// The ready tasks: the first of them, and how many there are.
const READY: &str = "SELECT t.task_id, count(*) OVER () FROM tasks t
    WHERE t.project_id = ?1 AND t.status <> 'done' AND t.deleted_at IS NULL
      AND t.kind <> 'answer' AND t.status = 'todo' AND t.standing IS NULL
      AND NOT EXISTS (SELECT 1 FROM task_dependencies d
                      CROSS JOIN tasks o ON o.task_id = d.depends_on
                      WHERE d.task_id = t.task_id AND o.project_id = t.project_id
                        AND o.status <> 'done' AND o.deleted_at IS NULL)
      AND t.task_id NOT IN (SELECT blocks_task_id FROM tickets
                            WHERE status = 'open' AND blocks_task_id IS NOT NULL)
      AND t.task_id NOT IN (SELECT task_id FROM task_holders)
    ORDER BY t.kind = 'investigation' DESC,
             CASE t.priority WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'medium' THEN 2
                             ELSE 3 END,
             t.task_id LIMIT 6";

/// Progress: finished work, and what is left.
const BOARD: &str = "SELECT
    (SELECT count(*) FROM tasks
     WHERE project_id = ?1 AND kind = 'work' AND status = 'done' AND deleted_at IS NULL),
    count(*) FILTER (WHERE kind = 'work'), count(*) FILTER (WHERE kind = 'verification')
    FROM tasks WHERE project_id = ?1 AND status <> 'done' AND deleted_at IS NULL";

const TASK: &str = "INSERT INTO tasks (task_id, project_id, handle, title, description, status,
                           priority, kind, about, reason, brief, created_at, updated_at)
    VALUES (?1, ?2, ?3, 'A task', 'What is to be done', 'todo', 'low', ?4, ?5, 'It is slow', '{}',
            1, 1)";

pub struct Floor {
    writer: SqliteConnection,
    reader: SqliteConnection,
    pub project: String,
    /// What is reported as done next.
    next: String,
}

impl Floor {
    /// Copies the database of a home, which nothing is written to now, to a file beside it.
    pub async fn on_a_copy(home: &Path) -> Result<Self> {
        for end in ["", "-wal"] {
            std::fs::copy(
                home.join(format!("provost.db{end}")),
                home.join(format!("copy.db{end}")),
            )?;
        }
        let copy = SqliteConnectOptions::new()
            .filename(home.join("copy.db"))
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true);
        let mut writer = copy.connect().await?;
        let reader = copy.read_only(true).connect().await?;
        let rows = "CREATE TABLE bare_rows (id TEXT PRIMARY KEY, title TEXT NOT NULL) STRICT";
        sqlx::query(rows).execute(&mut writer).await?;
        let project = sqlx::query_scalar("SELECT project_id FROM projects LIMIT 1");
        let project: String = project.fetch_one(&mut writer).await?;
        let mut floor = Self { writer, reader, project, next: String::new() };
        floor.next_task().await?;
        Ok(floor)
    }

    /// One row, committed.
    pub async fn one_row(&mut self) -> Result<Duration> {
        let row = sqlx::query("INSERT INTO bare_rows VALUES (?1, 'Something that is to be made')");
        let row = row.bind(Uuid::now_v7().to_string());
        let begun = Instant::now();
        row.execute(&mut self.writer).await?;
        Ok(begun.elapsed())
    }

    /// A task with its handle, committed.
    pub async fn task(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        let mut db = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        insert_task(&mut db, &self.project, "work", None).await?;
        db.commit().await?;
        Ok(begun.elapsed())
    }

    /// The queue, and the first task with its dependencies.
    pub async fn next_task(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        let ready = sqlx::query(READY).bind(&self.project).fetch_all(&mut self.reader).await?;
        let first: String = ready.first().ok_or("no task is ready")?.try_get(0)?;
        let task = sqlx::query("SELECT * FROM tasks WHERE task_id = ?1").bind(&first);
        task.fetch_one(&mut self.reader).await?;
        let on = "SELECT o.handle FROM task_dependencies d JOIN tasks o ON o.task_id = d.depends_on
             WHERE d.task_id = ?1";
        sqlx::query(on).bind(&first).fetch_all(&mut self.reader).await?;
        let time = begun.elapsed();
        self.next = first;
        Ok(time)
    }

    /// The best passages of a question: those with all of its words, and those with any.
    pub async fn search(&mut self, [one, other]: [&str; 2]) -> Result<Duration> {
        let sql = "SELECT s.* FROM (SELECT rowid, bm25(plan_passages, 0.0, 0.6, 1.0) AS score
                           FROM plan_passages WHERE plan_passages MATCH ?1
                           ORDER BY score LIMIT 30) found
             JOIN plan_sections s ON s.section_id = found.rowid / 64";
        let begun = Instant::now();
        let mut found = 0;
        for joint in ["AND", "OR"] {
            let words =
                format!("{{place said}} : (\"{one}\" {joint} \"{other}\" {joint} \"kept\")");
            let rows = sqlx::query(sql).bind(words).fetch_all(&mut self.reader).await?;
            found += rows.len();
        }
        let time = begun.elapsed();
        if found == 0 { Err("nothing is found".into()) } else { Ok(time) }
    }

    /// The report, the task, its verification, a note, a follow-up, and the board's state.
    pub async fn task_done(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        let mut db = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        let report = Uuid::now_v7().to_string();
        let task = self.next.clone();
        let done = "UPDATE tasks SET status = 'done', updated_at = 2 WHERE task_id = ?1";
        sqlx::query(
            "INSERT INTO reports (report_id, project_id, task_id, agent, tool, status, body,
                                  reported_at)
             VALUES (?1, ?2, ?3, 'bench', 'reportTaskDone', 'done', '{}', 1)",
        )
        .bind(&report)
        .bind(&self.project)
        .bind(&task)
        .execute(&mut *db)
        .await?;
        sqlx::query(done).bind(&task).execute(&mut *db).await?;
        insert_task(&mut db, &self.project, "verification", Some(&task)).await?;
        insert_note(&mut db, &self.project, &task, &report).await?;
        insert_task(&mut db, &self.project, "work", None).await?;
        let ready = sqlx::query(READY).bind(&self.project).fetch_all(&mut *db).await?;
        sqlx::query(BOARD).bind(&self.project).fetch_one(&mut *db).await?;
        db.commit().await?;
        let time = begun.elapsed();
        self.next = ready.first().ok_or("no task is ready")?.try_get(0)?;
        Ok(time)
    }

    /// The report, the note, and each second time a task and its place among the ready ones.
    pub async fn observation(&mut self, number: usize) -> Result<Duration> {
        let begun = Instant::now();
        let mut db = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        let report = Uuid::now_v7().to_string();
        sqlx::query(
            "INSERT INTO reports (report_id, project_id, task_id, agent, tool, body, reported_at)
             VALUES (?1, ?2, ?3, 'bench', 'reportObservation', '{}', 1)",
        )
        .bind(&report)
        .bind(&self.project)
        .bind(&self.next)
        .execute(&mut *db)
        .await?;
        if number.is_multiple_of(2) {
            insert_task(&mut db, &self.project, "work", None).await?;
            sqlx::query(READY).bind(&self.project).fetch_all(&mut *db).await?;
        }
        insert_note(&mut db, &self.project, &self.next, &report).await?;
        db.commit().await?;
        Ok(begun.elapsed())
    }
}

async fn insert_task(
    db: &mut SqliteConnection,
    project: &str,
    kind: &str,
    about: Option<&str>,
) -> Result<()> {
    let (id, handle) = (Uuid::now_v7().to_string(), handle(db, project, "TASK").await?);
    let task = sqlx::query(TASK).bind(&id).bind(project).bind(handle).bind(kind).bind(about);
    task.execute(&mut *db).await?;
    if let Some(on) = about {
        let on = sqlx::query("INSERT INTO task_dependencies VALUES (?1, ?2)").bind(&id).bind(on);
        on.execute(db).await?;
    }
    Ok(())
}

async fn insert_note(
    db: &mut SqliteConnection,
    project: &str,
    task: &str,
    report: &str,
) -> Result<()> {
    let handle = handle(db, project, "OBS").await?;
    let sql = "INSERT INTO notes (note_id, project_id, handle, kind, task_id, text, severity,
                           report_id, noted_at)
         VALUES (?1, ?2, ?3, 'observation', ?4, 'The neighbour is slow', 'low', ?5, 1)";
    let id = Uuid::now_v7().to_string();
    let note = sqlx::query(sql).bind(id).bind(project).bind(handle).bind(task).bind(report);
    note.execute(db).await?;
    Ok(())
}

async fn handle(db: &mut SqliteConnection, project: &str, prefix: &str) -> Result<String> {
    let sql = "INSERT INTO handles (project_id, prefix, last) VALUES (?1, ?2, 1)
         ON CONFLICT (project_id, prefix) DO UPDATE SET last = last + 1 RETURNING last";
    let last: i64 = sqlx::query_scalar(sql).bind(project).bind(prefix).fetch_one(db).await?;
    Ok(format!("{prefix}-{last:03}"))
}
