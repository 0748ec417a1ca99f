//! Idempotent calls. A mutation takes the caller's [`Key`], and one transaction looks the key
//! up, makes the change and keeps the answer: a retry finds one effect or none.
//!
//! A call may rely on defaults, and they may have changed since the first call ([`resolve`]). A call
//! with the same payload gets its answer first of all. One with another payload that
//! resolves to the same is also the same call; one that can't be resolved is not.

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::ids::AttemptId;
use crate::refusal::{Code, Refusal};
use crate::text::hex;

/// What makes two calls the same call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub tool: &'static str,
    /// Opaque: the client's own id or the bridge's, which can't clash.
    pub request_id: String,
    /// [Hash](payload_hash) of the payload with the tool's own defaults.
    pub payload_hash: String,
    /// Hash of the resolved payload; `None`: the same, or not resolved yet.
    pub resolved_hash: Option<String>,
}

impl Key {
    /// The key of a call with this payload.
    pub fn new(tool: &'static str, request_id: String, payload: &impl Serialize) -> Self {
        Self { tool, request_id, payload_hash: payload_hash(payload), resolved_hash: None }
    }

    /// The key of a call that has been resolved to this.
    #[must_use]
    pub fn resolved(self, payload: &impl Serialize) -> Self {
        Self { resolved_hash: Some(payload_hash(payload)), ..self }
    }

    /// Whether a call with these hashes was this one.
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

/// A call with an effect outside the database, which a restart repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tool", rename_all = "snake_case")]
pub enum Intent {
    StopAttempt { attempt_id: AttemptId, force: bool },
}

impl Intent {
    pub fn tool(&self) -> &'static str {
        match self {
            Self::StopAttempt { .. } => "stop_attempt",
        }
    }
}

/// What [`Requests::begin`] found under a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Begun {
    /// Nothing.
    Go,
    /// An intent without an answer: its effect may be there already.
    GoAgain,
    Answered(Value),
}

/// The kept answers, and the intents of calls whose effect lies outside the database.
#[async_trait]
pub trait Requests {
    /// The answer kept under the key, if any.
    async fn recall(&self, key: &Key) -> Result<Option<Value>, Refusal>;

    /// Writes the intent of a call. One that is there already is fresh again.
    async fn begin(&self, key: &Key, intent: &Intent) -> Result<Begun, Refusal>;

    /// The intents that were begun and not completed, oldest first; not those that concern attempts
    /// of other hosts.
    async fn open_intents(&self) -> Result<Vec<(Key, Intent)>, Refusal>;

    /// Keeps the answer of a call that [`begin`](Self::begin) allowed.
    async fn complete(&self, key: &Key, answer: Value) -> Result<(), Refusal>;

    /// Forgets an intent whose call was refused: a refusal doesn't use up the key.
    async fn abandon(&self, key: &Key) -> Result<(), Refusal>;
}

/// The answer kept under a key, if any.
pub async fn remembered<T: DeserializeOwned>(
    journal: &(impl Requests + Sync + ?Sized),
    key: Option<&Key>,
) -> Result<Option<Once<T>>, Refusal> {
    let Some(key) = key else { return Ok(None) };
    let Some(answer) = journal.recall(key).await? else { return Ok(None) };
    Ok(Some(Once { value: recalled(answer)?, deduplicated: true }))
}

/// Reads a kept answer back. One of another version may have another form.
pub fn recalled<T: DeserializeOwned>(answer: Value) -> Result<T, Refusal> {
    serde_json::from_value(answer).map_err(|error| {
        Refusal::internal(format!(
            "the call was carried out, but its answer can't be read: {error}"
        ))
    })
}

/// A resolved call: made before, or to be made now under this key.
pub enum Resolved<A, R> {
    Before(Once<A>),
    Now(Option<Key>, R),
}

/// Resolves a call. Calls whose resolutions have the same `payload` are the same call.
pub async fn resolve<A: DeserializeOwned, R, P: Serialize>(
    journal: &(impl Requests + Sync + ?Sized),
    key: Option<Key>,
    resolving: impl Future<Output = Result<R, Refusal>>,
    payload: impl FnOnce(&R) -> P,
) -> Result<Resolved<A, R>, Refusal> {
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

/// SHA-256 in hex of the canonical JSON: keys sorted, absent fields left out,
/// so that a field that is added later does not change the hash of old calls.
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
