//! A board on PostgreSQL: what a server must promise, its connections, and the lock that lets only one
//! daemon run for each host.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use provost_actors::ids;
use provost_actors::workspace::Places;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection as _, PgConnection, PgPool};
use tokio::time::{Instant, sleep, timeout};

use super::changes::Changes;
use super::connection::Pool;
use super::open::{LATEST_ID, OpenError};
use super::pg_transaction::{ANSWER_LIMIT, answered, prepare};
use super::read_cache::Kept;
use super::renewal::Renewals;
use super::schema::{self, MIGRATIONS};
use super::{Store, TimesToLive, open_doors};

/// The oldest supported server, in the form of `server_version_num`.
const OLDEST: i32 = 150_000;

/// How long the connection to a server may take, and how long a call waits for a free connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How long a daemon that starts waits for the lock of its host: after that time the session of a daemon
/// that was killed has usually ended.
const LOCK_LIMIT: Duration = Duration::from_secs(5);

/// The first number of the advisory lock of a host; the second is the hash of the schema and the host's
/// name. ("PROW")
const LOCK_CLASS: i32 = 0x5052_4f57;

/// Ends the other sessions of this home that hold the lock of the host. `application_name` identifies the
/// home, so sessions of other homes stay.
const END_FORMER: &str = "SELECT pg_terminate_backend(l.pid)
     FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
     WHERE l.locktype = 'advisory' AND l.granted AND l.pid <> pg_backend_pid()
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND CAST(l.classid AS bigint) = $1
       AND CAST(l.objid AS bigint)
           = (CAST(hashtext(current_schema() || ' ' || $2) AS bigint) & 4294967295)
       AND a.application_name LIKE 'provost %'
       AND a.application_name = current_setting('application_name')";

/// How long a connection counts as tested after its last use.
const TESTED_FOR: Duration = Duration::from_millis(100);
/// How long the test of a connection may take that was idle.
const TEST_LIMIT: Duration = Duration::from_secs(3);

/// What the configuration states about the durability of a server that does not show that its commits
/// survive it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: the server must show its durability, or is refused.
    Shown,
    /// The person who runs the server vouches for it: `managed`, or `single` for a server without a standby.
    Stated,
}

/// A server with a board, and how a daemon or a command may open it.
#[derive(Clone)]
pub struct Server {
    options: PgConnectOptions,
    durability: Durability,
    /// The migrations that this version knows.
    migrations: &'static Migrator,
    /// The id that the board must have; `None`: any.
    board: Option<String>,
    /// Whether an older board may be brought up to date.
    migrates: bool,
    /// Whether a board may be made where none exists.
    makes: bool,
}

impl Server {
    /// From `postgres://user:password@host:port/database?option=value`. `password` replaces the one in the
    /// URL. Fails with a text if the URL can't be read.
    pub fn new(url: &str, password: Option<&str>, durability: Durability) -> Result<Self, String> {
        let options = PgConnectOptions::from_str(url).map_err(|error| error.to_string())?;
        let options = match password {
            Some(password) => options.password(password),
            None => options,
        };
        let options = options.application_name("provost").statement_cache_capacity(1000);
        // Statements that fail are not logged: the error of the caller names them.
        Ok(Self {
            options: options.disable_statement_logging(),
            durability,
            migrations: &MIGRATIONS,
            board: None,
            migrates: true,
            makes: true,
        })
    }

    /// The same for a home that has this board already, or none yet. `mark` identifies the home's sessions on
    /// the server: a new daemon of the home ends an older session that holds the lock of the host. A home
    /// that is new to a board does not bring an older board up to date, because that stops the board's other
    /// daemons.
    #[must_use]
    pub fn of_home(self, mark: &str, board: Option<String>) -> Self {
        let options = self.options.application_name(&format!("provost {mark}"));
        let migrates = board.is_some();
        Self { options, board, migrates, ..self }
    }

    /// The same, without any change of its schema: an older schema is refused.
    #[must_use]
    pub fn as_it_is(self) -> Self {
        Self { migrates: false, makes: false, ..self }
    }

    /// The same for a daemon of another version.
    #[cfg(test)]
    #[must_use]
    pub fn of_version(self, migrations: &'static Migrator) -> Self {
        Self { migrations, ..self }
    }

