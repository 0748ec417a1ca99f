//! Another program that holds the database.

use std::path::Path;
use std::time::Instant;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use tokio::runtime::{Builder, Runtime};

/// SQLite's write lock. Dropped, it is let go.
pub struct Locked {
    runtime: Runtime,
    connection: Option<SqliteConnection>,
    since: Instant,
}

impl Locked {
    pub fn new(database: &Path) -> Self {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let connection = runtime.block_on(async {
            let options = SqliteConnectOptions::new().filename(database);
            let mut connection = options.connect().await.unwrap();
            sqlx::query("BEGIN IMMEDIATE").execute(&mut connection).await.unwrap();
            connection
        });
        Self { runtime, connection: Some(connection), since: Instant::now() }
    }

    /// Milliseconds since it was taken.
    pub fn held_for_millis(&self) -> u128 {
        self.since.elapsed().as_millis()
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let _ = self.runtime.block_on(connection.close());
        }
    }
}
