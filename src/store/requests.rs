//! Kept answers: what makes a retried call the same call.

use provost_actors::event::Timestamp;
use provost_actors::failpoint;
use provost_actors::journal::{Answer, Begun, Intent, Key, recalled};
use provost_actors::refusal::Refusal;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Store, Writing, commit, fault};

/// What stands under a key.
enum Found {
    Nothing,
    Intent,
    Answer(String),
}

async fn find(writing: Writing<'_>, key: &Key) -> Result<Found, Refusal> {
    let row: Option<(String, Option<String>, Option<String>)> = sqlx::query_as(
        "SELECT payload_hash, resolved_hash, answer FROM requests
         WHERE tool = ?1 AND request_id = ?2",
    )
    .bind(key.tool)
    .bind(&key.request_id)
    .fetch_optional(writing)
    .await
    .map_err(fault)?;
    match row {
        None => Ok(Found::Nothing),
        Some((hash, resolved, _)) if !key.is_of(&hash, resolved.as_deref()) => Err(key.conflict()),
        Some((.., None)) => Ok(Found::Intent),
        Some((.., Some(answer))) => Ok(Found::Answer(answer)),
    }
}

fn parse(answer: &str) -> Result<serde_json::Value, Refusal> {
    serde_json::from_str(answer)
        .map_err(|error| Refusal::internal(format!("a kept answer can't be read: {error}")))
}

/// The answer already kept under the key. Part of the mutation's transaction.
pub(super) async fn kept<T: DeserializeOwned>(
    writing: Writing<'_>,
    key: Option<&Key>,
) -> Result<Option<Answer<T>>, Refusal> {
    let Some(key) = key else { return Ok(None) };
    match find(writing, key).await? {
        Found::Answer(answer) => {
            Ok(Some(Answer { value: recalled(parse(&answer)?)?, deduplicated: true }))
        }
        Found::Nothing | Found::Intent => Ok(None),
    }
}

/// Keeps a fresh answer under the key. Part of the mutation's transaction.
pub(super) async fn keep<T: Serialize>(
    writing: Writing<'_>,
    key: Option<&Key>,
    value: T,
) -> Result<Answer<T>, Refusal> {
    if let Some(key) = key {
        let answer =
            serde_json::to_string(&value).map_err(|error| Refusal::internal(error.to_string()))?;
        write(writing, key, None, Some(&answer)).await?;
    }
    Ok(Answer { value, deduplicated: false })
}

/// Writes what stands under a key from now on: an intent or an answer.
async fn write(
    writing: Writing<'_>,
    key: &Key,
    intent: Option<&str>,
    answer: Option<&str>,
) -> Result<(), Refusal> {
    sqlx::query(
        "INSERT INTO requests (tool, request_id, payload_hash, resolved_hash, intent, answer,
                               created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (tool, request_id) DO UPDATE SET
             intent = excluded.intent, answer = excluded.answer, created_at = excluded.created_at",
    )
    .bind(key.tool)
    .bind(&key.request_id)
    .bind(&key.payload_hash)
    .bind(&key.resolved_hash)
    .bind(intent)
    .bind(answer)
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await
    .map_err(fault)?;
    Ok(())
}

impl Store {
    pub(super) async fn recall_answer(
        &self,
        key: &Key,
    ) -> Result<Option<serde_json::Value>, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        match find(&mut reading, key).await? {
            Found::Answer(answer) => parse(&answer).map(Some),
            Found::Nothing | Found::Intent => Ok(None),
        }
    }

    pub(super) async fn begin_request(&self, key: &Key, intent: &Intent) -> Result<Begun, Refusal> {
        let intent =
            serde_json::to_string(intent).map_err(|error| Refusal::internal(error.to_string()))?;
        let mut writing = self.writing_briefly().await?;
        let begun = match find(&mut writing, key).await? {
            Found::Answer(answer) => Begun::Answered(parse(&answer)?),
            found => {
                write(&mut writing, key, Some(&intent), None).await?;
                if matches!(found, Found::Intent) { Begun::GoAgain } else { Begun::Go }
            }
        };
        commit(writing, "intent").await?;
        Ok(begun)
    }

    pub(super) async fn complete_request(&self, key: &Key, answer: &str) -> Result<(), Refusal> {
        let mut writing = self.writing_briefly().await?;
        failpoint::hit("answer", "next");
        write(&mut writing, key, None, Some(answer)).await?;
        writing.commit().await.map_err(fault)?;
        failpoint::hit("answer", "kept");
        Ok(())
    }

    /// The intents that nobody has completed. One of another version's making,
    /// that can't be read, is left to a retry.
    pub(super) async fn load_open_intents(&self) -> Result<Vec<(Key, Intent)>, Refusal> {
        let rows: Vec<(String, String, Option<String>, String)> = sqlx::query_as(
            "SELECT request_id, payload_hash, resolved_hash, intent FROM requests
             WHERE answer IS NULL AND intent IS NOT NULL ORDER BY created_at",
        )
        .fetch_all(&self.reader)
        .await
        .map_err(fault)?;
        let intents =
            rows.into_iter().filter_map(|(request_id, payload_hash, resolved_hash, text)| {
                let intent: Intent = serde_json::from_str(&text)
                    .inspect_err(|error| tracing::warn!(%error, text, "an intent can't be read"))
                    .ok()?;
                Some((Key { tool: intent.tool(), request_id, payload_hash, resolved_hash }, intent))
            });
        Ok(intents.collect())
    }

    pub(super) async fn abandon_request(&self, key: &Key) -> Result<(), Refusal> {
        let mut writing = self.writing_briefly().await?;
        sqlx::query("DELETE FROM requests WHERE tool = ?1 AND request_id = ?2 AND answer IS NULL")
            .bind(key.tool)
            .bind(&key.request_id)
            .execute(&mut *writing)
            .await
            .map_err(fault)?;
        writing.commit().await.map_err(fault)
    }
}
