//! The checks of the database: its schema, and whether it is sound. It is only read. If the board is on a
//! server, they say where.

use std::fs;

use super::check::Check;
use crate::home::Home;
use crate::store::{InspectedAttempt, Inspection, inspect, is_log_damaged};

/// A write-ahead log larger than this, in bytes, is not checkpointed any more.
const WAL_LARGE: u64 = 256 << 20;

const DAMAGED: &str = "It does not repair itself. Run `provost shutdown`, copy provost.db with its \
                       -wal and -shm, and try `sqlite3 provost.db .recover` on the copy. Worktrees, \
                       branches and logs do not depend on it.";

const NAME: &str = "database";

/// Also returns the attempts, if the database is sound and has this version's schema. `is_held`: a daemon
/// holds the home and may be writing, so the write-ahead log is not examined.
pub async fn checks(home: &Home, is_held: bool) -> (Vec<Check>, Option<Vec<InspectedAttempt>>) {
    if let Some(place) = home.engine() {
        return (vec![on_a_server(&place, is_held)], None);
    }
    let path = home.database();
    if !path.exists() {
        return (vec![Check::ok(NAME, "there is none yet")], None);
    }
    let log_of = path.clone();
    let look = tokio::task::spawn_blocking(move || !is_held && is_log_damaged(&log_of));
    if look.await.unwrap_or(false) {
        let message = "its write-ahead log is damaged: SQLite would lose commits";
        let hint = "Keep a copy of the home; `provost daemon` says what to do.";
        return (vec![Check::fail(NAME, message, hint)], None);
    }
    let found = match inspect(&path).await {
        Ok(found) => found,
        Err(error) => {
            let message = format!("it can't be read: {error}");
            return (vec![Check::fail(NAME, message, DAMAGED)], None);
        }
    };
    let mut checks = vec![soundness(&found)];
    checks.extend(schema(&found));
    let wal = fs::metadata(path.with_extension("db-wal")).map_or(0, |found| found.len());
    if wal > WAL_LARGE {
        let message = format!("its write-ahead log has {} MiB", wal >> 20);
        checks.push(Check::warn(NAME, message, "Run `provost shutdown`, which merges it."));
    }
    let is_readable = found.schema == Some(Inspection::newest_schema()) && found.damage.is_empty();
    (checks, is_readable.then_some(found.attempts))
}

/// The finding for a board on a server. The doctor does not connect to the server.
fn on_a_server(place: &str, is_held: bool) -> Check {
    let message = format!("the board of this home is on PostgreSQL: {place}");
    if is_held {
        return Check::ok(NAME, message);
    }
    let hint = "Its rows are looked at by a daemon only: start one with `provost daemon`.";
    Check::note(NAME, format!("{message}; no daemon runs that could be asked about it"), hint)
}

/// SQLite's own checks: damage, and rows that refer to missing rows.
fn soundness(found: &Inspection) -> Check {
    match (found.damage.first(), found.dangling) {
        (Some(damage), _) => Check::fail(NAME, format!("it is damaged: {damage}"), DAMAGED),
        (None, 0) => Check::ok(NAME, format!("it is sound (SQLite {})", found.sqlite)),
        (None, dangling) => {
            Check::fail(NAME, format!("{dangling} rows refer to missing rows"), DAMAGED)
        }
    }
}

/// Compares the schema with this version's. `None`: the database is damaged, so its schema says nothing.
fn schema(found: &Inspection) -> Option<Check> {
    let (name, newest) = ("schema", Inspection::newest_schema());
    if let Some(refusal) = found.before_first() {
        return Some(Check::fail(name, refusal.to_string(), "Keep a copy of the home first."));
    }
    let check = match found.schema {
        None if !found.damage.is_empty() => return None,
        None => {
            let hint = "Move provost.db away; the daemon creates a new one.";
            Check::fail(name, "it is not a database of Provost", hint)
        }
        Some(schema) if schema > newest => {
            let message =
                format!("it is from a newer version (schema {schema}, this one has {newest})");
            Check::fail(name, message, "Use that version of Provost.")
        }
        Some(schema) if schema < newest => {
            let message = format!("it is from an older version (schema {schema} of {newest})");
            Check::note(name, message, "The next daemon migrates it.")
        }
        Some(schema) => Check::ok(name, format!("{schema}, the newest")),
    };
    Some(check)
}
