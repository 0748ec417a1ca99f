//! The copies of attempts' logs. They are written beside the transactions of the board, so no other write
//! waits for them, and they wake no waiter.

use std::ops::Range;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use provost_actors::event::{Channel, Timestamp};
use provost_actors::ids::AttemptId;
use provost_actors::log::Mark;
use provost_actors::log::shipped::{Chunk, CopyState, Shipment, Shipped, ShippedLogs};
use provost_actors::refusal::Refusal;
use serde_json::json;
use sqlx::AssertSqlSafe;

use super::{Db, Result, RetryBudget, Sql, Store, now, word};

/// How many chunks are read at once.
const AT_ONCE: usize = 32;

/// First entry, its offset in the log, number of entries, number of bytes, and the data in Base64.
type ChunkRow = (u64, u64, u64, u64, String);

#[async_trait]
impl ShippedLogs for Store {
    async fn of_this_host(&self) -> Result<Vec<AttemptId>, Refusal> {
        let sql = "SELECT attempt_id FROM attempts WHERE host = $1";
        self.read(async |db| db.all(sql, (&self.host,)).await).await
    }

    async fn standing(&self, attempts: &[AttemptId]) -> Result<CopyState, Refusal> {
        let home = "SELECT secret FROM host_homes WHERE host_id = $1";
        let here = "SELECT attempt_id FROM attempts
             WHERE host = $1 AND attempt_id IN (SELECT value FROM json_each($2))";
        let copies = "SELECT * FROM shipped_logs
             WHERE attempt_id IN (SELECT value FROM json_each($1))";
        self.read(async |db| {
            let home: Option<String> = db.find(home, (&self.host,)).await?;
            let here: Vec<AttemptId> = db.all(here, (&self.host, attempts)).await?;
            let copies: Vec<Shipped> = db.all(copies, (attempts,)).await?;
            let here = here.into_iter().collect();
            Ok(CopyState::new(home.unwrap_or_default(), here, copies))
        })
        .await
    }

    async fn chunks(
        &self,
        attempt: AttemptId,
        channel: Channel,
        entries: Range<u64>,
        newest_first: bool,
    ) -> Result<Vec<Chunk>, Refusal> {
        let order = if newest_first { "DESC" } else { "ASC" };
        let sql = AssertSqlSafe(format!(
            "SELECT first_entry, first_offset, entries, bytes, data FROM log_chunks
             WHERE attempt_id = $1 AND channel = $2 AND first_entry < $4
               AND first_entry >= coalesce((SELECT max(first_entry) FROM log_chunks
                   WHERE attempt_id = $1 AND channel = $2 AND first_entry <= $3), $3)
             ORDER BY first_entry {order} LIMIT $5"
        ));
        let values = (attempt, word(&channel), entries.start, entries.end, AT_ONCE);
        let rows: Vec<ChunkRow> = self.read(async |db| db.all(sql, values).await).await?;
        rows.into_iter().map(read).collect()
    }

    async fn ship(&self, shipments: &[Shipment]) -> Result<usize, Refusal> {
        self.beside(RetryBudget::OneTry, "shipment", async |db| {
            let mut done = 0;
            for shipment in shipments {
                done += usize::from(ship(db, &self.host, shipment).await?);
            }
            Ok(done)
        })
        .await
    }
}

impl Store {
    /// The copy of a channel; `None`: there is none.
    pub async fn shipped(
        &self,
        attempt: AttemptId,
        channel: Channel,
    ) -> Result<Option<Shipped>, Refusal> {
        let sql = "SELECT * FROM shipped_logs WHERE attempt_id = $1 AND channel = $2";
        let values = (attempt, word(&channel));
        self.read(async |db| db.find(sql, values).await).await
    }
}

/// Writes a shipment, if the copy is still as the shipment expects it and the attempt is this host's.
/// `false`: nothing was written.
async fn ship(db: Db<'_>, host: &str, shipment: &Shipment) -> Result<bool> {
    let Shipment { attempt_id, channel, before, oldest, next, last_activity_at, chunks } = shipment;
    let sql = "INSERT INTO shipped_logs (attempt_id, channel, host, home, oldest, next_entry,
                                       next_offset, last_activity_at, shipped_at)
         SELECT a.attempt_id, CAST($2 AS text), h.host_id, h.secret, CAST($4 AS bigint),
                CAST($5 AS bigint), CAST($6 AS bigint), CAST($7 AS bigint), CAST($8 AS bigint)
         FROM attempts a JOIN host_homes h ON h.host_id = a.host
         WHERE a.attempt_id = $1 AND a.host = $3
         ON CONFLICT (attempt_id, channel) DO UPDATE SET
             host = excluded.host, home = excluded.home,
             oldest = CASE WHEN excluded.oldest > shipped_logs.oldest THEN excluded.oldest
                           ELSE shipped_logs.oldest END,
             trimmed = 0,
             next_entry = excluded.next_entry, next_offset = excluded.next_offset,
             last_activity_at = excluded.last_activity_at, shipped_at = excluded.shipped_at
         WHERE shipped_logs.home = $9 AND shipped_logs.next_entry = $10";
    let channel = word(channel);
    let values = (
        attempt_id,
        &channel,
        host,
        oldest,
        next.entry,
        next.offset,
        last_activity_at.map(Timestamp::millis),
        now(),
        before.as_ref().map(|it| &it.home),
        before.as_ref().map(|it| it.next_entry),
    );
    if db.run(sql, values).await? == 0 {
        return Ok(false);
    }
    for Chunk { first, entries, bytes, data } in chunks {
        let row = json!({
            "attempt_id": attempt_id, "channel": channel, "first_entry": first.entry,
            "first_offset": first.offset, "entries": entries, "bytes": bytes,
            "data": STANDARD.encode(data),
        });
        db.insert_new("INTO log_chunks", row).await?;
    }
    // The log dropped its oldest entries, so the copy drops them too.
    if before.as_ref().is_some_and(|it| it.oldest < *oldest) {
        let sql = "DELETE FROM log_chunks
             WHERE attempt_id = $1 AND channel = $2 AND first_entry + entries <= $3";
        db.run(sql, (attempt_id, &channel, oldest)).await?;
    }
    Ok(true)
}

fn read((entry, offset, entries, bytes, data): ChunkRow) -> Result<Chunk, Refusal> {
    let data = STANDARD.decode(data);
    let data = data.map_err(|error| Refusal::internal(format!("a copy of a log: {error}")))?;
    Ok(Chunk { first: Mark { entry, offset }, entries, bytes, data })
}
