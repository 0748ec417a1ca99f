//! Stores of tests: in a folder's SQLite file, or with `PROVOST_TEST_ENGINE=postgres` in a schema of
//! their own on the server that `PROVOST_TEST_POSTGRES` names.

use std::path::Path;

use provost_actors::host::LOCAL;
use provost_actors::journal::payload_hash;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::{Durability, OpenError, RetryBudget, Server, Sql, Store, TimesToLive};

/// Whether the tests' stores are SQLite files.
pub fn is_sqlite() -> bool {
    std::env::var("PROVOST_TEST_ENGINE").as_deref() != Ok("postgres")
}

/// The server for tests; `None`, after a line that says so: there is none.
pub fn server_url() -> Option<String> {
    let url = std::env::var("PROVOST_TEST_POSTGRES").ok();
    if url.is_none() {
        assert!(std::env::var_os("PROVOST_TEST_ALL").is_none(), "PROVOST_TEST_POSTGRES is not set");
        eprintln!("left out: it needs PostgreSQL, which `.ci/postgres COMMAND` gives it");
    }
    url
}

/// A schema of its own for a name, which is made.
pub async fn server(url: &str, name: &str) -> Server {
    let schema = format!("t{}", &payload_hash(&name)[..24]);
    let mut connection = PgConnection::connect(url).await.unwrap();
    let sql = AssertSqlSafe(format!("CREATE SCHEMA IF NOT EXISTS {schema}"));
    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let joint = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{joint}options=-csearch_path%3D{schema}");
    Server::new(&url, None, Durability::Stated).unwrap()
}

/// The store of a folder.
pub async fn try_open(folder: &Path, times: TimesToLive) -> Result<Store, OpenError> {
    if is_sqlite() {
        return Store::open(&folder.join("provost.db"), times).await;
    }
    let url = std::env::var("PROVOST_TEST_POSTGRES").expect("PROVOST_TEST_POSTGRES names a server");
    Store::open_server(&server(&url, &folder.to_string_lossy()).await, LOCAL, times).await
}

pub async fn open(folder: &Path) -> Store {
    try_open(folder, TimesToLive::default()).await.unwrap()
}

impl Store {
    /// Changes rows directly.
    pub async fn change(&self, sql: &str, values: impl serde::Serialize) -> u64 {
        let sql = AssertSqlSafe(sql.to_owned());
        let change = self.write(RetryBudget::Short, "test", async |db| db.run(sql, values).await);
        change.await.unwrap()
    }
}
