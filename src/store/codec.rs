//! Between columns and domain values: an id or an enum is stored as the text that serde
//! makes of it, a moment as milliseconds since 1970, a list or a document as JSON. A value
//! that can't be read back is an error, never a default.

use std::fmt::Display;
use std::str::FromStr;

use provost_actors::event::Timestamp;
use provost_actors::refusal::Refusal;
use serde::Serialize;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde_json::Value;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::sqlite::{SqliteArgumentsBuffer, SqliteRow, SqliteTypeInfo, SqliteValueRef};
use sqlx::{Decode, Encode, Row, Sqlite, Type};

/// An id or a unit enum, as a column or as a parameter of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Text<T>(pub T);

impl<T> Type<Sqlite> for Text<T> {
    fn type_info() -> SqliteTypeInfo {
        <str as Type<Sqlite>>::type_info()
    }
}

impl<T: Serialize> Encode<'_, Sqlite> for Text<T> {
    fn encode_by_ref(&self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Sqlite>::encode(word(&self.0), buffer)
    }
}

impl<'r, T: DeserializeOwned> Decode<'r, Sqlite> for Text<T> {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        let text = <&str as Decode<Sqlite>>::decode(value)?;
        let text: StrDeserializer<'_, Error> = text.into_deserializer();
        Ok(Self(T::deserialize(text)?))
    }
}

/// The columns of a row as domain values.
pub trait Columns {
    /// An id or a unit enum.
    fn text<T: DeserializeOwned>(&self, column: &str) -> sqlx::Result<T>;
    /// An id or a unit enum; `None` where the column is NULL.
    fn maybe_text<T: DeserializeOwned>(&self, column: &str) -> sqlx::Result<Option<T>>;
    /// A moment.
    fn at(&self, column: &str) -> sqlx::Result<Timestamp>;
    /// A moment; `None` where the column is NULL.
    fn maybe_at(&self, column: &str) -> sqlx::Result<Option<Timestamp>>;
    /// A document; JSON's `null` where the column is NULL.
    fn json<T: DeserializeOwned>(&self, column: &str) -> sqlx::Result<T>;
}

impl Columns for SqliteRow {
    fn text<T: DeserializeOwned>(&self, column: &str) -> sqlx::Result<T> {
        self.try_get::<Text<T>, _>(column).map(|text| text.0)
    }

    fn maybe_text<T: DeserializeOwned>(&self, column: &str) -> sqlx::Result<Option<T>> {
        self.try_get::<Option<Text<T>>, _>(column).map(|text| text.map(|text| text.0))
    }

    fn at(&self, column: &str) -> sqlx::Result<Timestamp> {
        self.try_get(column).map(Timestamp::from_millis)
    }

    fn maybe_at(&self, column: &str) -> sqlx::Result<Option<Timestamp>> {
        self.try_get::<Option<i64>, _>(column).map(|at| at.map(Timestamp::from_millis))
    }

    fn json<T: DeserializeOwned>(&self, column: &str) -> sqlx::Result<T> {
        let json: Option<&str> = self.try_get(column)?;
        serde_json::from_str(json.unwrap_or("null")).map_err(|error| sqlx::Error::ColumnDecode {
            index: column.to_owned(),
            source: error.into(),
        })
    }
}

/// The word of a unit enum, or the text of an id.
pub fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        other => {
            unreachable!("only ids and enums of plain words are stored as text, not {other:?}")
        }
    }
}

/// An id.
pub fn id<T: FromStr<Err: Display>>(text: &str) -> Result<T, Refusal> {
    text.parse().map_err(|error| {
        Refusal::internal(format!("the database holds a value that can't be read: {error}"))
    })
}