    /// Where the board is, without the password: for messages.
    pub fn place(&self) -> String {
        let options = &self.options;
        let socket = options.get_socket().map(|path| path.display().to_string());
        let host = socket.unwrap_or_else(|| options.get_host().to_owned());
        let database = options.get_database().unwrap_or(options.get_username());
        format!("{} of {host}:{}, as {}", database, options.get_port(), options.get_username())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.place())
    }
}

impl Store {
    /// Opens or makes the board on a server, for the daemon of a host. Refuses while another home's daemon of
    /// this host is connected.
    pub async fn open_server(
        server: &Server,
        host: &str,
        times: TimesToLive,
    ) -> Result<Self, OpenError> {
        let unreachable = |error: sqlx::Error| OpenError::Unreachable {
            place: server.place(),
            error: Box::new(error),
        };
        let connecting = timeout(CONNECT_LIMIT, server.options.connect()).await;
        let connecting = connecting.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        let mut connection = connecting.map_err(unreachable)?;
        let version = suits(&mut connection, server).await?;
        if let Some(door) = open_doors::find(&mut connection, &server.options).await? {
            let user = server.options.get_username().to_owned();
            return Err(OpenError::NoPassword { place: server.place(), door, user });
        }
        if !lock(&mut connection, host).await? {
            return Err(OpenError::InUse { host: host.to_owned(), place: server.place() });
        }
        // Before a migration: a migration of another board would stop that board's daemons.
        let found = schema::board(&mut connection).await?;
        if server.board.is_some() && server.board != found {
            return Err(OpenError::OtherBoard);
        }
        if server.migrates || server.makes && found.is_none() {
            schema::migrate(&mut connection, server.migrations, &server.place()).await?;
        } else {
            schema::check(&mut connection, server.migrations, &server.place()).await?;
        }
        let latest: Option<String> =
            sqlx::query_scalar(LATEST_ID).fetch_one(&mut connection).await?;
        ids::go_on_after(&latest.unwrap_or_default());
        connection.close().await?;

        let writer = writer(server, host).await.map_err(unreachable)?;
        let reader = reader(server).await.map_err(unreachable)?;
        let renewals = Renewals::open(server.options.clone()).await.map_err(unreachable)?;
        Ok(Self {
            writer: Pool::Postgres(writer),
            reader: Pool::Postgres(reader),
            file: None,
            engine: format!("PostgreSQL {version}, {}", server.place()).into(),
            times,
            changes: Changes::default(),
            kept: Kept::of_many_writers(),
            host: host.into(),
            places: Places::default(),
            fence: Arc::default(),
            renewals: Some(Arc::new(renewals)),
            schema: schema::newest(server.migrations),
        })
    }
}

/// The one connection that writes. It holds the lock of the host; a connection that replaces it after a
/// failure takes that lock before anything else. The server ends a transaction of a daemon that hangs, so
/// that the other daemons can write.
async fn writer(server: &Server, host: &str) -> sqlx::Result<PgPool> {
    let host: Arc<str> = host.into();
    let pool = pool(1).after_connect(move |connection, _| {
        let host = Arc::clone(&host);
        Box::pin(async move {
            prepare(connection).await?;
            let sql = "SET idle_in_transaction_session_timeout = 15000";
            sqlx::raw_sql(sql).execute(&mut *connection).await?;
            if lock(connection, &host).await? {
                return Ok(());
            }
            let why = "another daemon has taken the host of this one";
            Err(sqlx::Error::Configuration(why.into()))
        })
    });
    pool.connect_with(server.options.clone()).await
}

/// The connections that read. They also run the transactions of `Order::Beside`, each of which asks for
/// writing when it begins.
async fn reader(server: &Server) -> sqlx::Result<PgPool> {
    let pool = pool(4).after_connect(|connection, _| {
        Box::pin(async move {
            prepare(connection).await?;
            let sql = "SET default_transaction_read_only = on;
                       SET idle_in_transaction_session_timeout = 15000";
            sqlx::raw_sql(sql).execute(connection).await.map(drop)
        })
    });
    pool.connect_with(server.options.clone()).await
}

/// A pool whose connections stay open. Each is tested after its use, and again before the next one if it was
/// idle in between.
fn pool(connections: u32) -> PgPoolOptions {
    PgPoolOptions::new()
        .min_connections(connections)
        .max_connections(connections)
        .idle_timeout(None)
        .max_lifetime(None)
        .acquire_timeout(CONNECT_LIMIT)
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                // This connection answered a moment ago.
                if meta.idle_for < TESTED_FOR {
                    return Ok(true);
                }
                answers(connection, TEST_LIMIT).await
            })
        })
        .after_release(|connection, _| Box::pin(answers(connection, ANSWER_LIMIT)))
}

