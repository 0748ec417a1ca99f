//! Whether a keyed call was made before, when its payload leaves something to
//! defaults that may have changed since.
//!
//! The same payload is the same call: its answer is found before anything is resolved.
//! Another payload may resolve to the same call: that is decided where the answer is
//! kept, in one transaction. If it can't be resolved any more, it is another call.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::journal::{Answer, Journal, Key, remembered};
use crate::refusal::{Code, Refusal};

/// What to do with a call.
pub enum Resolved<A, R> {
    /// It was made before.
    Before(Answer<A>),
    /// To be made, under this key.
    Now(Option<Key>, R),
}

/// Resolves a call; two calls with the same `payload` of the result are the same.
pub async fn resolve<A, R, P>(
    journal: &dyn Journal,
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
