//! Renewals of the lease, on a connection that is used for nothing else. Each try has one limit for all of
//! its steps, so that no try takes longer than the lease allows: a connection that does not answer is closed,
//! and the next try opens another.

use std::fmt;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgConnection};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::error::locked;
use super::pg_transaction::{self, Order};
use super::{Connection, Db, Refusal, Result, RetryBudget, Store, StoreError, fault};
use provost_actors::failpoint;

/// The least limit of a try: a new connection needs this much, however short the lease is.
const LIMIT_MIN: Duration = Duration::from_secs(1);

/// The connection of renewals, taken out while a renewal is running.
pub struct Renewals {
    options: PgConnectOptions,
    idle: Mutex<Option<PgConnection>>,
}

impl fmt::Debug for Renewals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Renewals")
    }
}

impl Renewals {
    /// Opens the connection now, so that the first renewal does not wait for it.
    pub async fn open(options: PgConnectOptions) -> sqlx::Result<Self> {
        let renewals = Self { options, idle: Mutex::default() };
        let connection = renewals.connect().await?;
        Ok(Self { idle: Mutex::new(Some(connection)), ..renewals })
    }

    async fn connect(&self) -> sqlx::Result<PgConnection> {
        let mut connection = self.options.connect().await?;
        pg_transaction::prepare(&mut connection).await?;
        Ok(connection)
    }

    /// Drops the connection, which ends its session on the server.
    pub async fn close(&self) {
        self.idle.lock().await.take();
    }
}

impl Store {
    /// Does `work` in a transaction beside all others, on the connection of renewals. A board in a file has
    /// none: then this is a `write`.
    ///
    /// # Errors
    /// The commit was not confirmed within the limit. It may still have happened.
    pub(super) async fn renewing<T>(
        &self,
        limit: Duration,
        work: impl AsyncFnOnce(Db<'_>) -> Result<T>,
    ) -> Result<T, Refusal> {
        // A new connection takes a moment, however short the lease is.
        let limit = limit.max(LIMIT_MIN);
        let Some(renewals) = &self.renewals else {
            return self.write(RetryBudget::OneTry, "renewal", work).await;
        };
        let trying = async {
            let mut idle = renewals.idle.lock().await;
            // The connection goes back only after a commit; any other way out drops and closes it.
            let mut connection = match idle.take() {
                Some(connection) => connection,
                None => renewals.connect().await.map_err(fault)?,
            };
            let writer = self.as_writer();
            let begun = pg_transaction::begin_on(&mut connection, Order::Beside, &writer).await;
            self.begun(begun.map_err(fault)?)?;
            let mut db = Connection::Single(Box::new(connection));
            let done = work(&mut db).await?;
            failpoint::hit("renewal", "written");
            let Connection::Single(mut connection) = db else { return Ok(done) };
            pg_transaction::commit_on(&mut connection).await.map_err(StoreError::from)?;
            failpoint::hit("renewal", "committed");
            *idle = Some(*connection);
            Ok(done)
        };
        let late = || locked("the server has not answered a renewal of the lease in time");
        timeout(limit, trying).await.unwrap_or_else(|_| Err(late()))
    }
}
