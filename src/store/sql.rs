//! Statements with serde on both sides. Each parameter is bound as the JSON value that it serializes to:
//! an id or an enum as its word, a list or a document as JSON text. [`super::row`] reads the results. Each
//! statement is one text for both engines.

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

/// Statements on the connection of a read or of a transaction. `values` is a tuple with the parameters
/// `$1`, `$2`, …; `()` is none.
///
/// The futures are boxed: a future that captured the types of its parameters would not be `Send` for every
/// lifetime, and the closures of `read` and `write` need that.
pub trait Sql {
    /// The connection that statements run on.
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

    /// Runs a statement; returns how many rows it changed.
    fn run(&mut self, sql: impl SqlSafeStr, values: impl Serialize) -> BoxFuture<'_, Result<u64>> {
        let statement = self.statement(sql, values);
        Box::pin(statement.execute())
    }

    /// Inserts a row, an object of column names and values. `into` is `INTO table`. Fails if the key exists.
    fn insert(&mut self, into: &str, row: Value) -> BoxFuture<'_, Result<u64>> {
        let (sql, values) = insertion(into, row);
        self.run(AssertSqlSafe(sql), values)
    }

    /// Like [`insert`](Self::insert), but does nothing if a row with one of its keys exists. Returns 0 or 1.
    fn insert_new(&mut self, into: &str, row: Value) -> BoxFuture<'_, Result<u64>> {
        let (sql, values) = insertion(into, row);
        self.run(AssertSqlSafe(format!("{sql} ON CONFLICT DO NOTHING")), values)
    }

    /// Inserts a row into a table. If a row with the same `key` (its columns, separated by commas) exists,
    /// that row gets all values of this one.
    fn replace(&mut self, table: &str, key: &str, row: Value) -> BoxFuture<'_, Result<u64>> {
        let columns: Vec<String> =
            row.as_object().into_iter().flatten().map(|it| it.0.clone()).collect();
        let set: Vec<String> = columns.iter().map(|it| format!("{it} = excluded.{it}")).collect();
        let (sql, values) = insertion(&format!("INTO {table}"), row);
        let sql = format!("{sql} ON CONFLICT ({key}) DO UPDATE SET {}", set.join(", "));
        self.run(AssertSqlSafe(sql), values)
    }

    /// Runs a query; the rows are read later.
    fn rows(
        &mut self,
        sql: impl SqlSafeStr,
        values: impl Serialize,
    ) -> BoxFuture<'_, Result<Rows>> {
        let statement = self.statement(sql, values);
        Box::pin(statement.rows())
    }

    /// All rows of a query, each read into a `T`.
    fn all<'a, T: DeserializeOwned + 'a>(
        &'a mut self,
        sql: impl SqlSafeStr,
        values: impl Serialize,
    ) -> BoxFuture<'a, Result<Vec<T>>> {
        let statement = self.statement(sql, values);
        Box::pin(async move { statement.rows().await?.read() })
    }

    /// The first row of a query; `None`: no row.
    fn find<'a, T: DeserializeOwned + 'a>(
        &'a mut self,
        sql: impl SqlSafeStr,
        values: impl Serialize,
    ) -> BoxFuture<'a, Result<Option<T>>> {
        let statement = self.statement(sql, values);
        Box::pin(async move { statement.rows().await?.first() })
    }

    /// The first row of a query that always has one; fails without one.
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

/// A statement with its parameters, ready to run on its connection.
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

/// The statement that inserts a row, and the parameters of that statement.
fn insertion(into: &str, row: Value) -> (String, Vec<Value>) {
    let Value::Object(row) = row else { unreachable!("a row is an object of its columns") };
    let places: Vec<String> = (1..=row.len()).map(|number| format!("${number}")).collect();
    // Quoted, because one column is named `user`, which is a word of SQL.
    let (columns, values): (Vec<String>, Vec<Value>) =
        row.into_iter().map(|(column, value)| (format!("\"{column}\""), value)).unzip();
    let sql = format!("INSERT {into} ({}) VALUES ({})", columns.join(", "), places.join(", "));
    (sql, values)
}

/// The parameters of a tuple, one by one.
fn parameters(values: impl Serialize) -> Result<Vec<Value>> {
    match serde_json::to_value(values)? {
        Value::Null => Ok(Vec::new()),
        Value::Array(values) => Ok(values),
        // A single value without a tuple would run the statement with NULL for each parameter.
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

/// The current time in the form that tables store: milliseconds since 1970, by this host's clock.
pub fn now() -> i64 {
    Timestamp::now().millis()
}

/// The word of an enum without data, or the text of an id.
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
        // A number beyond the column's range stands for "without end": the greatest one is stored.
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
