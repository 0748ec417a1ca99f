//! `provost mcp`: relays MCP lines between a client's standard streams and the daemon's
//! socket, and survives a restart of the daemon. [`pending`] keeps what a new connection
//! needs: the `initialize` and the unanswered requests. Each tool call gets an id once, so
//! that the daemon recognises one that is sent again.
//!
//! ```text
//!            a request waits                      reached, handshake replayed
//!  ┌──────┐ ───────────────▶ ┌──────────┐ ───────────────────────────▶ ┌──────────┐
//!  │ idle │                  │ reaching │   what waits is sent (again)  │ relaying │
//!  └──────┘ ◀─────────────── └──────────┘ ◀─────────────────────────── └──────────┘
//!     │      out of time: all       connection breaks, requests wait        │
//!     │      that wait get          (none waits: to idle)                   │
//!     │      daemon_restarting                                              │
//!     └──────────────▶ end: the client closed its side and nothing waits ◀──┘
//!                      (or a short while later), or SIGINT, or SIGTERM
//! ```
//!
//! Without a waiting request it stays idle, so that it does not restart a daemon that was
//! shut down. Nothing but the protocol is written to standard output.

mod frame;
mod lines;
mod pending;

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lines::BridgeLine;
use pending::{LineVerdict, PendingRequests};
use provost_actors::blocking::lock;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::client::{ClientError, Connection, Hello, Starter, connect_or_start};

/// How long requests wait for a daemon, and answers for a client that has left.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// From when a request waits without a connection.
    outage: Duration,
    /// From the end of the client's input.
    drain: Duration,
    /// For the daemon's answer to the replayed `initialize`.
    handshake: Duration,
}

const LIMITS: Limits = Limits {
    outage: Duration::from_secs(30),
    drain: Duration::from_secs(2),
    handshake: Duration::from_secs(10),
};

/// Between two tries to reach the daemon.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Serves the client on standard input and output until it leaves or a signal arrives.
pub async fn run(starter: Starter, hello: Hello) -> io::Result<()> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let (output, mut written) = lines::to_stdout()?;
    let bridge = Bridge::new(starter, hello, lines::from_stdin()?, output, LIMITS);
    tokio::select! {
        () = bridge.serve() => {
            // The bridge has dropped its sender: the writer finishes.
            let _ = timeout(LIMITS.drain, written.recv()).await;
        }
        _ = written.recv() => {}
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    Ok(())
}

struct Bridge {
    starter: Starter,
    hello: Hello,
    limits: Limits,
    pending: Mutex<PendingRequests>,
    input: mpsc::Receiver<BridgeLine>,
    /// The client closed its side.
    input_ended: bool,
    output: mpsc::Sender<Vec<u8>>,
}

impl Bridge {
    fn new(
        starter: Starter,
        hello: Hello,
        input: mpsc::Receiver<BridgeLine>,
        output: mpsc::Sender<Vec<u8>>,
        limits: Limits,
    ) -> Self {
        let pending = Mutex::default();
        Self { starter, hello, limits, pending, input, input_ended: false, output }
    }

    async fn serve(mut self) {
        loop {
            while !lock(&self.pending).waits() {
                match self.input.recv().await {
                    Some(line) => self.hold(line).await,
                    None => return,
                }
            }
            match self.reach().await {
                Ok(connection) => {
                    if self.relay(connection).await {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "the requests in flight are refused");
                    let answers = lock(&self.pending).give_up(&error.to_string());
                    self.answer(answers).await;
                }
            }
        }
    }

    /// Takes a line while there is no connection.
    async fn hold(&mut self, line: BridgeLine) {
        if let LineVerdict::Answer(answer) = receive(&self.pending, line, false) {
            self.answer(vec![answer]).await;
        }
    }

    /// `run` notices a client that no longer reads.
    async fn answer(&self, answers: Vec<Vec<u8>>) {
        for answer in answers {
            let _ = self.output.send(answer).await;
        }
    }

