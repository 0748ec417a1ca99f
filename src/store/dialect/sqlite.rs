//! What only SQLite has: `BEGIN IMMEDIATE`, which takes the lock of writes, and the full-text index FTS5.

use super::{Dialect, Terms, Words};

/// The statements of SQLite.
pub const DIALECT: Dialect = Dialect {
    holds_nul: true,
    now: "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
    // The lock is taken at once. A transaction that reads first and writes later could fail in the
    // middle: `SQLITE_BUSY` when another connection has written between the two.
    begin_write: "BEGIN IMMEDIATE",
    begin_snapshot: "BEGIN",
    index_passages: "INSERT INTO plan_passages (rowid, plan, place, said)
         SELECT $1 + key, $2, $3, value FROM json_each($4)",
    match_passages: "SELECT rowid, bm25(plan_passages, 0.0, $3, $4) AS score FROM plan_passages
         WHERE plan_passages MATCH $1 ORDER BY score, rowid LIMIT $2",
    lacks_words: "SELECT NOT EXISTS (SELECT 1 FROM plan_passages
                                     WHERE plan_passages MATCH $1 AND rowid = $2)",
    words,
};

/// A query of FTS5 (<https://www.sqlite.org/fts5.html#full_text_query_syntax>).
fn words(words: &Words<'_>) -> String {
    let mut parts = Vec::new();
    if !words.plans.is_empty() {
        parts.push(format!("plan : ({})", words.plans.join(" OR ")));
    }
    match words.terms {
        Terms::None => {}
        Terms::Any(terms) => parts.push(format!("{{place said}} : ({})", phrases(terms, " OR "))),
        Terms::All(terms) => parts.push(format!("{{place said}} : ({})", phrases(terms, " AND "))),
    }
    if !words.places.is_empty() {
        parts.push(format!("place : ({})", phrases(words.places, " OR ")));
    }
    parts.join(" AND ")
}

fn phrases(phrases: &[String], joint: &str) -> String {
    let quoted: Vec<String> = phrases.iter().map(|phrase| format!("\"{phrase}\"")).collect();
    quoted.join(joint)
}
