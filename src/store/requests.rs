//! Kept answers: what makes a retried call the same call.

use provost_actors::event::Timestamp;
use provost_actors::journal::{Answer, Begun, Key, recalled};
use provost_actors::refusal::Refusal;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Store, Writing, fault};

/// What stands under a key.
enum Found {
    Nothing,
    Intent,
    Answer(String),
}

async fn find(writing: Writing<'_>, key: &Key) -> Result<Found, Refusal> {
    let row: Option<(String, Option<String>)> = sqlx::query_as(
        "SELECT payload_hash, answer FROM requests WHERE tool = ?1 AND request_id = ?2",
    )
    .bind(key.tool)
    .bind(&key.request_id)
    .fetch_optional(writing)
    .await
    .map_err(fault)?;
    match row {
        None => Ok(Found::Nothing),
        Some((hash, _)) if hash != key.payload_hash => Err(key.conflict()),
        Some((_, None)) => Ok(Found::Intent),
        Some((_, Some(answer))) => Ok(Found::Answer(answer)),
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
        write(writing, key, Some(&answer)).await?;
    }
    Ok(Answer { value, deduplicated: false })
}

async fn write(writing: Writing<'_>, key: &Key, answer: Option<&str>) -> Result<(), Refusal> {
    sqlx::query(
        "INSERT INTO requests (tool, request_id, payload_hash, answer, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (tool, request_id) DO UPDATE SET answer = excluded.answer",
    )
    .bind(key.tool)
    .bind(&key.request_id)
    .bind(&key.payload_hash)
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

    pub(super) async fn begin_request(&self, key: &Key) -> Result<Begun, Refusal> {
        let mut writing = self.writer.begin_with("BEGIN IMMEDIATE").await.map_err(fault)?;
        let begun = match find(&mut writing, key).await? {
            Found::Answer(answer) => Begun::Answered(parse(&answer)?),
            Found::Intent => Begun::Go,
            Found::Nothing => {
                write(&mut writing, key, None).await?;
                Begun::Go
            }
        };
        writing.commit().await.map_err(fault)?;
        Ok(begun)
    }

    pub(super) async fn complete_request(&self, key: &Key, answer: &str) -> Result<(), Refusal> {
        let mut writing = self.writer.acquire().await.map_err(fault)?;
        write(&mut writing, key, Some(answer)).await
    }

    pub(super) async fn abandon_request(&self, key: &Key) -> Result<(), Refusal> {
        sqlx::query("DELETE FROM requests WHERE tool = ?1 AND request_id = ?2 AND answer IS NULL")
            .bind(key.tool)
            .bind(&key.request_id)
            .execute(&self.writer)
            .await
            .map_err(fault)?;
        Ok(())
    }
}
