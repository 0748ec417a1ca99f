//! How soon `provost mcp` answers first, with a daemon and without one, and what it takes at least.

use std::path::Path;
use std::time::Instant;

use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};

use crate::calls::Floor;
use crate::line_client::LineClient;
use crate::scratch::{Scratch, command, run};
use crate::table::{Budget, Row, Unit};
use crate::{Result, Size};

pub async fn measure(size: Size) -> Result<Vec<Row>> {
    let scratch = Scratch::make(1, &["say", "1"])?;
    scratch.client().await?;
    let floor = Floor::start(&scratch.home(), &serde_json::json!({}))?;
    let mut warm = Vec::new();
    for _ in 0..size.rounds(31) {
        warm.push([answered(scratch.bridge())?, answered(floor.bridge()?)?]);
    }
    let mut cold = Vec::new();
    for _ in 0..size.rounds(9) {
        scratch.shut_down()?;
        let ours = answered(scratch.bridge())?;
        cold.push([ours, opened(&scratch.home().join("provost.db"))?]);
    }
    let ms = Unit::Milliseconds;
    let [running, not_running] =
        ["first answer of `provost mcp`", "the same, where no daemon runs"];
    let floor = "start and open the database";
    Ok(vec![
        Row::beside(running, "bare bridge", ms, &warm, Budget::RatioAtMost(1.3)),
        Row::beside(not_running, floor, ms, &cold, Budget::RatioAtMost(2.0)),
    ])
}

/// Milliseconds from the start of a bridge to its first answer.
fn answered(bridge: std::process::Command) -> Result<f64> {
    let begun = Instant::now();
    let client = LineClient::start(bridge)?;
    let took = begun.elapsed();
    drop(client);
    Ok(took.as_secs_f64() * 1e3)
}

/// Milliseconds of a process that opens a database and ends.
fn opened(database: &Path) -> Result<f64> {
    let begun = Instant::now();
    run(command(std::env::current_exe()?).arg("floor-open").arg(database))?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

/// Opens a database and reads from it, as a program does that has nothing else to do.
pub async fn open(database: &Path) -> Result<()> {
    let options =
        SqliteConnectOptions::new().filename(database).journal_mode(SqliteJournalMode::Wal);
    let mut db = SqliteConnection::connect_with(&options).await?;
    sqlx::query("SELECT count(*) FROM tasks").execute(&mut db).await?;
    Ok(db.close().await?)
}
