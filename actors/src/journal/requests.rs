//! Idempotent calls. A call that changes something has the caller's [`Key`]. One transaction looks the key
//! up, makes the change and keeps the answer: a repeated call finds one effect or none.
//!
//! A call may rely on defaults, which may have changed since it was first made ([`resolve`]):
//!
//! - A call with the same payload gets its answer before anything is resolved.
//! - A call with another payload that resolves to the same is the same call.
//! - A call with another payload that can't be resolved is refused as a conflict.
//!
//! An effect outside the database needs an [`Intent`]:
//!
//! ```text
//!  begin ─▶ Go ──────▶ the effect ─▶ complete ─▶ later calls: Answered
//!    │                     │ refused ─▶ abandon ─▶ the key is unused again
//!    └─▶ GoAgain ──────────┘         a crash came between begin and complete
//! ```

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::ids::AttemptId;
use crate::refusal::{Code, Refusal};
use crate::text::hex;

/// What makes two calls the same call: the tool, the id, and the payload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub tool: &'static str,
    /// Opaque: the client's own id, or one of the bridge's, which can't clash with it.
    pub request_id: String,
    /// The [hash](payload_hash) of the payload with the tool's own defaults filled in.
    pub payload_hash: String,
    /// The hash of the payload with all defaults resolved; `None`: it is the same, or not resolved yet.
    pub resolved_hash: Option<String>,
}

impl Key {
    /// The key of a call with this payload, which is not resolved yet.
    pub fn new(tool: &'static str, request_id: String, payload: &impl Serialize) -> Self {
        Self { tool, request_id, payload_hash: payload_hash(payload), resolved_hash: None }
    }

    /// The key of the same call, which was resolved to this.
    #[must_use]
    pub fn resolved(self, payload: &impl Serialize) -> Self {
        Self { resolved_hash: Some(payload_hash(payload)), ..self }
    }

    /// Whether a call with these hashes was this call: either hash is enough.
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

/// The answer to a call that takes effect once, however often it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotent<T> {
    pub value: T,
    /// The answer was given before; nothing was done this time.
    pub deduplicated: bool,
}

/// A call with an effect outside the database. A new daemon carries it out again if it was not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tool", rename_all = "snake_case")]
pub enum Intent {
    StopAttempt { attempt_id: AttemptId, force: bool },
}

impl Intent {
    /// The name of the tool whose key the intent has.
    pub fn tool(&self) -> &'static str {
        match self {
            Self::StopAttempt { .. } => "stop_attempt",
        }
    }
}

/// What [`Requests::begin`] found under a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Begun {
    /// Nothing: the effect has not begun.
    Go,
    /// An intent without an answer: its effect may be there already.
    GoAgain,
    /// The call was completed, with this answer.
    Answered(Value),
}

/// The kept answers, and the intents of calls whose effect lies outside the database.
#[async_trait]
pub trait Requests {
    /// The answer that is kept under the key, if any.
    ///
    /// # Errors
    /// `idempotency_conflict`: the id was used for another payload.
    async fn recall(&self, key: &Key) -> Result<Option<Value>, Refusal>;

    /// Writes the intent of a call. An open intent with the same key counts as begun now.
    async fn begin(&self, key: &Key, intent: &Intent) -> Result<Begun, Refusal>;

    /// The intents that were begun and not completed, oldest first; not those for attempts of other hosts.
    async fn open_intents(&self) -> Result<Vec<(Key, Intent)>, Refusal>;

    /// Keeps the answer of a call that [`begin`](Self::begin) allowed.
    async fn complete(&self, key: &Key, answer: Value) -> Result<(), Refusal>;

    /// Forgets the intent of a call that was refused: a refusal does not use up the key.
    async fn abandon(&self, key: &Key) -> Result<(), Refusal>;
}

/// The answer that is kept under a key, if any; always `None` without a key.
pub async fn remembered<T: DeserializeOwned>(
    journal: &(impl Requests + Sync + ?Sized),
    key: Option<&Key>,
) -> Result<Option<Idempotent<T>>, Refusal> {
    let Some(key) = key else { return Ok(None) };
    let Some(answer) = journal.recall(key).await? else { return Ok(None) };
    Ok(Some(Idempotent { value: recalled(answer)?, deduplicated: true }))
}

/// Reads a kept answer back.
///
/// # Errors
/// `internal`: another version of Provost wrote it in another form.
pub fn recalled<T: DeserializeOwned>(answer: Value) -> Result<T, Refusal> {
    serde_json::from_value(answer).map_err(|error| {
        Refusal::internal(format!(
            "the call was carried out, but its answer can't be read: {error}"
        ))
    })
}

/// A resolved call: made before, or to be made now under this key, with what it was resolved to.
pub enum Resolved<A, R> {
    Before(Idempotent<A>),
    Now(Option<Key>, R),
}

/// Resolves a call, unless its answer is kept. Calls whose resolutions have the same `payload` are the same
/// call.
///
/// # Errors
/// Those of `resolving`; the conflict instead, if the id was used for another payload.
pub async fn resolve<A: DeserializeOwned, R, P: Serialize>(
    journal: &(impl Requests + Sync + ?Sized),
    key: Option<Key>,
    resolving: impl Future<Output = Result<R, Refusal>>,
    payload: impl FnOnce(&R) -> P,
) -> Result<Resolved<A, R>, Refusal> {
    // A conflict is not final: the other payload may resolve to the same. If it can't be resolved, it is.
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

/// SHA-256 in hex of the canonical JSON: keys sorted, fields that are `null` left out. So a field that is
/// added to a tool later does not change the hash of old calls.
pub fn payload_hash(payload: &impl Serialize) -> String {
    // Payloads are structs of strings, numbers and lists; they always serialize.
    let mut payload = serde_json::to_value(payload).unwrap_or_default();
    payload.sort_all_objects();
    leave_out_nulls(&mut payload);
    hex(&Sha256::digest(payload.to_string()))
}

fn leave_out_nulls(value: &mut Value) {
    if let Value::Object(members) = value {
        members.retain(|_, member| !member.is_null());
        members.values_mut().for_each(leave_out_nulls);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_payloads_have_equal_hashes_however_they_are_ordered() {
        let hash = |payload: Value| payload_hash(&payload);
        assert_eq!(
            hash(json!({"a": 1, "b": {"c": 2, "d": null}})),
            hash(json!({"b": {"c": 2}, "a": 1}))
        );
        assert_ne!(hash(json!({"a": 1})), hash(json!({"a": 2})));
        assert_eq!(hash(json!({})).len(), 64);
    }
}
