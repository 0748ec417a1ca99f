//! Statements with serde on both sides. A parameter is bound as the JSON value that it serializes
//! to: an id or an enum as its word, a list or a document as JSON text. [`super::row`] reads what
//! comes back. Each statement is one text for both engines.

use futures_util::future::BoxFuture;
use provost_actors::event::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sqlx::error::BoxDynError;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, AssertSqlSafe, PgConnection, SqlSafeStr, SqlStr, Sqlite, SqliteConnection};

use super::Result;
use super::connection::{Connection, Driver};
use super::dialect::postgres::Known;
use super::pg_transaction::answered;
use super::row::Rows;

/// Statements on the connection of a transaction or of a read. `values` is a tuple with the
/// parameters `$1`, `$2`, …
///
/// The futures are boxed: one that captured the types of its parameters would not be `Send`
/// for every lifetime, which a closure that is called with any connection needs.
pub trait Sql {
    fn driver(&mut self) -> Driver<'_>;

    /// A statement with its parameters, bound to this connection.
    fn statement(&mut self, sql: impl SqlSafeStr, values: impl Serialize) -> Statement<'_> {
        match self.driver() {
            Driver::Sqlite(connection) => Statement::Sqlite(query(sql, values), connection),
            Driver::Postgres(connection) => {
                Statement::Postgres(sql.into_sql_str(), parameters(values), connection)
            }
        }
    }

    /// Changes rows; returns how many.
    fn run(&mut self, sql: impl SqlSafeStr, values: impl Serialize) -> BoxFuture<'_, Result<u64>> {
        let statement = self.statement(sql, values);
        Box::pin(statement.execute())
    }

    /// Inserts a row, an object of column names and values. `into` is `INTO table`.
    fn insert(&mut self, into: &str, row: Value) -> BoxFuture<'_, Result<u64>> {
        let (sql, values) = insertion(into, row);
        self.run(AssertSqlSafe(sql), values)
    }

    /// The same, unless a row with one of its keys is there.
    fn insert_new(&mut self, into: &str, row: Value) -> BoxFuture<'_, Result<u64>> {
        let (sql, values) = insertion(into, row);
        self.run(AssertSqlSafe(format!("{sql} ON CONFLICT DO NOTHING")), values)
    }

    /// Inserts a row into a table, or gives the row with the same `key` all of its values.
    fn replace(&mut self, table: &str, key: &str, row: Value) -> BoxFuture<'_, Result<u64>> {
        let columns: Vec<String> =
            row.as_object().into_iter().flatten().map(|it| it.0.clone()).collect();
        let set: Vec<String> = columns.iter().map(|it| format!("{it} = excluded.{it}")).collect();
        let (sql, values) = insertion(&format!("INTO {table}"), row);
        let sql = format!("{sql} ON CONFLICT ({key}) DO UPDATE SET {}", set.join(", "));
        self.run(AssertSqlSafe(sql), values)
    }

    fn rows(
        &mut self,
        sql: impl SqlSafeStr,
        values: impl Serialize,
    ) -> BoxFuture<'_, Result<Rows>> {
        let statement = self.statement(sql, values);
        Box::pin(statement.rows())
    }

    fn all<'a, T: DeserializeOwned + 'a>(
        &'a mut self,
        sql: impl SqlSafeStr,
        values: impl Serialize,
    ) -> BoxFuture<'a, Result<Vec<T>>> {
        let statement = self.statement(sql, values);
        Box::pin(async move { statement.rows().await?.read() })
    }

    fn find<'a, T: DeserializeOwned + 'a>(
        &'a mut self,
        sql: impl SqlSafeStr,
        values: impl Serialize,
    ) -> BoxFuture<'a, Result<Option<T>>> {
        let statement = self.statement(sql, values);
        Box::pin(async move { statement.rows().await?.first() })
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

impl Sql for Connection {
    #[inline]
    fn driver(&mut self) -> Driver<'_> {
        Self::driver(self)
    }
}

impl Sql for SqliteConnection {
    fn driver(&mut self) -> Driver<'_> {
        Driver::Sqlite(self)
    }
}

impl Sql for PgConnection {
    fn driver(&mut self) -> Driver<'_> {
        Driver::Postgres(self)
    }
}

/// A statement that is ready to run on its connection.
pub enum Statement<'c> {
    Sqlite(Result<Query<'static, Sqlite, SqliteArguments>>, &'c mut SqliteConnection),
    Postgres(SqlStr, Result<Vec<Value>>, &'c mut PgConnection),
}

impl Statement<'_> {
    async fn execute(self) -> Result<u64> {
        Ok(match self {
            Self::Sqlite(query, connection) => query?.execute(connection).await?.rows_affected(),
            Self::Postgres(sql, values, connection) => {
                let query = Known::of(&sql, connection).await?.query(values?)?;
                answered(query.execute(connection)).await?.rows_affected()
            }
        })
    }

    async fn rows(self) -> Result<Rows> {
        Ok(match self {
            Self::Sqlite(query, connection) => Rows::Sqlite(query?.fetch_all(connection).await?),
            Self::Postgres(sql, values, connection) => {
                let query = Known::of(&sql, connection).await?.query(values?)?;
                Rows::Postgres(answered(query.fetch_all(connection)).await?)
            }
        })
    }
}

/// The statement that inserts a row, and its parameters.
fn insertion(into: &str, row: Value) -> (String, Vec<Value>) {
    let Value::Object(row) = row else { unreachable!("a row is an object of its columns") };
    let places: Vec<String> = (1..=row.len()).map(|number| format!("${number}")).collect();
    // One is named `user`, which is a word of SQL.
    let (columns, values): (Vec<String>, Vec<Value>) =
        row.into_iter().map(|(column, value)| (format!("\"{column}\""), value)).unzip();
    let sql = format!("INSERT {into} ({}) VALUES ({})", columns.join(", "), places.join(", "));
    (sql, values)
}

/// The parameters, one by one.
fn parameters(values: impl Serialize) -> Result<Vec<Value>> {
    match serde_json::to_value(values)? {
        Value::Null => Ok(Vec::new()),
        Value::Array(values) => Ok(values),
        // Else the statement would run with NULL for each parameter.
        other => {
            let error = format!("parameters are a tuple, not {other}");
            Err(sqlx::Error::Encode(error.into()).into())
        }
    }
}

fn query(
    sql: impl SqlSafeStr,
    values: impl Serialize,
) -> Result<Query<'static, Sqlite, SqliteArguments>> {
    let mut arguments = SqliteArguments::default();
    for value in parameters(values)? {
        add(&mut arguments, value).map_err(sqlx::Error::Encode)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_are_no_tuple_are_refused() {
        assert!(query("SELECT $1", ("one",)).is_ok());
        assert!(query("SELECT 1", ()).is_ok());
        assert!(query("SELECT $1", "one").is_err());
    }
}
