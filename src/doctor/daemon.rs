//! The daemon's lock and socket. Asks a daemon that runs; starts none.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use provost_actors::process::proc::{self, Stat};
use serde_json::{Value, json};

use super::check::{Check, Cure};
use crate::client::{Client, Connection, Hello, Peer};
use crate::home::Home;

/// A daemon that takes longer to answer hangs.
const DEADLINE: Duration = Duration::from_secs(5);

/// What was found of a daemon.
#[derive(Debug)]
pub struct DaemonState {
    lock: Lock,
    socket: Socket,
}

impl DaemonState {
    /// Whether a daemon holds the home.
    pub fn is_held(&self) -> bool {
        matches!(self.lock, Lock::Held(_))
    }

    /// The `PATH` of the daemon that runs.
    pub fn path(&self) -> Option<&str> {
        let Socket::Answers(info) = &self.socket else { return None };
        info["path"].as_str()
    }
}

#[derive(Debug)]
enum Lock {
    Missing,
    Free,
    Held(Option<i32>),
    Unreadable(io::Error),
}

#[derive(Debug)]
enum Socket {
    Missing,
    /// No process listens.
    Stale,
    /// A daemon answers, with this information about itself.
    Answers(Value),
    Silent(String),
}

pub async fn find(home: &Home) -> DaemonState {
    DaemonState { lock: lock(home.lock()), socket: socket(home).await }
}

/// The state of the home's lock, which is tried and released at once.
fn lock(path: &Path) -> Lock {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Lock::Missing,
        Err(error) => return Lock::Unreadable(error),
    };
    // Shared, so that two doctors don't mistake each other for a daemon.
    match file.try_lock_shared() {
        Ok(()) => Lock::Free,
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(path).unwrap_or_default();
            Lock::Held(pid.trim().parse().ok())
        }
        Err(TryLockError::Error(error)) => Lock::Unreadable(error),
    }
}

async fn socket(home: &Home) -> Socket {
    if fs::symlink_metadata(home.socket()).is_err() {
        return Socket::Missing;
    }
    if is_stale(home.socket()) {
        return Socket::Stale;
    }
    let asked = async {
        let hello = Hello::of_process(Peer::Cli, None);
        let mut client = Client::new(Connection::open(home.socket(), &hello).await?);
        client.method("provost/info", json!({})).await
    };
    match tokio::time::timeout(DEADLINE, asked).await {
        Ok(Ok(info)) => Socket::Answers(info),
        Ok(Err(error)) => Socket::Silent(error.to_string()),
        Err(_) => Socket::Silent(format!("no answer within {} s", DEADLINE.as_secs())),
    }
}

/// Whether no process listens on a socket.
pub fn is_stale(socket: &Path) -> bool {
    let connected = std::os::unix::net::UnixStream::connect(socket);
    connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

pub fn checks(home: &Home, found: &DaemonState) -> Vec<Check> {
    vec![about_lock(home, &found.lock), about_socket(home, found)]
}

fn about_lock(home: &Home, lock: &Lock) -> Check {
    let path = home.lock().display();
    match lock {
        Lock::Missing => Check::ok("lock", "no daemon has run on this home yet"),
        Lock::Free => Check::ok("lock", "no daemon holds it"),
        Lock::Unreadable(error) => {
            Check::fail("lock", format!("{path}: {error}")).hint("See who owns it.")
        }
        Lock::Held(Some(pid)) if is_alive(*pid) => {
            let stopped = Stat::of(*pid).is_some_and(|stat| stat.state == b'T');
            if stopped {
                return Check::fail("lock", format!("its holder, process {pid}, is stopped"))
                    .hint(format!("Run `kill -CONT {pid}`."));
            }
            Check::ok("lock", format!("process {pid} ({}) holds it", proc::command_name(*pid)))
        }
        Lock::Held(pid) => {
            let pid = pid.map_or("?".to_owned(), |pid| pid.to_string());
            Check::warn("lock", format!("it is held, but process {pid}, which it names, is dead"))
                .hint(format!("`fuser {path}` shows which process holds it."))
        }
    }
}

fn is_alive(pid: i32) -> bool {
    Stat::of(pid).is_some_and(|stat| !stat.is_dead())
}

fn about_socket(home: &Home, found: &DaemonState) -> Check {
    let is_held = found.is_held();
    let path = home.socket().display();
    match &found.socket {
        Socket::Answers(info) => {
            let version = info["version"].as_str().unwrap_or("?");
            let facts = format!(
                "version {version}, pid {}, {} running, {} queued",
                info["pid"], info["running"], info["queued"]
            );
            if version == env!("CARGO_PKG_VERSION") {
                return Check::ok("daemon", facts);
            }
            let message = format!("{facts}; this is version {}", env!("CARGO_PKG_VERSION"));
            Check::warn("daemon", message).hint(
                "Run `provost shutdown`; agents keep running, and the next command starts this version.",
            )
        }
        Socket::Silent(why) => Check::fail("daemon", format!("it does not answer: {why}"))
            .hint("See its log; killing it does not harm its attempts."),
        Socket::Stale if !is_held => {
            Check::warn("daemon", format!("none runs; a killed one left {path} behind"))
                .cure(Cure::RemoveSocket)
        }
        Socket::Missing if !is_held => {
            Check::ok("daemon", "none runs; the next command that needs one starts it")
        }
        Socket::Stale | Socket::Missing => Check::warn(
            "daemon",
            "the lock is held but no process listens: the daemon is starting or ending",
        )
        .hint("Run `provost doctor` again; if it stays so, see the daemon's log."),
    }
}