/// Whether a server answers on a connection. A connection that was cut off gives an error, and the pool
/// closes it.
async fn answers(connection: &mut PgConnection, limit: Duration) -> sqlx::Result<bool> {
    let silent = |_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()));
    timeout(limit, connection.ping()).await.unwrap_or_else(silent).map(|()| true)
}

/// Takes the lock of a host for this session. Ends a former session of this home that holds the lock: the
/// server may not have noticed yet that its daemon is gone. `false`: a session of another home holds it.
async fn lock(connection: &mut PgConnection, host: &str) -> sqlx::Result<bool> {
    let sql = "SELECT pg_try_advisory_lock($1, hashtext(current_schema() || ' ' || $2))";
    let until = Instant::now() + LOCK_LIMIT;
    loop {
        let asked = sqlx::query_scalar(sql).bind(LOCK_CLASS).bind(host);
        if answered(asked.fetch_one(&mut *connection)).await? {
            return Ok(true);
        }
        let ending = sqlx::query(END_FORMER).bind(LOCK_CLASS).bind(host);
        answered(ending.execute(&mut *connection)).await?;
        if Instant::now() >= until {
            return Ok(false);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Refuses a server that can't hold a board. Returns its version.
async fn suits(connection: &mut PgConnection, server: &Server) -> Result<String, OpenError> {
    let sql =
        "SELECT current_setting('server_version_num')::int4, current_setting('server_version'),
                      current_setting('server_encoding'), current_schema() IS NOT NULL,
                      pg_is_in_recovery()";
    let (number, version, encoding, has_schema, is_standby): (i32, String, String, bool, bool) =
        sqlx::query_as(sql).fetch_one(&mut *connection).await?;
    let unfit = |why: String| OpenError::Unfit { place: server.place(), why };
    if number < OLDEST {
        return Err(unfit(format!("it is PostgreSQL {version}, and 15 is the oldest supported")));
    }
    if encoding != "UTF8" {
        return Err(unfit(format!("the encoding of its database is {encoding}, and must be UTF8")));
    }
    if !has_schema {
        return Err(unfit("no schema of its search_path exists".to_owned()));
    }
    if is_standby {
        return Err(unfit("it is a standby, which takes no writes".to_owned()));
    }
    let lacking = lacking(connection).await?;
    if !lacking.is_empty() {
        if server.durability == Durability::Shown {
            return Err(OpenError::NotDurable {
                place: server.place(),
                lacking: lacking.join(", "),
            });
        }
        tracing::info!(lacking = lacking.join(", "), "the engine's durability is as stated");
    }
    Ok(version)
}

/// The settings by which a server does not promise that its commits survive it; empty: it promises that.
async fn lacking(connection: &mut PgConnection) -> sqlx::Result<Vec<String>> {
    let sql = "SELECT current_setting('fsync'), current_setting('full_page_writes'),
                      current_setting('synchronous_commit'),
                      (SELECT count(*) FROM pg_stat_replication
                       WHERE sync_state IN ('sync', 'quorum'))";
    let (fsync, whole_pages, commit, standbys): (String, String, String, i64) =
        sqlx::query_as(sql).fetch_one(connection).await?;
    let mut lacking = Vec::new();
    for (name, value) in [("fsync", fsync), ("full_page_writes", whole_pages)] {
        if value != "on" {
            lacking.push(format!("{name} is {value}"));
        }
    }
    if !matches!(commit.as_str(), "on" | "remote_apply") {
        lacking.push(format!("synchronous_commit is {commit}"));
    }
    if standbys == 0 {
        lacking.push("no synchronous standby is attached".to_owned());
    }
    Ok(lacking)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_no_password() {
        let url = "postgres://ann:secret@db.example:6432/board?sslmode=verify-full";
        let server = Server::new(url, None, Durability::Shown).unwrap();
        assert_eq!(server.place(), "board of db.example:6432, as ann");
        let other = Server::new(url, Some("hidden"), Durability::Shown).unwrap();
        for shown in [format!("{server:?}"), format!("{other:?}"), other.place()] {
            assert!(!shown.contains("secret") && !shown.contains("hidden"), "{shown}");
        }
        let wrong = Server::new("postgres://ann:secret@db:port/x", None, Durability::Shown);
        assert!(!wrong.unwrap_err().contains("secret"));
    }
}
