//! Connects to the daemon of a home. When none listens it starts one in the background (inside
//! an attempt it only waits), and tries to connect until the deadline, or until the new daemon
//! has ended for another reason than a held lock: then its log is reported.

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

/// How long to wait until a new daemon listens.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How long a process inside an attempt waits for a daemon to come back.
const WAIT_INSIDE_ATTEMPT: Duration = Duration::from_secs(10);

/// The exit code of a daemon that found the lock held.
const LOCK_HELD: i32 = 3;

/// The most of a failed daemon's log that is shown, in bytes.
const SHOWN_BYTES: u64 = 4096;

/// How a daemon is started.
#[derive(Clone, Debug)]
pub struct Starter {
    pub home: Home,
    program: PathBuf,
    /// False: wait for a daemon, start none.
    starts: bool,
    limit: Duration,
}

impl Starter {
    /// Starts this very program. Inside an attempt it starts nothing: such a daemon would be
    /// part of the attempt and end with it.
    pub fn new(home: Home) -> Self {
        let starts = surrounding_attempt().is_none();
        let limit = if starts { START_LIMIT } else { WAIT_INSIDE_ATTEMPT };
        Self { home, program: PathBuf::from("/proc/self/exe"), starts, limit }
    }

    #[cfg(test)]
    pub fn with(home: Home, program: PathBuf, starts: bool, limit: Duration) -> Self {
        Self { home, program, starts, limit }
    }

    /// Starts the daemon; its stderr goes to the log, at the byte that is returned. It keeps
    /// running when the child is dropped.
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

    /// The daemon's log from this byte on, or the end of that.
    fn log_since(&self, begin: u64) -> io::Result<String> {
        let mut log = File::open(&self.home.log_file)?;
        let end = log.metadata()?.len();
        log.seek(SeekFrom::Start(begin.max(end.saturating_sub(SHOWN_BYTES))))?;
        let mut bytes = Vec::new();
        log.take(SHOWN_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }
}

/// Connects to the daemon of the home, starting one when none listens.
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
        // It ended before this try to connect, and not because another daemon holds the lock.
        if let Some(status) = ended.filter(|status| status.code() != Some(LOCK_HELD)) {
            last = ClientError::Unreachable(format!("the new daemon ended ({status})"));
            break;
        }
        // So that this takes little longer than the daemon does.
        let pause = begun.elapsed() / 20;
        sleep(pause.clamp(Duration::from_millis(1), Duration::from_millis(200))).await;
    }
    let what = match last {
        ClientError::Unreachable(why) => why,
        other => other.to_string(),
    };
    // The log of a new one says why.
    let log = started.and_then(|(_, begin)| starter.log_since(begin).ok()).unwrap_or_default();
    Err(ClientError::Unreachable(if log.is_empty() { what } else { format!("{what}:\n{log}") }))
}
