//! Statements with serde on both sides. A parameter is bound as the JSON value that it serializes
//! to: an id or an enum as its word, a list or a document as JSON text. A row is read into a struct
//! by the names of its columns, into a tuple by their order, or into a single value; a document is
//! read from its JSON text, and a moment, which is stored in milliseconds since 1970, into a
//! `Timestamp`. A value that can't be read back is an error, never a default.

use futures_util::future::BoxFuture;
use provost_actors::event::Timestamp;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::error::BoxDynError;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow, SqliteValueRef};
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
        let read = |row: &SqliteRow| Ok(T::deserialize(Row(row))?);
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

/// Reads a moment where serde does not know beforehand that it is one: below a flattened field.
pub fn moment<'de, D: Deserializer<'de>>(column: D) -> Result<Timestamp, D::Error> {
    i64::deserialize(column).map(Timestamp::from_millis)
}

/// Reads a moment that may be absent.
pub fn maybe_moment<'de, D: Deserializer<'de>>(column: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(Option::deserialize(column)?.map(Timestamp::from_millis))
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

struct Row<'r>(&'r SqliteRow);

impl<'r> Row<'r> {
    fn columns(&self) -> Result<Vec<(&'r str, Column<'r>)>, Fault> {
        let column = |column: &'r sqlx::sqlite::SqliteColumn| {
            let value = self.0.try_get_raw(column.ordinal()).map_err(Fault::custom)?;
            Ok((column.name(), Column(value)))
        };
        self.0.columns().iter().map(column).collect()
    }

    fn first(&self) -> Result<Column<'r>, Fault> {
        self.0.try_get_raw(0).map(Column).map_err(Fault::custom)
    }
}

/// Reads a single value from the first column.
macro_rules! first_column {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            self.first()?.$method(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for Row<'de> {
    type Error = Fault;

    first_column! {
        deserialize_any deserialize_bool deserialize_str deserialize_string deserialize_option
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.first()?.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_map(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_map(MapDeserializer::new(self.columns()?.into_iter()))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        let columns = self.columns()?.into_iter().map(|(_, column)| column);
        visitor.visit_seq(SeqDeserializer::new(columns))
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct seq
        tuple_struct identifier ignored_any
    }
}

struct Column<'r>(SqliteValueRef<'r>);

impl<'r> Column<'r> {
    fn is(&self, name: &str) -> bool {
        self.0.type_info().name() == name
    }

    fn get<T: Decode<'r, Sqlite>>(self) -> Result<T, Fault> {
        T::decode(self.0).map_err(Fault::custom)
    }

    /// A document as JSON; `null` is what an absent one is.
    fn json(
        self,
        null: &'static str,
    ) -> Result<serde_json::Deserializer<serde_json::de::StrRead<'r>>, Fault> {
        let json = if self.0.is_null() { null } else { self.get()? };
        Ok(serde_json::Deserializer::from_str(json))
    }
}

impl<'r> IntoDeserializer<'r, Fault> for Column<'r> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Column<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.0.is_null() {
            return visitor.visit_unit();
        }
        if self.is("INTEGER") {
            return visitor.visit_i64(self.get()?);
        }
        if self.is("REAL") {
            visitor.visit_f64(self.get()?)
        } else {
            visitor.visit_str(self.get()?)
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_bool(self.get()?)
    }

    /// The only texts that are stored as integers are moments.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.is("INTEGER") {
            return visitor.visit_string(Timestamp::from_millis(self.get()?).to_string());
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
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
        let word: &str = self.get()?;
        word.into_deserializer().deserialize_enum(name, variants, visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.json("[]")?.deserialize_seq(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.json("null")?.deserialize_tuple(length, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.json("null")?.deserialize_map(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.json("null")?.deserialize_struct(name, fields, visitor)
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        tuple_struct identifier ignored_any
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
