//! The checks of the daemon's lock and socket. They ask a running daemon, and start none.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use provost_actors::process::proc::{self, Stat};
use serde_json::json;

use super::check::Check;
use crate::api::commands::Info;
use crate::client::{CallOutput, Connection, Hello, Peer};
use crate::home::Home;

const LOCK: &str = "lock";
const DAEMON: &str = "daemon";

/// A daemon that takes longer than this to answer counts as hung.
const DEADLINE: Duration = Duration::from_secs(5);

impl CallOutput for Info {
    const CALL: &'static str = "provost/info";
}

/// Whether a daemon holds the home; the `PATH` of a daemon that answers; and the findings about both.
pub async fn find(home: &Home) -> (bool, Option<String>, [Check; 2]) {
    let (is_held, lock) = of_lock(&home.lock);
    let (path, socket) = of_socket(home, is_held).await;
    (is_held, path, [lock, socket])
}

/// Whether the home's lock is held. To find out, the lock is taken for a moment.
fn of_lock(path: &Path) -> (bool, Check) {
    let failed = |error: io::Error| {
        (false, Check::fail(LOCK, format!("{}: {error}", path.display()), "See who owns it."))
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return (false, Check::ok(LOCK, "no daemon has run on this home yet"));
        }
        Err(error) => return failed(error),
    };
    // A shared lock, so that two doctors at the same time don't mistake each other for a daemon.
    match file.try_lock_shared() {
        Ok(()) => (false, Check::ok(LOCK, "no daemon holds it")),
        Err(TryLockError::WouldBlock) => (true, of_holder(path)),
        Err(TryLockError::Error(error)) => failed(error),
    }
}

/// Examines the process that the lock file names: it may be suspended, or dead while another process
/// holds the lock.
fn of_holder(path: &Path) -> Check {
    let pid = fs::read_to_string(path).unwrap_or_default();
    let pid = Some(pid.trim()).filter(|pid| !pid.is_empty()).unwrap_or("?");
    match pid.parse().ok().and_then(|pid| Some((pid, Stat::of(pid)?))) {
        Some((_, stat)) if stat.state == b'T' => {
            let message = format!("its holder, process {pid}, is stopped");
            Check::fail(LOCK, message, &format!("Run `kill -CONT {pid}`."))
        }
        Some((number, stat)) if !stat.is_dead() => {
            Check::ok(LOCK, format!("process {pid} ({}) holds it", proc::command_name(number)))
        }
        _ => {
            let message = format!("it is held, but process {pid}, which it names, is dead");
            let hint = format!("`fuser {}` shows which process holds it.", path.display());
            Check::warn(LOCK, message, &hint)
        }
    }
}

/// Asks the daemon for its facts; returns its `PATH` if it answers.
async fn of_socket(home: &Home, is_held: bool) -> (Option<String>, Check) {
    let exists = fs::symlink_metadata(&home.socket).is_ok();
    if !exists || is_stale(&home.socket) {
        return (None, without_listener(home, exists, is_held));
    }
    let info = async {
        let hello = Hello::of_process(Peer::Cli, None);
        Connection::open(&home.socket, &hello).await?.call::<Info>(json!({})).await
    };
    let Info { version, pid, running, queued, path, page, no_page, engine, .. } =
        match tokio::time::timeout(DEADLINE, info).await {
            Ok(Ok(info)) => info.output,
            silent => {
                let why = match silent {
                    Ok(Err(error)) => error.to_string(),
                    _ => format!("no answer within {} s", DEADLINE.as_secs()),
                };
                let hint = "See its log; killing it does not harm its attempts.";
                return (None, Check::fail(DAEMON, format!("it does not answer: {why}"), hint));
            }
        };
    let own = env!("CARGO_PKG_VERSION");
    let page = page.map_or_else(
        || format!("no page ({})", no_page.unwrap_or_default()),
        |url| format!("page at {url}"),
    );
    let engine = engine.map_or_else(String::new, |engine| format!(", board on {engine}"));
    let facts =
        format!("version {version}, pid {pid}, {running} running, {queued} queued, {page}{engine}");
    if version == own {
        return (path, Check::ok(DAEMON, facts));
    }
    let hint = "Run `provost shutdown`; agents keep running, and the next command starts this \
                version.";
    (path, Check::warn(DAEMON, format!("{facts}; this is version {own}"), hint))
}

/// The finding if nothing listens on the socket. A socket that a killed daemon left can be removed.
fn without_listener(home: &Home, exists: bool, is_held: bool) -> Check {
    if is_held {
        let message = "the lock is held but no process listens: the daemon is starting or ending";
        let hint = "Run `provost doctor` again; if this persists, see the daemon's log.";
        Check::warn(DAEMON, message, hint)
    } else if exists {
        let path = home.socket.display();
        Check::warn(DAEMON, format!("none runs; a killed one left {path} behind"), "").cure(
            |home| {
                // The fix runs with the home's lock, so no daemon listens; the socket of any other
                // listener is kept.
                if !is_stale(&home.socket) {
                    return Err(io::Error::other("a process listens on it"));
                }
                fs::remove_file(&home.socket).map(|()| "removed".to_owned())
            },
        )
    } else {
        Check::ok(DAEMON, "none runs; the next command that needs one starts it")
    }
}

/// True if the socket exists and no process listens on it.
fn is_stale(socket: &Path) -> bool {
    let connected = std::os::unix::net::UnixStream::connect(socket);
    connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
