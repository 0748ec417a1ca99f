//! Where the board of a home is: in its SQLite file, or on a server that the configuration names. A home
//! stays with one of the two. If the board is on a server, a file of the home (`provost.engine`) says so,
//! so that a removed setting does not silently begin an empty board.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use super::{DaemonError, orphans};
use crate::config;
use crate::home::Home;
use crate::secret;
use crate::store::{Durability, OpenError, Server, Store, TimesToLive};

/// The host name under which a visit opens the board. No host can have this name, because it contains a
/// space.
const VISITOR: &str = "a visitor";

/// Why the configured engine can't be used for this home.
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

/// Opens the board where the configuration says, unless this home's board is somewhere else, or the board
/// lacks attempts of this home (`orphans`).
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
        if !is_in_file(home) {
            orphans::refuse(home, None).await?;
        }
        let store = Store::open(&home.database(), times).await?;
        orphans::refuse(home, Some(&store)).await?;
        return Ok(store);
    }
    if is_in_file(home) {
        return Err(EngineError::InFile { file: home.database() }.into());
    }
    let server = server(engine)?.of_home(&mark(home)?, home.board());
    let store = match Store::open_server(&server, host, times).await {
        Err(OpenError::OtherBoard) => {
            let (place, note) = (home.engine().unwrap_or_default(), home.engine_file());
            return Err(EngineError::OtherBoard { place, note }.into());
        }
        opened => opened?,
    };
    let board = store.board_id().await.map_err(|it| DaemonError::Host(it.message, it.hint))?;
    orphans::refuse(home, Some(&store)).await?;
    note(home, &server.place(), &board)?;
    Ok(store)
}

/// True if the home has a database file with content.
fn is_in_file(home: &Home) -> bool {
    fs::metadata(home.database()).is_ok_and(|found| found.len() > 0)
}

/// What identifies the connections of this home at the server until the machine restarts. It differs for
/// a copy of the home at another path. It is no secret and no proof.
fn mark(home: &Home) -> io::Result<String> {
    let kept = secret::kept_or_made(&home.host_secret(), &home.scratch())?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let mark = secret::hash(&format!("{kept} {boot} {}", home.host_secret().display()));
    Ok(mark.chars().take(16).collect())
}

/// Opens the board of a server for a short time, without being the daemon of a host. Only with `migrates`
/// is its schema changed.
pub async fn visit(engine: &config::Engine, migrates: bool) -> Result<Store, DaemonError> {
    if engine.url.is_empty() {
        return Err(EngineError::Url("it names no server".to_owned()).into());
    }
    let server = server(engine)?;
    let server = if migrates { server } else { server.as_it_is() };
    Ok(Store::open_server(&server, VISITOR, TimesToLive::default()).await?)
}

/// The server by its configuration, with the password read from its file.
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

/// Records where the board is, for commands that look without a daemon. A rename makes the change all or
/// nothing.
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
