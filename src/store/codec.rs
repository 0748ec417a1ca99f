//! Between columns and domain values: ids, moments and enums as their own
//! serialized words. A value that can't be read back is a fault, never a default.

use std::fmt::Display;
use std::str::FromStr;

use provost_actors::refusal::Refusal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The word of a unit enum.
pub fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        other => unreachable!("only enums of plain words are stored this way, not {other:?}"),
    }
}

/// The enum of a word.
pub fn enumerated<T: DeserializeOwned>(word: String) -> Result<T, Refusal> {
    serde_json::from_value(Value::String(word)).map_err(damaged)
}

/// An id.
pub fn id<T: FromStr<Err: Display>>(text: &str) -> Result<T, Refusal> {
    text.parse().map_err(damaged)
}

/// An id that may be absent.
pub fn optional_id<T: FromStr<Err: Display>>(text: Option<&str>) -> Result<Option<T>, Refusal> {
    text.map(id).transpose()
}

fn damaged(error: impl Display) -> Refusal {
    Refusal::internal(format!("the database holds a value that can't be read: {error}"))
}
