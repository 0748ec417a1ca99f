//! Where the board of a home is: in its SQLite file, or on a server that the configuration names. A
//! home keeps to one of them, and says in a file of its own if that is a server.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use super::DaemonError;
use crate::config;
use crate::home::Home;
use crate::secret;
use crate::store::{Durability, HostKind, HostRoleMade, Server, Store, TimesToLive};

/// What takes the lock of a host for a visit; no host can have this name.
const VISITOR: &str = "a visitor";

/// Why the configured engine is not this home's, or no engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(
        "the board of this home is on a server ({place}), and [engine] url names none. Write it into \
         {}, or move {} away to begin with an empty board in a file",
        config.display(),
        note.display()
    )]
    OnServer { place: String, config: PathBuf, note: PathBuf },
    #[error(
        "the board of this home is in {}, and [engine] url names a server. Remove that setting, \
         take another PROVOST_HOME, or move the file away to begin with what is on the server",
        file.display()
    )]
    InFile { file: PathBuf },
    #[error(
        "[engine] url names another board than this home's ({place}): the agents, worktrees and logs \
         of this home belong to that one. Put the former url back, take another PROVOST_HOME, or move \
         {} away to begin on the other board",
        note.display()
    )]
    OtherBoard { place: String, note: PathBuf },
    #[error("[engine] url can't be used: {0}")]
    Url(String),
    #[error("[engine] password_file {}: {error}", path.display())]
    Password { path: PathBuf, error: io::Error },
}

/// Opens the board where it is configured to be, unless the home's is elsewhere.
pub async fn open(
    home: &Home,
    engine: &config::Engine,
    host: &str,
    times: TimesToLive,
) -> Result<Store, DaemonError> {
    if engine.url.is_empty() {
        if let Some(place) = home.engine() {
            let (config, note) = (home.config_file(), home.engine_file());
            return Err(EngineError::OnServer { place, config, note }.into());
        }
        return Ok(Store::open(&home.database(), times).await?);
    }
    let file = home.database();
    if fs::metadata(&file).is_ok_and(|found| found.len() > 0) {
        return Err(EngineError::InFile { file }.into());
    }
    let server = server(engine)?;
    let store = Store::open_server(&server, host, times).await?;
    let board = store.board_id().await.map_err(|it| DaemonError::Host(it.message, it.hint))?;
    if let (Some(place), Some(known)) = (home.engine(), home.board())
        && known != board
    {
        return Err(EngineError::OtherBoard { place, note: home.engine_file() }.into());
    }
    note(home, &server.place(), &board)?;
    Ok(store)
}

/// Opens the board of a server for a while, as the daemon of no host.
pub async fn visit(engine: &config::Engine) -> Result<Store, DaemonError> {
    if engine.url.is_empty() {
        return Err(EngineError::Url("it names no server".to_owned()).into());
    }
    Ok(Store::open_server(&server(engine)?, VISITOR, TimesToLive::default()).await?)
}

/// Makes the role of a host at the server, or changes it. A new role gets a password that is made here,
/// if it needs one: then it is returned.
pub async fn make_role(
    engine: &config::Engine,
    host: &str,
    kind: HostKind,
    password: Option<&str>,
    needs_one: bool,
) -> Result<(HostRoleMade, Option<String>), DaemonError> {
    let new = if needs_one { Some(secret::make()?) } else { None };
    let store = visit(engine).await?;
    let made = store.make_host_role(host, kind, password, new.as_deref()).await;
    store.close().await;
    let made = made.map_err(|it| DaemonError::Host(it.message, it.hint))?;
    let new = new.filter(|_| made.is_new);
    Ok((made, new))
}

/// Drops the role of a host: its name, and why it is still there, if it is.
pub async fn drop_role(
    engine: &config::Engine,
    host: &str,
) -> Result<(String, Option<String>), DaemonError> {
    let store = visit(engine).await?;
    let dropped = store.drop_host_role(host).await;
    store.close().await;
    dropped.map_err(|it| DaemonError::Host(it.message, it.hint))
}

fn server(engine: &config::Engine) -> Result<Server, EngineError> {
    let password = match engine.password_file.as_str() {
        "" => None,
        path => {
            let read = fs::read_to_string(path);
            let failed = |error| EngineError::Password { path: path.into(), error };
            Some(read.map_err(failed)?.trim_end_matches(['\r', '\n']).to_owned())
        }
    };
    let durability = match engine.durability.as_str() {
        "synchronous" => Durability::Shown,
        _ => Durability::Stated,
    };
    Server::new(&engine.url, password.as_deref(), durability).map_err(EngineError::Url)
}

/// Writes down where the board is, for those who look without a daemon.
fn note(home: &Home, place: &str, board: &str) -> io::Result<()> {
    if (home.engine().as_deref(), home.board().as_deref()) == (Some(place), Some(board)) {
        return Ok(());
    }
    let path = home.engine_file();
    let new = path.with_extension("engine.new");
    let mut file =
        File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    writeln!(file, "{place}\n{board}")?;
    file.sync_all()?;
    fs::rename(&new, &path)
}
