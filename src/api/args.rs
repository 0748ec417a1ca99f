//! The kinds of values that tools take. Each has its published schema and its parser side by side, so that
//! the two always agree. Pure.

use std::ops::Deref;

use provost_actors::event::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Number;

/// The pattern of an id. By it a client's validator can refuse names and shortened ids early; the parser of
/// the typed id decides.
pub const ID_PATTERN: &str = "^[0-9A-Fa-f-]{36}$";

/// The pattern of a task's name: its id, or its handle.
pub const TASK_PATTERN: &str = "^([0-9A-Fa-f-]{36}|[A-Za-z][A-Za-z-]*-[0-9]+)$";

/// The schema of an id. The field itself is of a type of `provost_actors::ids`.
/// `format: uuid` is left out: one API refuses it.
pub struct Id;
schema!([] Id, |generator| named(generator, ID_PATTERN));

/// The schema of a task by its id or handle. The field itself is a `TaskRef`.
pub struct TaskName;
schema!([] TaskName, |generator| named(generator, TASK_PATTERN));

/// Results get no pattern: only a caller's arguments are checked by it.
fn named(generator: &SchemaGenerator, pattern: &str) -> Schema {
    if generator.contract().is_serialize() {
        return json_schema!({ "type": "string" });
    }
    json_schema!({ "type": "string", "pattern": pattern })
}

/// A time that a caller gives: RFC 3339. Also the schema of a `Timestamp`, which itself takes
/// numbers too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Time(pub Timestamp);

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        serde_json::from_value(text.into()).map(Self).map_err(|error| error.to_string())
    }
}

schema!([] Time, |_| json_schema!({ "type": "string", "format": "date-time" }));

macro_rules! words {
    ($($name:ident: $($word:literal)*;)*) => {$(
        #[doc = concat!("The schema of an enum of another crate: `", stringify!($name), "`.")]
        pub struct $name;
        schema!([] $name, |_| json_schema!({ "type": "string", "enum": [$($word),*] }));
    )*};
}

words! {
    ApprovalStatuses: "pending" "approved" "denied" "withdrawn";
    Channels: "normalized" "raw";
    CreatedKinds: "ticket" "blocker" "alert";
    FinishActions: "commit" "merge" "apply_to" "push" "create_pr" "discard";
    FinishStates: "open" "done" "conflicts" "checks_failed";
    FollowUpActions: "send" "queue" "cancel" "preview" "end_preview";
    Priorities: "low" "medium" "high" "critical";
    States: "idle" "running" "completed" "failed";
    Strategies: "merge" "squash" "rebase" "fast_forward";
    TaskStatuses: "todo" "inprogress" "inreview" "done" "cancelled";
}

/// A text of `MIN` to `MAX` Unicode scalar values; blank only where `MIN` is 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Text<const MIN: usize, const MAX: usize>(String);

schema!([const MIN: usize, const MAX: usize] Text<MIN, MAX>, |_| match MIN {
    0 => json_schema!({ "type": "string", "maxLength": MAX }),
    _ => json_schema!({ "type": "string", "minLength": MIN, "maxLength": MAX }),
});

impl<const MIN: usize, const MAX: usize> TryFrom<String> for Text<MIN, MAX> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_blank = MIN > 0 && text.trim().is_empty();
        if is_blank || !(MIN..=MAX).contains(&text.chars().count()) {
            return Err(format!("not a text of {MIN} to {MAX} characters"));
        }
        Ok(Self(text))
    }
}

impl<const MIN: usize, const MAX: usize> From<Text<MIN, MAX>> for String {
    fn from(text: Text<MIN, MAX>) -> Self {
        text.0
    }
}

impl<const MIN: usize, const MAX: usize> Deref for Text<MIN, MAX> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// The project that a worker names: by its id or its name.
pub type ProjectName = Text<1, 64>;

/// A task's title and description, from any source.
pub type Title = Text<1, 1000>;
/// Up to a million characters; an empty text is allowed.
pub type Description = Text<0, 1_000_000>;

/// A number of things or bytes: 1 or more, `DEFAULT` when left out, clamped to
/// `CAP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Number")]
pub struct Limit<const DEFAULT: usize, const CAP: usize>(usize);

schema!([const DEFAULT: usize, const CAP: usize] Limit<DEFAULT, CAP>, |_| {
    let means = format!("{CAP} at most.");
    json_schema!({ "type": "integer", "minimum": 1, "description": means })
});

impl<const DEFAULT: usize, const CAP: usize> Limit<DEFAULT, CAP> {
    /// A limit of `count`, or of the cap if that is smaller.
    pub fn of(count: usize) -> Self {
        Self(count.min(CAP))
    }

    /// The number, from 1 to `CAP`.
    pub fn get(self) -> usize {
        self.0
    }
}

impl<const DEFAULT: usize, const CAP: usize> Default for Limit<DEFAULT, CAP> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl<const DEFAULT: usize, const CAP: usize> TryFrom<Number> for Limit<DEFAULT, CAP> {
    type Error = String;

    fn try_from(number: Number) -> Result<Self, String> {
        let number = integer(&number, 1, i64::MAX)?;
        Ok(Self(usize::try_from(number).unwrap_or(CAP).min(CAP)))
    }
}

/// An integer from `MIN` to `MAX`, or of any size where that is the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Number")]
pub struct Between<const MIN: i64, const MAX: i64>(i64);

schema!([const MIN: i64, const MAX: i64] Between<MIN, MAX>, |_| match MAX {
    i64::MAX => json_schema!({ "type": "integer", "minimum": MIN }),
    _ => json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX }),
});

