//! What makes a retried call the same call. A mutation takes the caller's [`Key`], and one
//! transaction looks the key up, makes the change and keeps the answer under the key: a
//! retry finds one effect or none, whatever crashed.
//!
//! A payload may leave something to defaults that have changed since ([`resolve`]). The same
//! words again are the same call: their answer is found before anything is looked at. Other
//! words may come to the same, which is known once they have been resolved, and decided in
//! the transaction that keeps the answer. If they can't be resolved any more, they are
//! another call's.

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ids::AttemptId;
use crate::refusal::{Code, Refusal};

/// What makes two calls the same call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub tool: &'static str,
    /// Opaque: the client's own id or the bridge's, which can't clash.
    pub request_id: String,
    /// [Hash](crate::payload::hash) of the payload as it was parsed, with the
    /// tool's own defaults. The same words again are always the same call,
    /// whatever has changed since.
    pub payload_hash: String,
    /// Hash of what the payload came to: with the project's defaults too. Other
    /// words are the same call if they come to the same; `None` where a payload
    /// says all by itself, or has not been resolved yet.
    pub resolved_hash: Option<String>,
}

impl Key {
    /// The key of a call that has been resolved to this.
    #[must_use]
    pub fn resolved(self, payload: &impl Serialize) -> Self {
        Self { resolved_hash: Some(crate::payload::hash(payload)), ..self }
    }

    /// Whether a call with these hashes was this one.
    #[must_use]
    pub fn is_of(&self, payload_hash: &str, resolved_hash: Option<&str>) -> bool {
        let resolved = self.resolved_hash.as_deref();
        self.payload_hash == payload_hash || (resolved.is_some() && resolved == resolved_hash)
    }

    /// The refusal of a call whose id was used for another payload.
    #[must_use]
    pub fn conflict(&self) -> Refusal {
        let tool = self.tool;
        Refusal::new(
            Code::IdempotencyConflict,
            format!("this request_id was used for another {tool} call"),
        )
        .hint(format!("Call {tool} again with a new request_id."))
        .detail("path", "request_id")
    }
}

/// The answer to a mutation that is made once, however often it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once<T> {
    pub value: T,
    /// It was given before; nothing was done this time.
    pub deduplicated: bool,
}

/// The effect of a call outside the database: enough to bring it about after a restart,
/// whether or not the caller asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tool", rename_all = "snake_case")]
pub enum Intent {
    StopAttempt { attempt_id: AttemptId, force: bool },
}

impl Intent {
    /// The tool that was called.
    #[must_use]
    pub fn tool(&self) -> &'static str {
        match self {
            Self::StopAttempt { .. } => "stop_attempt",
        }
    }
}

/// What [`Requests::begin`] found under a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Begun {
    /// Nothing: the call goes ahead.
    Go,
    /// An intent without an answer: the call goes ahead, and its effect may be there already.
    GoAgain,
    /// The answer of the first call.
    Answered(serde_json::Value),
}

/// The kept answers, and the intents of calls whose effect lies outside the database.
#[async_trait]
pub trait Requests {
    /// The answer kept under the key, if the call was made before.
    async fn recall(&self, key: &Key) -> Result<Option<serde_json::Value>, Refusal>;

    /// Writes the intent of a call. One that is there already is fresh again.
    async fn begin(&self, key: &Key, intent: &Intent) -> Result<Begun, Refusal>;

    /// The intents that were begun and not completed, oldest first.
    async fn open_intents(&self) -> Result<Vec<(Key, Intent)>, Refusal>;

    /// Keeps the answer of a call that [`begin`](Self::begin) let go.
    async fn complete(&self, key: &Key, answer: serde_json::Value) -> Result<(), Refusal>;

    /// Forgets an intent whose call was refused: a refusal doesn't use up the key.
    async fn abandon(&self, key: &Key) -> Result<(), Refusal>;
}

/// The whole answer kept under a key, if the call was made before.
pub async fn remembered<T: DeserializeOwned>(
    journal: &(impl Requests + Sync + ?Sized),
    key: Option<&Key>,
) -> Result<Option<Once<T>>, Refusal> {
    let Some(key) = key else { return Ok(None) };
    let Some(answer) = journal.recall(key).await? else { return Ok(None) };
    Ok(Some(Once { value: recalled(answer)?, deduplicated: true }))
}

/// Reads a kept answer back.
pub fn recalled<T: DeserializeOwned>(answer: serde_json::Value) -> Result<T, Refusal> {
    serde_json::from_value(answer)
        .map_err(|error| Refusal::internal(format!("a kept answer can't be read: {error}")))
}

/// A call, resolved.
pub enum Resolved<A, R> {
    /// It was made before.
    Before(Once<A>),
    /// It is to be made, under this key.
    Now(Option<Key>, R),
}

/// Resolves a call; two calls with the same `payload` of what it resolves to are the same.
pub async fn resolve<A, R, P>(
    journal: &(impl Requests + Sync + ?Sized),
    key: Option<Key>,
    resolving: impl Future<Output = Result<R, Refusal>>,
    payload: impl FnOnce(&R) -> P,
) -> Result<Resolved<A, R>, Refusal>
where
    A: DeserializeOwned,
    P: Serialize,
{
    let conflict = match remembered(journal, key.as_ref()).await {
        Ok(Some(answer)) => return Ok(Resolved::Before(answer)),
        Ok(None) => None,
        Err(refusal) if refusal.code == Code::IdempotencyConflict => Some(refusal),
        Err(refusal) => return Err(refusal),
    };
    let resolved = resolving.await.map_err(|refusal| conflict.unwrap_or(refusal))?;
    let key = key.map(|key| key.resolved(&payload(&resolved)));
    Ok(Resolved::Now(key, resolved))
}