    /// Connects, and starts a daemon where none runs, until it works or the outage lasts too
    /// long. Takes lines from the client meanwhile.
    async fn reach(&mut self) -> Result<Connection, ClientError> {
        let deadline = Instant::now() + self.limits.outage;
        let mut pause = Duration::ZERO;
        let mut last = ClientError::Unreachable("no answer in time".to_owned());
        loop {
            let (starter, hello) = (self.starter.clone(), self.hello.clone());
            let handshake = lock(&self.pending).handshake();
            let limit = self.limits.handshake;
            let attempt = async move {
                sleep(pause).await;
                let mut connection = connect_or_start(&starter, &hello).await?;
                match timeout(limit, replay(&mut connection, handshake)).await {
                    Ok(replayed) => replayed.map_err(ClientError::Lost)?,
                    Err(_) => return Err(ClientError::Lost(io::ErrorKind::TimedOut.into())),
                }
                Ok(connection)
            };
            tokio::pin!(attempt);
            loop {
                tokio::select! {
                    reached = &mut attempt => match reached {
                        Ok(connection) => return Ok(connection),
                        Err(error) => {
                            tracing::debug!(%error, "no connection yet");
                            last = error;
                            break;
                        }
                    },
                    line = self.input.recv(), if !self.input_ended => match line {
                        Some(line) => self.hold(line).await,
                        None => self.input_ended = true,
                    },
                    () = sleep_until(deadline) => return Err(last),
                }
            }
            pause = (pause * 2).clamp(Duration::from_millis(50), LONGEST_PAUSE);
        }
    }

    /// Relays lines both ways until one side ends; returns whether that was the client's. Neither
    /// way can block the other.
    async fn relay(&mut self, connection: Connection) -> bool {
        let Self { pending, input, output, limits, .. } = self;
        let leaving = AtomicBool::new(false);
        let up = upward(pending, input, output, connection.writer);
        let down = downward(pending, output, connection.reader, &leaving);
        tokio::pin!(down);
        let writer = tokio::select! {
            ended = up => match ended {
                Ok(writer) => writer,
                Err(error) => {
                    tracing::debug!(%error, "the daemon does not read");
                    return false;
                }
            },
            () = &mut down => return false,
        };
        // The writer stays open: closing it would cancel the requests.
        leaving.store(true, Ordering::Relaxed);
        if lock(pending).waits() {
            let _ = timeout(limits.drain, down).await;
        }
        drop(writer);
        true
    }
}

/// Sends the waiting requests, then new lines until the client's input ends.
async fn upward(
    pending: &Mutex<PendingRequests>,
    input: &mut mpsc::Receiver<BridgeLine>,
    output: &mpsc::Sender<Vec<u8>>,
    mut writer: OwnedWriteHalf,
) -> io::Result<OwnedWriteHalf> {
    let waiting = lock(pending).resend();
    for line in waiting {
        send(&mut writer, line).await?;
    }
    while let Some(line) = input.recv().await {
        match receive(pending, line, true) {
            LineVerdict::Forward(line) => send(&mut writer, line).await?,
            LineVerdict::Answer(answer) => {
                let _ = output.send(answer).await;
            }
            LineVerdict::Nothing => {}
        }
    }
    Ok(writer)
}

/// Relays the daemon's lines until it closes, or a leaving client has all its answers.
async fn downward(
    pending: &Mutex<PendingRequests>,
    output: &mpsc::Sender<Vec<u8>>,
    mut reader: BufReader<OwnedReadHalf>,
    leaving: &AtomicBool,
) {
    loop {
        let mut line = Vec::new();
        match reader.read_until(b'\n', &mut line).await {
            // An incomplete line of a daemon that died is no answer.
            Ok(_) if line.pop() == Some(b'\n') => {}
            Ok(_) | Err(_) => return,
        }
        // An answer is noted only when it can be sent at once.
        let Ok(permit) = output.reserve().await else { return };
        lock(pending).daemon_says(&line);
        permit.send(line);
        if leaving.load(Ordering::Relaxed) && !lock(pending).waits() {
            return;
        }
    }
}

/// Brings a new connection to the state of the old one.
async fn replay(
    connection: &mut Connection,
    handshake: Option<(Vec<u8>, Option<Vec<u8>>)>,
) -> io::Result<()> {
    let Some((initialize, initialized)) = handshake else { return Ok(()) };
    send(&mut connection.writer, initialize).await?;
    let mut line = Vec::new();
    while !pending::is_replayed(&line) {
        line.clear();
        if connection.reader.read_until(b'\n', &mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    match initialized {
        Some(initialized) => send(&mut connection.writer, initialized).await,
        None => Ok(()),
    }
}

async fn send(writer: &mut OwnedWriteHalf, mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    writer.write_all(&line).await
}

fn receive(pending: &Mutex<PendingRequests>, line: BridgeLine, connected: bool) -> LineVerdict {
    match line {
        BridgeLine::Whole(line) if line.trim_ascii().is_empty() => LineVerdict::Nothing,
        BridgeLine::Whole(line) => lock(pending).client_says(line, connected),
        BridgeLine::TooLong(head) => {
            let id = frame::id_in_head(&head);
            let message = "Invalid request: the message is longer than 16777216 bytes";
            LineVerdict::Answer(frame::error(id.as_ref(), -32600, message, None))
        }
    }
}

#[cfg(test)]
mod tests;
