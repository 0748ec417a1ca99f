//! The database: its schema, and whether it is sound. It is only read. Of a board on a server, where
//! it is.

use std::fs;

use super::check::Check;
use crate::home::Home;
use crate::store::{InspectedAttempt, Inspection, inspect, is_log_damaged};

/// A write-ahead log larger than this, in bytes, is no longer checkpointed.
const WAL_LARGE: u64 = 256 << 20;

const DAMAGED: &str = "It does not repair itself. Run `provost shutdown`, copy provost.db with its \
                       -wal and -shm, and try `sqlite3 provost.db .recover` on the copy. Worktrees, \
                       branches and logs do not depend on it.";

const NAME: &str = "database";

/// Also returns readable attempts. `is_held`: a daemon holds the home, and may be writing.
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

/// A board on a server is the server's to look after; only the daemon talks to it.
fn on_a_server(place: &str, is_held: bool) -> Check {
    let message = format!("the board of this home is on PostgreSQL: {place}");
    if is_held {
        return Check::ok(NAME, message);
    }
    let hint = "Its rows are looked at by a daemon only: start one with `provost daemon`.";
    Check::note(NAME, format!("{message}; no daemon runs that could be asked about it"), hint)
}

fn soundness(found: &Inspection) -> Check {
    match (found.damage.first(), found.dangling) {
        (Some(damage), _) => Check::fail(NAME, format!("it is damaged: {damage}"), DAMAGED),
        (None, 0) => Check::ok(NAME, format!("it is sound (SQLite {})", found.sqlite)),
        (None, dangling) => {
            Check::fail(NAME, format!("{dangling} rows refer to missing rows"), DAMAGED)
        }
    }
}

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
