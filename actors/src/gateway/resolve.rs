//! Whether a keyed call was made before, when its payload leaves something to
//! defaults that may have changed since.
//!
//! The same words again are the same call: their answer is found before anything
//! is looked at. Other words may come to the same: that is known once they have
//! been resolved, and decided where the answer is kept, in one transaction. If
//! they can't be resolved any more, they are another call's.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::journal::{Answer, Journal, Key, remembered};
use crate::refusal::{Code, Refusal};

/// What a call comes to.
pub enum Resolved<A, R> {
    /// It was made before.
    Before(Answer<A>),
    /// It is to be made, under this key.
    Now(Option<Key>, R),
}

/// Resolves a call; `payload` is what of the outcome makes two calls the same.
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
