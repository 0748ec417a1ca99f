//! `provost mcp`: relays MCP lines between a client's standard streams and the daemon's socket, and
//! survives a restart of the daemon. [`pending`] keeps what a new connection needs: the `initialize` and
//! the unanswered requests. The bridge gives each tool call an id once, so that the daemon recognises a
//! call that is sent again.
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
//! Without a waiting request the bridge stays idle, so that it does not restart a daemon that a person has
//! shut down. It writes nothing but the protocol to standard output.
//!
//! ```text
//!  thread "upward"     client's lines ──▶ pending ──▶ socket, or an answer, or kept
//!  thread "downward"   socket ──▶ pending ──▶ client           one for each connection
//!  thread "again"      the waiting requests ──▶ a new socket   ends, and then `upward` writes to it
//!  task `serve`        connects and disconnects; waits for `Link::news`
//! ```
//!
//! Order of the locks: `daemon`, then `pending`, and never `client` together with either (`relay.rs`).

mod frame;
mod lines;
mod pending;
mod relay;

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use provost_actors::blocking::lock;
use relay::Link;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::net::unix::OwnedWriteHalf;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::client::{ClientError, Connection, Hello, Starter, connect_or_start};

/// How long requests wait for a daemon, and how long answers are awaited after the client's input has ended.
/// Tests set shorter ones.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// The time to connect, from the moment at which a request waits without a connection. Then it is
    /// refused.
    outage: Duration,
    /// The time for the last answers, from the end of the client's input.
    drain: Duration,
    /// The time for the daemon's answer to the replayed `initialize`.
    handshake: Duration,
}

const LIMITS: Limits = Limits {
    outage: Duration::from_secs(30),
    // Longer than a daemon that ends takes to answer or to refuse what is in flight.
    drain: Duration::from_secs(6),
    handshake: Duration::from_secs(10),
};

/// The longest pause between two tries to reach the daemon.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Bytes of a thread's stack. Small, because memory that a thread has touched stays resident.
const STACK: usize = 256 * 1024;

/// Serves the client on standard input and output, until it closes them or SIGINT or SIGTERM arrives. A lost
/// daemon is no error. Fails only if signals, streams or the first thread can't be set up.
pub async fn run(starter: Starter, hello: Hello) -> io::Result<()> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    // As files, because the standard library's own streams add buffers and locks.
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    let bridge = Bridge::start(starter, hello, File::from(stdin), File::from(stdout), LIMITS)?;
    tokio::select! {
        () = bridge.serve() => {}
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    Ok(())
}

/// The control task: it connects whenever a request waits, and ends when the client has left. `W`: the
/// output to the client.
struct Bridge<W: Write> {
    starter: Starter,
    hello: Hello,
    limits: Limits,
    link: Arc<Link<W>>,
}

