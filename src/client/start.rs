//! Reaches the daemon of a home, and starts one in the background when none
//! listens. The one place outside of the supervisor that spawns.
//!
//! ```text
//!  connect ──ok──────────────────────────────────────────▶ connected
//!     │ nothing listens          ▲
//!     ▼                          │ every few ms, until the deadline
//!  start `provost daemon` ───▶ connect
//!     │ inside an attempt: start nothing, only wait
//!     └ it exits: 3 = another one holds the lock, go on; else its words
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout_at};

use super::{ClientError, Connection, Hello};
use crate::home::{ATTEMPT_VARIABLES, HOME_VARIABLE, Home, surrounding_attempt};

/// A daemon that was started listens within this, or it is given up.
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
    home: Home,
    program: PathBuf,
    /// `None`: wait for a daemon, start none.
    starts: bool,
    limit: Duration,
}

impl Starter {
    /// Starts this very program. Inside an attempt it starts nothing: such a
    /// daemon would be part of the attempt and end with it.
    pub fn new(home: Home) -> Self {
        let starts = surrounding_attempt().is_none();
        let limit = if starts { START_LIMIT } else { WAIT_INSIDE_ATTEMPT };
        Self { home, program: PathBuf::from("/proc/self/exe"), starts, limit }
    }

    /// Starts one inside an attempt too: for a home that ends before the attempt.
    pub fn even_inside_an_attempt(self) -> Self {
        Self { starts: true, limit: START_LIMIT, ..self }
    }

    #[cfg(test)]
    pub fn with(home: Home, program: PathBuf, starts: bool, limit: Duration) -> Self {
        Self { home, program, starts, limit }
    }

    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Starts the daemon; its stderr goes to the end of the log.
    fn spawn(&self) -> io::Result<Started> {
        let mut log =
            OpenOptions::new().append(true).create(true).mode(0o600).open(self.home.log_file())?;
        let log_begin = log.seek(SeekFrom::End(0))?;
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
        if let Some(root) = self.home.root() {
            command.env(HOME_VARIABLE, root);
        }
        Ok(Started { child: command.spawn()?, log: self.home.log_file().to_owned(), log_begin })
    }
}

/// A daemon on its way. Dropped, it goes on.
struct Started {
    child: Child,
    log: PathBuf,
    log_begin: u64,
}

impl Started {
    /// What it said before it ended.
    fn words(&self) -> String {
        self.read_log().unwrap_or_default().trim().to_owned()
    }

    fn read_log(&self) -> io::Result<String> {
        let mut log = File::open(&self.log)?;
        let end = log.metadata()?.len();
        log.seek(SeekFrom::Start(self.log_begin.max(end.saturating_sub(SHOWN_BYTES))))?;
        let mut bytes = Vec::new();
        log.take(SHOWN_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Connects to the daemon of the home, starting one when none listens.
pub async fn connect_or_start(starter: &Starter, hello: &Hello) -> Result<Connection, ClientError> {
    let deadline = Instant::now() + starter.limit;
    let mut last = match Connection::open(starter.home.socket(), hello).await {
        Ok(connection) => return Ok(connection),
        Err(error) => error,
    };
    let cannot = |error| ClientError::Unreachable(format!("a daemon can't be started: {error}"));
    let mut started = starter.starts.then(|| starter.spawn().map_err(cannot)).transpose()?;
    let mut pause = Duration::from_millis(5);
    while Instant::now() < deadline {
        let ended = exited(started.as_mut());
        let attempt = Connection::open(starter.home.socket(), hello);
        match timeout_at(deadline, attempt).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => last = error,
            Err(_) => break,
        }
        // It ended before this try to connect: nobody is coming, unless
        // another daemon made it end.
        if let Some(status) = ended.filter(|status| status.code() != Some(LOCK_HELD)) {
            let what = format!("the daemon that was started ended ({status})");
            return Err(ClientError::Unreachable(quote(started.as_ref(), what)));
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(200));
    }
    let what = match last {
        ClientError::Unreachable(why) => why,
        other => other.to_string(),
    };
    Err(ClientError::Unreachable(quote(started.as_ref(), what)))
}

fn exited(started: Option<&mut Started>) -> Option<ExitStatus> {
    started.and_then(|started| started.child.try_wait().ok().flatten())
}

/// Adds what the daemon said.
fn quote(started: Option<&Started>, what: String) -> String {
    match started.map(Started::words).unwrap_or_default() {
        words if words.is_empty() => what,
        words => format!("{what}:\n{words}"),
    }
}
