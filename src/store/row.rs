//! Rows read by serde: into a struct by the names of the columns, into a tuple by their order, or into a
//! single value from the first column. A document is read from its JSON text, and a time, which is stored in
//! milliseconds since 1970, into a `Timestamp`. A value that does not fit is an error, never a default.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde_json::de::StrRead;
use sqlx::postgres::{PgColumn, PgRow, PgValueRef};
use sqlx::sqlite::{SqliteColumn, SqliteRow, SqliteValueRef};
use sqlx::{Column as _, Decode, Postgres, Row as _, Sqlite, TypeInfo, ValueRef};

use super::Result;
use super::dialect::postgres::Kind;

type Fault = serde_json::Error;

/// The rows that a query returned.
pub enum Rows {
    Sqlite(Vec<SqliteRow>),
    Postgres(Vec<PgRow>),
}

impl Rows {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Sqlite(rows) => rows.len(),
            Self::Postgres(rows) => rows.len(),
        }
    }

    /// Reads each row into a `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        let read = |row| Ok(T::deserialize(row)?);
        match self {
            Self::Sqlite(rows) => rows.iter().map(Source::Row).map(read).collect(),
            Self::Postgres(rows) => rows.iter().map(Source::PgRow).map(read).collect(),
        }
    }

    /// Reads the first row; `None`: there is none.
    pub fn first<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let row = match self {
            Self::Sqlite(rows) => rows.first().map(Source::Row),
            Self::Postgres(rows) => rows.first().map(Source::PgRow),
        };
        Ok(row.map(T::deserialize).transpose()?)
    }
}

/// A row or a column, read into the type that the caller asks for. For a single value, a row stands for its
/// first column.
enum Source<'r> {
    Row(&'r SqliteRow),
    PgRow(&'r PgRow),
    Column(Value<'r>),
}

/// A column's value.
enum Value<'r> {
    Sqlite(SqliteValueRef<'r>),
    Postgres(PgValueRef<'r>),
}

impl<'r> Value<'r> {
    fn is_null(&self) -> bool {
        match self {
            Self::Sqlite(value) => value.is_null(),
            Self::Postgres(value) => value.is_null(),
        }
    }

    fn text(self) -> Result<&'r str, Fault> {
        match self {
            Self::Sqlite(value) => get(value),
            Self::Postgres(value) => value.as_str().map_err(Fault::custom),
        }
    }

    fn boolean(self) -> Result<bool, Fault> {
        match self {
            Self::Sqlite(value) => get(value),
            Self::Postgres(value) => match Kind::of(&value.type_info()) {
                Kind::Boolean => get_pg(value),
                _ => Ok(integer(value)? != 0),
            },
        }
    }
}

impl<'r> Source<'r> {
    fn value(self) -> Result<Value<'r>, Fault> {
        match self {
            Self::Row(row) => row.try_get_raw(0).map(Value::Sqlite).map_err(Fault::custom),
            Self::PgRow(row) => row.try_get_raw(0).map(Value::Postgres).map_err(Fault::custom),
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

type Columns<'r> = Vec<(&'r str, Source<'r>)>;

fn columns(row: &SqliteRow) -> Result<Columns<'_>, Fault> {
    let column = |column: &SqliteColumn| row.try_get_raw(column.ordinal()).map(Value::Sqlite);
    let named = |it| {
        let value = column(it).map_err(Fault::custom)?;
        Ok((SqliteColumn::name(it), Source::Column(value)))
    };
    row.columns().iter().map(named).collect()
}

fn pg_columns(row: &PgRow) -> Result<Columns<'_>, Fault> {
    let column = |column: &PgColumn| row.try_get_raw(column.ordinal()).map(Value::Postgres);
    let named = |it| {
        let value = column(it).map_err(Fault::custom)?;
        Ok((PgColumn::name(it), Source::Column(value)))
    };
    row.columns().iter().map(named).collect()
}

fn get<'r, T: Decode<'r, Sqlite>>(value: SqliteValueRef<'r>) -> Result<T, Fault> {
    T::decode(value).map_err(Fault::custom)
}

fn get_pg<'r, T: Decode<'r, Postgres>>(value: PgValueRef<'r>) -> Result<T, Fault> {
    T::decode(value).map_err(Fault::custom)
}

/// An integer of any width that PostgreSQL has: 2, 4 or 8 bytes.
fn integer(value: PgValueRef<'_>) -> Result<i64, Fault> {
    match value.as_bytes().map_err(Fault::custom)? {
        bytes if bytes.len() == 2 => get_pg::<i16>(value).map(i64::from),
        bytes if bytes.len() == 4 => get_pg::<i32>(value).map(i64::from),
        _ => get_pg(value),
    }
}

/// Reads a document from its JSON text; a NULL column reads as the JSON text `null`.
fn json<'r>(
    value: Value<'r>,
    null: &'static str,
) -> Result<serde_json::Deserializer<StrRead<'r>>, Fault> {
    let json = if value.is_null() { null } else { value.text()? };
    Ok(serde_json::Deserializer::from_str(json))
}

fn any<'de, V: Visitor<'de>>(value: SqliteValueRef<'de>, visitor: V) -> Result<V::Value, Fault> {
    let is = |name: &str| value.type_info().name() == name;
    if is("INTEGER") {
        visitor.visit_i64(get(value)?)
    } else if is("REAL") {
        visitor.visit_f64(get(value)?)
    } else {
        visitor.visit_str(get(value)?)
    }
}

fn any_pg<'de, V: Visitor<'de>>(value: PgValueRef<'de>, visitor: V) -> Result<V::Value, Fault> {
    let kind = Kind::of(&value.type_info());
    match kind {
        Kind::Boolean => visitor.visit_bool(get_pg(value)?),
        Kind::Short | Kind::Integer | Kind::Long => visitor.visit_i64(integer(value)?),
        Kind::Float => visitor.visit_f64(get_pg(value)?),
        Kind::Text => visitor.visit_str(value.as_str().map_err(Fault::custom)?),
        Kind::Other => {
            Err(Fault::custom(format!("no column is read as a {}", value.type_info().name())))
        }
    }
}

impl<'de> Deserializer<'de> for Source<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value()? {
            value if value.is_null() => visitor.visit_unit(),
            Value::Sqlite(value) => any(value, visitor),
            Value::Postgres(value) => any_pg(value, visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_bool(self.value()?.boolean()?)
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
        let word = self.value()?.text()?;
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
        let columns = match self {
            Self::Row(row) => columns(row)?,
            Self::PgRow(row) => pg_columns(row)?,
            Self::Column(value) => return json(value, "null")?.deserialize_tuple(length, visitor),
        };
        visitor.visit_seq(SeqDeserializer::new(columns.into_iter().map(|(_, column)| column)))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let columns = match self {
            Self::Row(row) => columns(row)?,
            Self::PgRow(row) => pg_columns(row)?,
            Self::Column(value) => return json(value, "null")?.deserialize_map(visitor),
        };
        visitor.visit_map(MapDeserializer::new(columns.into_iter()))
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