impl<W: Write + Send + 'static> Bridge<W> {
    /// Starts the thread that reads the client's lines.
    fn start(
        starter: Starter,
        hello: Hello,
        input: impl Read + Send + 'static,
        output: W,
        limits: Limits,
    ) -> io::Result<Self> {
        let link = Arc::new(Link::new(output));
        let bridge = Self { starter, hello, limits, link };
        bridge.thread("upward", move |link| link.upward(BufReader::new(input)))?;
        Ok(bridge)
    }

    /// Runs a thread. Nothing joins it: it may block on reading from or writing to the client for any time.
    fn thread(&self, name: &str, work: impl FnOnce(&Link<W>) + Send + 'static) -> io::Result<()> {
        let link = Arc::clone(&self.link);
        let named = std::thread::Builder::new().name(name.to_owned());
        named.stack_size(STACK).spawn(move || work(&link)).map(drop)
    }

    /// Returns when the client has left, or can't be written to.
    async fn serve(self) {
        let gone = self.link.client_gone.clone();
        tokio::select! {
            () = self.keep_connected() => {}
            () = gone.cancelled() => {}
        }
    }

    /// The loop of the diagram above: idle, reaching, relaying, until the client has closed its side.
    async fn keep_connected(&self) {
        loop {
            while !self.waits() {
                if self.link.has_ended() {
                    return;
                }
                self.link.news.notified().await;
            }
            match self.reach().await {
                Ok(connection) => match self.relay(connection).await {
                    Ok(true) => return,
                    Ok(false) => {}
                    Err(error) => tracing::warn!(%error, "the connection can't be used"),
                },
                Err(error) => {
                    tracing::warn!(%error, "the requests in flight are refused");
                    let answers = lock(&self.link.pending).give_up(&error.to_string());
                    let (telling, finished) = oneshot::channel::<()>();
                    // The answers are written by a thread: if the client does not read, the thread blocks,
                    // and this task can still be ended by a signal.
                    let begun = self.thread("refusals", move |link| {
                        for answer in &answers {
                            link.answer(answer);
                        }
                        drop(telling);
                    });
                    if let Err(error) = begun {
                        tracing::error!(%error, "the client is not told");
                    }
                    // The thread has dropped its end: that is an error here, and means that all answers are
                    // written.
                    let _ = finished.await;
                }
            }
        }
    }

    /// Whether the client waits for an answer.
    fn waits(&self) -> bool {
        lock(&self.link.pending).waits()
    }

    /// Connects, starts a daemon if none runs, and replays the handshake. Tries until that works, or until
    /// `limits.outage` is over: then it returns the error of the last try.
    async fn reach(&self) -> Result<Connection, ClientError> {
        let deadline = Instant::now() + self.limits.outage;
        let mut pause = Duration::ZERO;
        let mut last = ClientError::Unreachable("no answer in time".to_owned());
        loop {
            let attempt = async {
                // A sleep takes a millisecond at least, so the first try has none.
                if !pause.is_zero() {
                    sleep(pause).await;
                }
                let handshake = lock(&self.link.pending).handshake();
                let mut connection = connect_or_start(&self.starter, &self.hello).await?;
                match timeout(self.limits.handshake, replay(&mut connection, handshake)).await {
                    Ok(replayed) => replayed.map_err(ClientError::Lost)?,
                    Err(_) => return Err(ClientError::Lost(io::ErrorKind::TimedOut.into())),
                }
                Ok(connection)
            };
            match timeout_at(deadline, attempt).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => {
                    tracing::debug!(%error, "no connection yet");
                    last = error;
                }
                Err(_) => return Err(last),
            }
            pause = (pause * 2).clamp(Duration::from_millis(50), LONGEST_PAUSE);
        }
    }

    /// Relays lines both ways until one side ends. `true`: the client has closed its side, and its last
    /// requests are answered or `limits.drain` is over. `false`: the connection has ended.
    async fn relay(&self, connection: Connection) -> io::Result<bool> {
        let (stream, read_ahead) = connection.into_parts()?;
        let incoming = Cursor::new(read_ahead).chain(stream.try_clone()?);
        let connected = stream.try_clone()?;
        let (ending, mut ended) = oneshot::channel::<()>();
        self.thread("downward", move |link| {
            link.downward(incoming);
            drop(ending);
        })?;
        // In a thread of its own, beside `downward`: if no one reads the daemon's answers, the daemon may
        // stop reading the requests.
        self.thread("again", move |link| link.connect(stream))?;
        while !self.link.has_ended() {
            tokio::select! {
                _ = &mut ended => {
                    // A thread that still writes to the connection fails then, and lets go of the lock. The
                    // connection may be closed already, so the result is ignored.
                    let _ = connected.shutdown(Shutdown::Both);
                    self.link.disconnect();
                    return Ok(false);
                }
                () = self.link.news.notified() => {}
            }
        }
        // The connection stays open for now: if it closed, the daemon would cancel the requests.
        let answered = async {
            while self.waits() {
                self.link.news.notified().await;
            }
        };
        tokio::select! {
            () = answered => {}
            _ = ended => {}
            () = sleep(self.limits.drain) => {}
        }
        Ok(true)
    }
}

/// Brings a new connection to the state of the old one: sends the client's `initialize` again, skips lines
/// until its answer, and sends the `initialized` that followed. `None`: the client has not initialized yet.
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

#[cfg(test)]
mod tests;
