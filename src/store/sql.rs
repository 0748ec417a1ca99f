//! Statements with serde on both sides. A parameter is bound as the JSON value that it serializes
//! to: an id or an enum as its word, a list or a document as JSON text. A row is read into a struct
//! by the names of its columns, into a tuple by their order, or into a single value; a document is
//! read from its JSON text, and a moment, which is stored in milliseconds since 1970, into a
//! `Timestamp`. A value that can't be read back is an error, never a default.

use futures_util::future::BoxFuture;
use provost_actors::event::Timestamp;
use serde::Serialize;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde_json::Value;
use serde_json::de::StrRead;
use sqlx::error::BoxDynError;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteColumn, SqliteRow, SqliteValueRef};
use sqlx::{
    Arguments, AssertSqlSafe, Column as _, Decode, Row as _, SqlSafeStr, Sqlite, SqliteConnection,
    TypeInfo, ValueRef,
};

use super::Result;

/// Statements on the connection of a transaction or of a read. `values` is a tuple with the
/// parameters `?1`, `?2`, …
///
/// The futures are boxed: one that captured the types of its parameters would not be `Send`
/// for every lifetime, which a closure that is called with any connection needs.
pub trait Sql {
    fn connection(&mut self) -> &mut SqliteConnection;

    /// Changes rows; returns how many.
    fn run(&mut self, sql: impl SqlSafeStr, values: impl Serialize) -> BoxFuture<'_, Result<u64>> {
        let (query, connection) = (query(sql, values), self.connection());
        Box::pin(async move { Ok(query?.execute(connection).await?.rows_affected()) })
    }

    /// Inserts a row, an object of column names and values. `into` is `INTO table`, or with
    /// what to do about a conflict before it: `OR IGNORE INTO table`.
    fn insert(&mut self, into: &str, row: Value) -> BoxFuture<'_, Result<u64>> {
        let Value::Object(row) = row else { unreachable!("a row is an object of its columns") };
        let (columns, values): (Vec<String>, Vec<Value>) = row.into_iter().unzip();
        let columns = columns.join(", ");
        let places = vec!["?"; values.len()].join(", ");
        let sql = format!("INSERT {into} ({columns}) VALUES ({places})");
        self.run(AssertSqlSafe(sql), values)
    }

    fn rows(
        &mut self,
        sql: impl SqlSafeStr,
        values: impl Serialize,
    ) -> BoxFuture<'_, Result<Vec<SqliteRow>>> {
        let (query, connection) = (query(sql, values), self.connection());
        Box::pin(async move { Ok(query?.fetch_all(connection).await?) })
    }

    fn all<'a, T: DeserializeOwned + 'a>(
        &'a mut self,
        sql: impl SqlSafeStr,
        values: impl Serialize,
    ) -> BoxFuture<'a, Result<Vec<T>>> {
        let rows = self.rows(sql, values);
        let read = |row: &SqliteRow| Ok(T::deserialize(Source::Row(row))?);
        Box::pin(async move { rows.await?.iter().map(read).collect() })
    }

    fn find<'a, T: DeserializeOwned + 'a>(
        &'a mut self,
        sql: impl SqlSafeStr,
        values: impl Serialize,
    ) -> BoxFuture<'a, Result<Option<T>>> {
        let rows = self.all(sql, values);
        Box::pin(async move { Ok(rows.await?.into_iter().next()) })
    }

    /// The row that is always there.
    fn one<'a, T: DeserializeOwned + 'a>(
        &'a mut self,
        sql: impl SqlSafeStr,
        values: impl Serialize,
    ) -> BoxFuture<'a, Result<T>> {
        let row = self.find(sql, values);
        Box::pin(async move { Ok(row.await?.ok_or(sqlx::Error::RowNotFound)?) })
    }
}

impl Sql for SqliteConnection {
    fn connection(&mut self) -> &mut Self {
        self
    }
}

