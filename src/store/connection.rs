//! The connection of a read or of a transaction, over either engine. Only this file, [`super::sql`] and
//! [`super::row`] distinguish the engines' drivers; all other files see statements only.

use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, PgPool, Postgres, Sqlite, SqliteConnection, SqlitePool, Transaction};

use super::dialect::{Dialect, POSTGRES, SQLITE};
use super::pg_transaction::{self, Begun, Order, Writer};

/// A connection from a pool, or a transaction on one.
pub enum Connection {
    Sqlite(PoolConnection<Sqlite>),
    SqliteTransaction(Transaction<'static, Sqlite>),
    Postgres(PoolConnection<Postgres>),
    PostgresTransaction(Transaction<'static, Postgres>),
    /// A connection outside all pools, in a transaction that its owner ends: a renewal of the lease.
    Single(Box<PgConnection>),
}

/// The connection as its driver knows it; what [`super::sql`] runs statements on.
pub enum Driver<'c> {
    Sqlite(&'c mut SqliteConnection),
    Postgres(&'c mut PgConnection),
}

impl Connection {
    /// The connection below the transaction, if there is one.
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

    /// The statements that only this engine has.
    pub fn dialect(&self) -> &'static Dialect {
        match self {
            Self::Sqlite(_) | Self::SqliteTransaction(_) => &SQLITE,
            Self::Postgres(_) | Self::PostgresTransaction(_) | Self::Single(_) => &POSTGRES,
        }
    }
}

/// The connections of one engine: one that writes, or several that read.
#[derive(Clone, Debug)]
pub enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

impl Pool {
    /// The statements that only this engine has.
    pub fn dialect(&self) -> &'static Dialect {
        match self {
            Self::Sqlite(_) => &SQLITE,
            Self::Postgres(_) => &POSTGRES,
        }
    }

    /// Waits for a free connection. The futures of PostgreSQL are boxed, so that those of SQLite stay small.
    pub async fn acquire(&self) -> sqlx::Result<Connection> {
        Ok(match self {
            Self::Sqlite(pool) => Connection::Sqlite(pool.acquire().await?),
            Self::Postgres(pool) => Connection::Postgres(Box::pin(pool.acquire()).await?),
        })
    }

    /// Begins a transaction that writes. The answer says whether the writer may still write; on SQLite it
    /// always may.
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

    /// Commits a transaction that this pool has begun. With `host`, the daemons of the other hosts are told
    /// that this host has written something.
    pub async fn commit(&self, writing: Connection, host: Option<&str>) -> sqlx::Result<()> {
        match (writing, self) {
            (Connection::SqliteTransaction(transaction), _) => transaction.commit().await,
            (Connection::PostgresTransaction(transaction), Self::Postgres(pool)) => {
                Box::pin(pg_transaction::commit(transaction, pool, host)).await
            }
            // A pool of SQLite begins no transaction of PostgreSQL; the compiler asks for the case.
            (Connection::PostgresTransaction(transaction), Self::Sqlite(_)) => {
                transaction.commit().await
            }
            (Connection::Sqlite(_) | Connection::Postgres(_) | Connection::Single(_), _) => Ok(()),
        }
    }

    /// Closes all connections, and waits until they are closed.
    pub async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
        }
    }
}
