//! The kinds of values that tools take, each with its published schema and its
//! parser side by side, so that the two can't part. Pure.

use std::borrow::Cow;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, Unexpected};
use serde::ser::{Serialize, Serializer};
use serde_json::Number;

/// The pattern of an id. It lets a client's validator catch names and short
/// ids; the parser of the typed id has the last word.
pub const ID_PATTERN: &str = "^[0-9A-Fa-f-]{36}$";

macro_rules! inline_schema {
    ($name:literal, $($schema:tt)*) => {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> Cow<'static, str> {
            Cow::Borrowed($name)
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!($($schema)*)
        }
    };
}

/// The schema of an id in an input. The field itself is of a type of
/// `provost_actors::ids`. `format: uuid` is left out: one API refuses it.
pub struct Id;

impl JsonSchema for Id {
    inline_schema!("Id", { "type": "string", "pattern": ID_PATTERN });
}

/// The pattern of a task's name: its id, or its handle.
pub const TASK_PATTERN: &str = "^([0-9A-Fa-f-]{36}|[A-Za-z][A-Za-z-]*-[0-9]+)$";

/// The schema of a task by its id or handle. The field itself is a `TaskRef`.
pub struct TaskName;

impl JsonSchema for TaskName {
    inline_schema!("TaskName", { "type": "string", "pattern": TASK_PATTERN });
}

/// A plain enum of strings, for a field whose type is no `JsonSchema`.
pub fn one_of(names: &[&str]) -> Schema {
    schemars::json_schema!({ "type": "string", "enum": names })
}

/// The schema of a time: RFC 3339. The field itself is a `Timestamp`.
pub struct Time;

impl JsonSchema for Time {
    inline_schema!("Time", { "type": "string", "format": "date-time" });
}

/// A text of `MIN` to `MAX` Unicode scalar values. One that has to be there is not blank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text<const MIN: usize, const MAX: usize>(String);

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

impl<const MIN: usize, const MAX: usize> JsonSchema for Text<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Cow::Owned(format!("Text_{MIN}_{MAX}"))
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        match MIN {
            0 => json_schema!({ "type": "string", "maxLength": MAX }),
            _ => json_schema!({ "type": "string", "minLength": MIN, "maxLength": MAX }),
        }
    }
}

impl<'de, const MIN: usize, const MAX: usize> Deserialize<'de> for Text<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if MIN > 0 && text.trim().is_empty() {
            return Err(D::Error::invalid_value(
                Unexpected::Str(&text),
                &"a text that is not blank",
            ));
        }
        let length = text.chars().count();
        if (MIN..=MAX).contains(&length) {
            Ok(Self(text))
        } else {
            Err(D::Error::invalid_length(length, &format!("{MIN} to {MAX} characters").as_str()))
        }
    }
}

impl<const MIN: usize, const MAX: usize> TryFrom<String> for Text<MIN, MAX> {
    type Error = serde::de::value::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::deserialize(text.into_deserializer())
    }
}

impl<const MIN: usize, const MAX: usize> Serialize for Text<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// A task's title and description, by whatever way it comes to the board.
pub type Title = Text<1, 1000>;
pub type Description = Text<0, 1_000_000>;

/// A number of things or bytes: 1 or more, `DEFAULT` when left out, clamped to
/// `CAP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit<const DEFAULT: usize, const CAP: usize>(usize);

impl<const DEFAULT: usize, const CAP: usize> Limit<DEFAULT, CAP> {
    pub fn get(self) -> usize {
        self.0
    }
}

impl<const DEFAULT: usize, const CAP: usize> Default for Limit<DEFAULT, CAP> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl<const DEFAULT: usize, const CAP: usize> JsonSchema for Limit<DEFAULT, CAP> {
    inline_schema!("Limit", { "type": "integer", "minimum": 1 });
}

impl<'de, const DEFAULT: usize, const CAP: usize> Deserialize<'de> for Limit<DEFAULT, CAP> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = integer(deserializer, 1)?;
        Ok(Self(usize::try_from(number).unwrap_or(CAP).min(CAP)))
    }
}

impl<const DEFAULT: usize, const CAP: usize> Serialize for Limit<DEFAULT, CAP> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// An integer from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between<const MIN: i64, const MAX: i64>(i64);

impl<const MIN: i64, const MAX: i64> Between<MIN, MAX> {
    pub fn get(self) -> i64 {
        self.0
    }
}

impl<const MIN: i64, const MAX: i64> JsonSchema for Between<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Cow::Owned(format!("Between_{MIN}_{MAX}"))
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

