//! Kept answers, by which a repeated call takes effect once.
//!
//! [`Store::keyed`] is the one way to change something under a key: it looks the key up, makes the change and
//! keeps the answer in one transaction. If the daemon dies before the commit, a retry finds nothing and makes
//! the change; if it dies after the commit, a retry finds the answer. A call with an effect outside the
//! database has an intent first:
//!
//! ```text
//!  (no row) ─keyed───────────────────────────────────▶ answer ─prune─▶ (no row)
//!     ▲ └─begin─▶ intent ─complete─────────────────────▶ ▲
//!     └──abandon───┘ └─the daemon dies: the next daemon, or a retry, carries it out
//! ```

use async_trait::async_trait;
use provost_actors::failpoint;
use provost_actors::journal::{Begun, Idempotent, Intent, Key, Requests, recalled};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Db, Refusal, Result, RetryBudget, Sql, Store, StoreError, fault, now};

/// What is stored under a key.
enum Found {
    Nothing,
    Intent,
    Answer(Value),
}

/// Looks a key up. Refused if the key was used for a call with other arguments.
async fn find(db: Db<'_>, key: &Key) -> Result<Found> {
    let sql = "SELECT payload_hash, resolved_hash, answer FROM requests
         WHERE tool = $1 AND request_id = $2";
    let row: Option<(String, Option<String>, Option<String>)> =
        db.find(sql, (key.tool, &key.request_id)).await?;
    match row {
        None => Ok(Found::Nothing),
        Some((hash, resolved, _)) if !key.is_of(&hash, resolved.as_deref()) => {
            Err(key.conflict().into())
        }
        Some((.., None)) => Ok(Found::Intent),
        Some((.., Some(answer))) => Ok(Found::Answer(serde_json::from_str(&answer)?)),
    }
}

/// Replaces the row of a key; `intent` and `answer` are JSON.
async fn write(
    db: Db<'_>,
    host: &str,
    key: &Key,
    intent: Option<String>,
    answer: Option<String>,
) -> Result<()> {
    let sql = "INSERT INTO requests (tool, request_id, payload_hash, resolved_hash, intent, answer,
                               created_at, host)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT (tool, request_id) DO UPDATE SET
             intent = excluded.intent, answer = excluded.answer, created_at = excluded.created_at,
             host = excluded.host";
    let Key { tool, request_id, payload_hash, resolved_hash } = key;
    let values = (tool, request_id, payload_hash, resolved_hash, intent, answer, now(), host);
    db.run(sql, values).await.map(drop)
}

impl Store {
    /// Does `work` once for a key: the look-up of the key, `work` and the kept answer are one transaction. If
    /// `work` refuses, nothing is left, and the key stays free. Without a key, `work` is simply done.
    pub(super) async fn keyed<T: Serialize + DeserializeOwned>(
        &self,
        budget: RetryBudget,
        key: Option<&Key>,
        name: &str,
        work: impl AsyncFnOnce(Db<'_>) -> Result<T>,
    ) -> Result<Idempotent<T>, Refusal> {
        let mut db = self.transaction(budget).await?;
        if let Some(key) = key
            && let Found::Answer(answer) = find(&mut db, key).await?
        {
            return Ok(Idempotent { value: recalled(answer)?, deduplicated: true });
        }
        let value = work(&mut db).await?;
        if let Some(key) = key {
            let answer = serde_json::to_string(&value).map_err(StoreError::from)?;
            write(&mut db, &self.host, key, None, Some(answer)).await?;
        }
        self.commit(db, name).await?;
        Ok(Idempotent { value, deduplicated: false })
    }
}

/// All of these except `recall` are writes of actors, which try again by themselves.
#[async_trait]
impl Requests for Store {
    async fn recall(&self, key: &Key) -> Result<Option<Value>, Refusal> {
        self.read(async |db| match find(db, key).await? {
            Found::Answer(answer) => Ok(Some(answer)),
            Found::Nothing | Found::Intent => Ok(None),
        })
        .await
    }

    async fn begin(&self, key: &Key, intent: &Intent) -> Result<Begun, Refusal> {
        self.write(RetryBudget::OneTry, "intent", async |db| {
            let found = match find(db, key).await? {
                Found::Answer(answer) => return Ok(Begun::Answered(answer)),
                found => found,
            };
            write(db, &self.host, key, Some(serde_json::to_string(intent)?), None).await?;
            Ok(if matches!(found, Found::Intent) { Begun::GoAgain } else { Begun::Go })
        })
        .await
    }

    /// An intent that can't be read was made by another version; a retry of its call carries it out.
    async fn open_intents(&self) -> Result<Vec<(Key, Intent)>, Refusal> {
        let sql = "SELECT request_id, payload_hash, resolved_hash, intent FROM requests
             WHERE answer IS NULL AND intent IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM attempts a
                               WHERE a.attempt_id = intent ->> 'attempt_id' AND a.host <> $1)
             ORDER BY created_at";
        let rows: Vec<(String, String, Option<String>, String)> =
            self.read(async |db| db.all(sql, (&self.host,)).await).await?;
        let intents =
            rows.into_iter().filter_map(|(request_id, payload_hash, resolved_hash, text)| {
                let intent: Intent = serde_json::from_str(&text)
                    .inspect_err(|error| tracing::warn!(%error, text, "an intent can't be read"))
                    .ok()?;
                Some((Key { tool: intent.tool(), request_id, payload_hash, resolved_hash }, intent))
            });
        Ok(intents.collect())
    }

    async fn complete(&self, key: &Key, answer: Value) -> Result<(), Refusal> {
        let mut db = self.transaction(RetryBudget::OneTry).await?;
        failpoint::hit("answer", "next");
        write(&mut db, &self.host, key, None, Some(answer.to_string())).await?;
        self.writer.commit(db, Some(&self.host)).await.map_err(fault)?;
        failpoint::hit("answer", "kept");
        Ok(())
    }

    async fn abandon(&self, key: &Key) -> Result<(), Refusal> {
        let sql = "DELETE FROM requests WHERE tool = $1 AND request_id = $2 AND answer IS NULL";
        self.write(RetryBudget::OneTry, "abandoned", async |db| {
            db.run(sql, (key.tool, &key.request_id)).await.map(drop)
        })
        .await
    }
}
