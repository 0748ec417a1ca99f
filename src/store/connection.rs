//! The connection of a read or of a transaction, over either engine. What is asked of it is dispatched
//! here and in [`super::sql`] alone: all other files know statements only.

use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, PgPool, Postgres, Sqlite, SqliteConnection, SqlitePool, Transaction};

use super::dialect::{Dialect, POSTGRES, SQLITE};
use super::pg_transaction::{self, Begun, Order, Writer};

/// A connection that was taken from a pool, or a transaction on one.
pub enum Connection {
    Sqlite(PoolConnection<Sqlite>),
    SqliteTransaction(Transaction<'static, Sqlite>),
    Postgres(PoolConnection<Postgres>),
    PostgresTransaction(Transaction<'static, Postgres>),
    /// One that is in no pool, in a transaction that its owner ends.
    Single(Box<PgConnection>),
}

/// The connection itself, as its driver knows it.
pub enum Driver<'c> {
    Sqlite(&'c mut SqliteConnection),
    Postgres(&'c mut PgConnection),
}

impl Connection {
    #[inline]
    pub fn driver(&mut self) -> Driver<'_> {
        match self {
            Self::Sqlite(connection) => Driver::Sqlite(connection),
            Self::SqliteTransaction(transaction) => Driver::Sqlite(transaction),
            Self::Postgres(connection) => Driver::Postgres(connection),
            Self::PostgresTransaction(transaction) => Driver::Postgres(transaction),
            Self::Single(connection) => Driver::Postgres(connection),
        }
    }

    /// What the engine's statements have of their own.
    pub fn dialect(&self) -> &'static Dialect {
        match self {
            Self::Sqlite(_) | Self::SqliteTransaction(_) => &SQLITE,
            Self::Postgres(_) | Self::PostgresTransaction(_) | Self::Single(_) => &POSTGRES,
        }
    }
}

/// The connections of one engine.
#[derive(Clone, Debug)]
pub enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

impl Pool {
    pub fn dialect(&self) -> &'static Dialect {
        match self {
            Self::Sqlite(_) => &SQLITE,
            Self::Postgres(_) => &POSTGRES,
        }
    }

    /// The futures of PostgreSQL are boxed, so that those of SQLite stay as small as they are.
    pub async fn acquire(&self) -> sqlx::Result<Connection> {
        Ok(match self {
            Self::Sqlite(pool) => Connection::Sqlite(pool.acquire().await?),
            Self::Postgres(pool) => Connection::Postgres(Box::pin(pool.acquire()).await?),
        })
    }

    /// Begins a transaction that writes, if the writer still may.
    pub async fn begin_write(
        &self,
        order: Order,
        writer: &Writer<'_>,
    ) -> sqlx::Result<Begun<Connection>> {
        match self {
            Self::Sqlite(_) => self.begin(self.dialect().begin_write).await.map(Begun::Writing),
            Self::Postgres(pool) => {
                let begun = Box::pin(pg_transaction::begin_write(pool, order, writer)).await?;
                Ok(begun.map(Connection::PostgresTransaction))
            }
        }
    }

    /// Begins a transaction that reads, and whose statements all see the same commits.
    pub async fn begin_snapshot(&self) -> sqlx::Result<Connection> {
        self.begin(self.dialect().begin_snapshot).await
    }

    async fn begin(&self, how: &'static str) -> sqlx::Result<Connection> {
        Ok(match self {
            Self::Sqlite(pool) => Connection::SqliteTransaction(pool.begin_with(how).await?),
            Self::Postgres(pool) => {
                Connection::PostgresTransaction(Box::pin(pool.begin_with(how)).await?)
            }
        })
    }

    /// Commits a transaction that this pool has begun to write. With a host, the daemons of the others
    /// get a hint that it has written.
    pub async fn commit(&self, writing: Connection, host: Option<&str>) -> sqlx::Result<()> {
        match (writing, self) {
            (Connection::SqliteTransaction(transaction), _) => transaction.commit().await,
            (Connection::PostgresTransaction(transaction), Self::Postgres(pool)) => {
                Box::pin(pg_transaction::commit(transaction, pool, host)).await
            }
            // These have nothing to be committed.
            (Connection::PostgresTransaction(transaction), Self::Sqlite(_)) => {
                transaction.commit().await
            }
            (Connection::Sqlite(_) | Connection::Postgres(_) | Connection::Single(_), _) => Ok(()),
        }
    }

    pub async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
        }
    }
}