impl<'de, const MIN: i64, const MAX: i64> Deserialize<'de> for Between<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = integer(deserializer, MIN)?;
        let expected = format!("an integer from {MIN} to {MAX}");
        let wrong = || D::Error::invalid_value(Unexpected::Signed(number), &expected.as_str());
        if number <= MAX { Ok(Self(number)) } else { Err(wrong()) }
    }
}

impl<const MIN: i64, const MAX: i64> Serialize for Between<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// A number from `MIN` to `MAX`, whole or not; it stays as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity<const MIN: i64, const MAX: i64>(Number);

impl<const MIN: i64, const MAX: i64> Quantity<MIN, MAX> {
    pub fn number(&self) -> &Number {
        &self.0
    }
}

impl<const MIN: i64, const MAX: i64> JsonSchema for Quantity<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Cow::Owned(format!("Quantity_{MIN}_{MAX}"))
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": MIN, "maximum": MAX })
    }
}

impl<'de, const MIN: i64, const MAX: i64> Deserialize<'de> for Quantity<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?;
        let expected = format!("a number from {MIN} to {MAX}");
        let value = number.as_f64().unwrap_or(f64::NAN);
        #[expect(clippy::cast_precision_loss, reason = "bounds are small")]
        if (MIN as f64..=MAX as f64).contains(&value) {
            Ok(Self(number))
        } else {
            Err(D::Error::invalid_value(Unexpected::Float(value), &expected.as_str()))
        }
    }
}

impl<const MIN: i64, const MAX: i64> Serialize for Quantity<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The index of a log entry or a message: 0 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index(u64);

impl Index {
    pub fn get(self) -> u64 {
        self.0
    }
}

impl JsonSchema for Index {
    inline_schema!("Index", { "type": "integer", "minimum": 0 });
}

impl<'de> Deserialize<'de> for Index {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        integer(deserializer, 0).map(|number| Self(number.unsigned_abs()))
    }
}

/// An index to read on from: -1 (from the beginning) or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After(i64);

impl After {
    /// The first index wanted.
    pub fn first(self) -> u64 {
        self.0.saturating_add(1).unsigned_abs()
    }
}

impl JsonSchema for After {
    inline_schema!("After", { "type": "integer", "minimum": -1 });
}

impl<'de> Deserialize<'de> for After {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        integer(deserializer, -1).map(Self)
    }
}

/// An integer of at least `minimum`. JSON knows one kind of number, so `5.0`
/// is one too (JSON Schema 2020-12 §6.1.1), and a giant one is only large.
fn integer<'de, D: Deserializer<'de>>(deserializer: D, minimum: i64) -> Result<i64, D::Error> {
    let number = Number::deserialize(deserializer)?;
    let wrong = || D::Error::invalid_value(Unexpected::Other("number"), &"an integer in range");
    let value = match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(value), _, _) => value,
        (None, Some(_), _) => i64::MAX,
        #[expect(clippy::cast_possible_truncation, reason = "the cast saturates, which is meant")]
        (None, None, Some(value)) if value.fract() == 0.0 => value as i64,
        _ => return Err(wrong()),
    };
    if value < minimum { Err(wrong()) } else { Ok(value) }
}

/// A list of `MIN` to `MAX` items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T, const MIN: usize, const MAX: usize>(Vec<T>);

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

impl<T: JsonSchema, const MIN: usize, const MAX: usize> JsonSchema for List<T, MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Cow::Owned(format!("List_{}_{MIN}_{MAX}", T::schema_name()))
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let items = generator.subschema_for::<T>();
        match MIN {
            0 => json_schema!({ "type": "array", "items": items, "maxItems": MAX }),
            _ => {
                json_schema!({ "type": "array", "items": items, "minItems": MIN, "maxItems": MAX })
            }
        }
    }
}

impl<'de, T, const MIN: usize, const MAX: usize> Deserialize<'de> for List<T, MIN, MAX>
where
    T: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items = Vec::deserialize(deserializer)?;
        if (MIN..=MAX).contains(&items.len()) {
            Ok(Self(items))
        } else {
            Err(D::Error::invalid_length(items.len(), &format!("{MIN} to {MAX} items").as_str()))
        }
    }
}

impl<T: Serialize, const MIN: usize, const MAX: usize> Serialize for List<T, MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
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
    fn minus_one_asks_from_the_beginning() {
        let first = |text| from_str::<After>(text).ok().map(After::first);
        assert_eq!(first("-1"), Some(0));
        assert_eq!(first("41"), Some(42));
        assert_eq!(first("-2"), None);
        assert_eq!(first("9223372036854775807"), Some(9_223_372_036_854_775_807));
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
