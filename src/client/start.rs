//! Connects to the daemon of a home, and starts one in the background if none listens.
//!
//! ```text
//!  connect ──ok──▶ done
//!     │ fails
//!     ▼
//!  start a daemon (not inside an attempt) ──▶ connect again and again ──ok──▶ done
//!                                              │ the new daemon has ended, and not because
//!                                              │ another one holds the lock; or the time is up
//!                                              ▼
//!                                             Unreachable, with the new daemon's log
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout_at};

use super::{ClientError, Connection, Hello};
use crate::home::{ATTEMPT_VARIABLES, HOME_VARIABLE, Home, surrounding_attempt};

/// How long a new daemon may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How long a process inside an attempt waits for a daemon to come back.
const WAIT_INSIDE_ATTEMPT: Duration = Duration::from_secs(10);

/// The exit code of a daemon that finds the lock of the home held. Then another daemon is starting or
/// running, and a later try may reach it.
const LOCK_HELD: i32 = 3;

/// The most bytes of a failed daemon's log that a message shows: the last ones.
const SHOWN_BYTES: u64 = 4096;

/// How to reach, and if needed to start, the daemon of a home.
#[derive(Clone, Debug)]
pub struct Starter {
    pub home: Home,
    program: PathBuf,
    /// `false`: only wait for a daemon.
    starts: bool,
    limit: Duration,
}

impl Starter {
    /// A starter that runs this same program as the daemon. Inside an attempt it starts nothing and waits
    /// for a shorter time: a daemon that is started there would be part of the attempt and end with it.
    pub fn new(home: Home) -> Self {
        let starts = surrounding_attempt().is_none();
        let limit = if starts { START_LIMIT } else { WAIT_INSIDE_ATTEMPT };
        Self { home, program: PathBuf::from("/proc/self/exe"), starts, limit }
    }

    #[cfg(test)]
    pub fn with(home: Home, program: PathBuf, starts: bool, limit: Duration) -> Self {
        Self { home, program, starts, limit }
    }

    /// Starts the daemon. Its stderr goes to the log, from the returned offset on. It continues when the
    /// child is dropped, and gets none of the variables that name an attempt.
    fn spawn(&self) -> io::Result<(Child, u64)> {
        let mut log =
            OpenOptions::new().append(true).create(true).mode(0o600).open(&self.home.log_file)?;
        let begin = log.seek(SeekFrom::End(0))?;
        #[expect(clippy::disallowed_methods, reason = "the daemon is no attempt's process")]
        let mut command = Command::new(&self.program);
        command
            .arg0("provost")
            .args(["daemon", "--background"])
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        for name in ATTEMPT_VARIABLES {
            command.env_remove(name);
        }
        if let Some(root) = &self.home.root {
            command.env(HOME_VARIABLE, root);
        }
        Ok((command.spawn()?, begin))
    }

    /// The daemon's log from this offset on, [`SHOWN_BYTES`] at most: the last ones.
    fn log_since(&self, begin: u64) -> io::Result<String> {
        let mut log = File::open(&self.home.log_file)?;
        let end = log.metadata()?.len();
        log.seek(SeekFrom::Start(begin.max(end.saturating_sub(SHOWN_BYTES))))?;
        let mut bytes = Vec::new();
        log.take(SHOWN_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }
}

/// Connects to the daemon of the home, and starts one when the first try fails. Tries again until the
/// starter's limit. Each failure is [`ClientError::Unreachable`].
pub async fn connect_or_start(starter: &Starter, hello: &Hello) -> Result<Connection, ClientError> {
    let deadline = Instant::now() + starter.limit;
    let mut last = match Connection::open(&starter.home.socket, hello).await {
        Ok(connection) => return Ok(connection),
        Err(error) => error,
    };
    let cannot = |error| ClientError::Unreachable(format!("the daemon can't be started: {error}"));
    let mut started = starter.starts.then(|| starter.spawn().map_err(cannot)).transpose()?;
    let begun = Instant::now();
    while Instant::now() < deadline {
        let ended = started.as_mut().and_then(|(child, _)| child.try_wait().ok().flatten());
        let attempt = Connection::open(&starter.home.socket, hello);
        match timeout_at(deadline, attempt).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => last = error,
            Err(_) => break,
        }
        // The child was seen dead before this try to connect, so the try did not come too early.
        if let Some(status) = ended.filter(|status| status.code() != Some(LOCK_HELD)) {
            last = ClientError::Unreachable(format!("the new daemon ended ({status})"));
            break;
        }
        // Short pauses at first, so that the connection comes soon after the daemon listens.
        let pause = begun.elapsed() / 20;
        sleep(pause.clamp(Duration::from_millis(1), Duration::from_millis(200))).await;
    }
    let what = match last {
        ClientError::Unreachable(why) => why,
        other => other.to_string(),
    };
    // If a daemon was started, its log says why it failed.
    let log = started.and_then(|(_, begin)| starter.log_since(begin).ok()).unwrap_or_default();
    Err(ClientError::Unreachable(if log.is_empty() { what } else { format!("{what}:\n{log}") }))
}