fn query(
    sql: impl SqlSafeStr,
    values: impl Serialize,
) -> Result<Query<'static, Sqlite, SqliteArguments>> {
    let mut arguments = SqliteArguments::default();
    match serde_json::to_value(values)? {
        Value::Null => {}
        Value::Array(values) => {
            for value in values {
                add(&mut arguments, value).map_err(sqlx::Error::Encode)?;
            }
        }
        // Else the statement would run with NULL for each parameter.
        other => {
            let error = format!("parameters are a tuple, not {other}");
            return Err(sqlx::Error::Encode(error.into()).into());
        }
    }
    Ok(sqlx::query_with(sql, arguments))
}

/// Now, as moments are stored.
pub fn now() -> i64 {
    Timestamp::now().millis()
}

/// The word of a unit enum, or the text of an id.
pub fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        other => unreachable!("only ids and enums of plain words have a word, not {other:?}"),
    }
}

fn add(arguments: &mut SqliteArguments, value: Value) -> Result<(), BoxDynError> {
    match value {
        Value::Null => arguments.add(None::<i64>),
        Value::Bool(bool) => arguments.add(bool),
        Value::Number(number) if number.is_f64() => arguments.add(number.as_f64()),
        // What is larger than a column can hold is as good as without end.
        Value::Number(number) => arguments.add(number.as_i64().unwrap_or(i64::MAX)),
        Value::String(text) => arguments.add(text),
        document => arguments.add(document.to_string()),
    }
}

type Fault = serde_json::Error;

/// A row or a column: what it is read into decides. Of a row, a single value is its first column.
enum Source<'r> {
    Row(&'r SqliteRow),
    Column(SqliteValueRef<'r>),
}

impl<'r> Source<'r> {
    fn value(self) -> Result<SqliteValueRef<'r>, Fault> {
        match self {
            Self::Row(row) => row.try_get_raw(0).map_err(Fault::custom),
            Self::Column(value) => Ok(value),
        }
    }
}

impl<'r> IntoDeserializer<'r, Fault> for Source<'r> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

fn columns(row: &SqliteRow) -> Result<Vec<(&str, Source<'_>)>, Fault> {
    let column = |column: &SqliteColumn| row.try_get_raw(column.ordinal()).map(Source::Column);
    let named = |it| Ok((SqliteColumn::name(it), column(it).map_err(Fault::custom)?));
    row.columns().iter().map(named).collect()
}

fn get<'r, T: Decode<'r, Sqlite>>(value: SqliteValueRef<'r>) -> Result<T, Fault> {
    T::decode(value).map_err(Fault::custom)
}

/// A document as JSON; `null` is what an absent one is.
fn json<'r>(
    value: SqliteValueRef<'r>,
    null: &'static str,
) -> Result<serde_json::Deserializer<StrRead<'r>>, Fault> {
    let json = if value.is_null() { null } else { get(value)? };
    Ok(serde_json::Deserializer::from_str(json))
}

impl<'de> Deserializer<'de> for Source<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let value = self.value()?;
        if value.is_null() {
            return visitor.visit_unit();
        }
        let is = |name: &str| value.type_info().name() == name;
        if is("INTEGER") {
            visitor.visit_i64(get(value)?)
        } else if is("REAL") {
            visitor.visit_f64(get(value)?)
        } else {
            visitor.visit_str(get(value)?)
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_bool(get(self.value()?)?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let value = self.value()?;
        if value.is_null() {
            return visitor.visit_none();
        }
        visitor.visit_some(Self::Column(value))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let word: &str = get(self.value()?)?;
        word.into_deserializer().deserialize_enum(name, variants, visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        json(self.value()?, "[]")?.deserialize_seq(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self {
            Self::Row(row) => {
                let columns = columns(row)?.into_iter().map(|(_, column)| column);
                visitor.visit_seq(SeqDeserializer::new(columns))
            }
            Self::Column(value) => json(value, "null")?.deserialize_tuple(length, visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self {
            Self::Row(row) => visitor.visit_map(MapDeserializer::new(columns(row)?.into_iter())),
            Self::Column(value) => json(value, "null")?.deserialize_map(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_map(visitor)
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct tuple_struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_are_no_tuple_are_refused() {
        assert!(query("SELECT ?1", ("one",)).is_ok());
        assert!(query("SELECT 1", ()).is_ok());
        assert!(query("SELECT ?1", "one").is_err());
    }
}
