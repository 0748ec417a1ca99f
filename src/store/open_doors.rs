//! Ways into the server without a password. An agent in a sandbox runs as the daemon's user, so if that user
//! needs no password at the server, the agent can read and change the board, and through it every host.

use std::path::Path;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use tokio::time::timeout;

/// How long a server may take to refuse a connection.
const LIMIT: Duration = Duration::from_secs(5);

/// Where the server lets the configured role in without a password; `None`: nowhere. This tries the
/// configured address and, if the server is on this machine, its sockets and `localhost`.
pub async fn find(
    connection: &mut PgConnection,
    configured: &PgConnectOptions,
) -> sqlx::Result<Option<String>> {
    let sql = "SELECT current_setting('unix_socket_directories'), current_setting('port')::int4";
    let (folders, port): (String, i32) = sqlx::query_as(sql).fetch_one(connection).await?;
    let port = u16::try_from(port).unwrap_or(configured.get_port());
    let sockets: Vec<&str> = folders
        .split(',')
        .map(|folder| folder.trim().trim_matches('"'))
        .filter(|folder| Path::new(folder).join(format!(".s.PGSQL.{port}")).exists())
        .collect();
    let own = configured.get_socket().map(|path| path.display().to_string());
    let own = own.unwrap_or_else(|| configured.get_host().to_owned());
    let mut places = vec![(own, configured.get_port())];
    if !sockets.is_empty() {
        places.extend(sockets.iter().map(|folder| ((*folder).to_owned(), port)));
        places.push(("localhost".to_owned(), port));
    }
    for (place, port) in places {
        if lets_in(configured, &place, port).await {
            return Ok(Some(format!("{place}:{port}")));
        }
    }
    Ok(None)
}

/// Whether the server accepts a connection that has no password.
async fn lets_in(configured: &PgConnectOptions, place: &str, port: u16) -> bool {
    let user = configured.get_username();
    // The names alone: an agent has neither the password nor a certificate.
    let bare = PgConnectOptions::new_without_pgpass()
        .host(place)
        .port(port)
        .username(user)
        .database(configured.get_database().unwrap_or(user))
        .password("")
        .ssl_mode(PgSslMode::Prefer)
        .disable_statement_logging();
    match timeout(LIMIT, bare.connect()).await {
        Ok(Ok(connection)) => {
            let _ = connection.close().await;
            true
        }
        _ => false,
    }
}