/// The index of a log entry or a message.
pub type Index = Between<0, { i64::MAX }>;
/// The number of a turn that has ended.
pub type ToTurn = Between<1, { i64::MAX }>;
/// The same, or 0 for what was there before the first one.
pub type FromTurn = Index;
/// An index to read on from: -1 is from the beginning.
pub type After = Between<-1, { i64::MAX }>;

impl<const MIN: i64, const MAX: i64> Between<MIN, MAX> {
    /// The number, from `MIN` to `MAX`.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl<const MIN: i64, const MAX: i64> TryFrom<Number> for Between<MIN, MAX> {
    type Error = String;

    fn try_from(number: Number) -> Result<Self, String> {
        integer(&number, MIN, MAX).map(Self)
    }
}

/// A number from `MIN` to `MAX`, whole or not; it stays as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Number")]
pub struct Quantity<const MIN: i64, const MAX: i64>(Number);

schema!([const MIN: i64, const MAX: i64] Quantity<MIN, MAX>, |_| {
    json_schema!({ "type": "number", "minimum": MIN, "maximum": MAX })
});

impl<const MIN: i64, const MAX: i64> Quantity<MIN, MAX> {
    /// The number as the caller wrote it.
    pub fn number(&self) -> &Number {
        &self.0
    }
}

impl<const MIN: i64, const MAX: i64> TryFrom<Number> for Quantity<MIN, MAX> {
    type Error = String;

    fn try_from(number: Number) -> Result<Self, String> {
        let value = number.as_f64().unwrap_or(f64::NAN);
        #[expect(clippy::cast_precision_loss, reason = "bounds are small")]
        let is_within = (MIN as f64..=MAX as f64).contains(&value);
        if is_within { Ok(Self(number)) } else { Err(format!("not a number from {MIN} to {MAX}")) }
    }
}

/// An integer from `least` to `most`. JSON has one kind of numbers, so `5.0` is an integer too (JSON Schema
/// 2020-12 §6.1.1). A number beyond the range of `i64` counts as the greatest one.
fn integer(number: &Number, least: i64, most: i64) -> Result<i64, String> {
    let value = match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(value), _, _) => Some(value),
        (None, Some(_), _) => Some(i64::MAX),
        #[expect(clippy::cast_possible_truncation, reason = "the cast saturates, which is meant")]
        (None, None, Some(value)) => (value.fract() == 0.0).then_some(value as i64),
        _ => None,
    };
    let value = value.filter(|value| (least..=most).contains(value));
    value.ok_or_else(|| format!("not an integer from {least} to {most}"))
}

/// A list of `MIN` to `MAX` items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<T>", bound(deserialize = "T: Deserialize<'de>"))]
pub struct List<T, const MIN: usize, const MAX: usize>(Vec<T>);

schema!([T: JsonSchema, const MIN: usize, const MAX: usize] List<T, MIN, MAX>, |generator| {
    let items = generator.subschema_for::<T>();
    match MIN {
        0 => json_schema!({ "type": "array", "items": items, "maxItems": MAX }),
        _ => json_schema!({ "type": "array", "items": items, "minItems": MIN, "maxItems": MAX }),
    }
});

impl<T, const MIN: usize, const MAX: usize> TryFrom<Vec<T>> for List<T, MIN, MAX> {
    type Error = String;

    fn try_from(items: Vec<T>) -> Result<Self, String> {
        let fits = (MIN..=MAX).contains(&items.len());
        if fits { Ok(Self(items)) } else { Err(format!("not {MIN} to {MAX} items")) }
    }
}

impl<T, const MIN: usize, const MAX: usize> IntoIterator for List<T, MIN, MAX> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<T, const MIN: usize, const MAX: usize> Deref for List<T, MIN, MAX> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::from_str;

    use super::*;

    #[test]
    fn limits_are_clamped_and_never_zero() {
        let limit = |text| from_str::<Limit<50, 200>>(text).ok().map(Limit::get);
        assert_eq!(limit("7"), Some(7));
        assert_eq!(limit("7.0"), Some(7));
        assert_eq!(limit("201"), Some(200));
        assert_eq!(limit("1e300"), Some(200));
        assert_eq!(limit("18446744073709551615"), Some(200));
        for wrong in ["0", "-1", "1.5", "\"7\"", "true"] {
            assert_eq!(limit(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_index_to_read_on_from_is_minus_one_or_more() {
        let after = |text| from_str::<After>(text).ok().map(After::get);
        assert_eq!(after("-1"), Some(-1));
        assert_eq!(after("41"), Some(41));
        assert_eq!(after("-2"), None);
        assert_eq!(after("9223372036854775807"), Some(i64::MAX));
    }

    #[test]
    fn quantities_stay_as_they_were_written() {
        for written in ["0", "2.5", "3", "100", "99.99"] {
            let quantity = from_str::<Quantity<0, 100>>(written).unwrap();
            assert_eq!(serde_json::to_string(&quantity).unwrap(), written);
        }
        for wrong in ["-1", "-0.001", "100.1", "1e300", "\"7\"", "true"] {
            assert!(from_str::<Quantity<0, 100>>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_text_that_has_to_be_there_is_not_blank() {
        for blank in ["\"\"", "\" \"", "\"\\n\\t\\u3000\""] {
            assert!(from_str::<Text<1, 30>>(blank).is_err(), "{blank}");
            assert!(from_str::<Text<0, 30>>(blank).is_ok(), "{blank}");
        }
    }

    #[test]
    fn texts_are_counted_in_characters() {
        assert!(from_str::<Text<1, 3>>("\"äöü\"").is_ok());
        assert!(from_str::<Text<1, 3>>("\"abcd\"").is_err());
        assert!(from_str::<Text<1, 3>>("\"\"").is_err());
    }
}
