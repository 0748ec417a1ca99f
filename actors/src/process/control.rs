//! The daemon's end of a control socket: one task per connection, requests in, events out.
//!
//! ```text
//!  Control ──requests (channel)──▶ Connection::serve ──▶ socket ──▶ shim
//!     ▲                                │
//!     ├─ answers, in order of requests ┤
//!     └─ StdinState (watch) ───────────┤◀── socket ◀── shim
//!  Shim.events ◀── ShimEvent ──────────┤
//!  Shim.lengths ◀── a tick ────────────┘
//! ```
//!
//! The task ends when the socket ends (`ShimEvent::Closed`), or when all `Control`s and the receiver of the
//! events are dropped.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::attach::{self, Attached, PipeHandles};
use super::kill::{self, KillReport};
use super::records::{ExitRecord, Started, StopKind};
use super::wire::{self, Hello, STDIN_MESSAGE_MAX, ShimMessage, ShimRequest, Target};
use crate::blocking::lock;

/// How long a shim may take to answer: a kill may take [`kill::BUDGET`], and other requests may come first.
const ANSWER: Duration = kill::BUDGET.saturating_add(Duration::from_secs(8));
// Capacities of the channels, in messages. A full one makes its sender wait; none drops a message.
const EVENTS: usize = 64;
const REQUESTS: usize = 16;

/// Why a request to a shim failed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ControlError {
    /// The shim has ended or died; [`rescue`](super::Shims::rescue) finds out which.
    #[error("the connection to the shim is closed")]
    Closed,
    #[error("the shim does not answer")]
    Unresponsive,
    #[error("standard input is closed")]
    StdinClosed,
    #[error("{0} bytes are too many for one message to standard input")]
    TooLong(usize),
}

/// What a shim reports by itself. The executor's output does not come this way: [`Shim::lengths`] says when
/// there may be more in the spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShimEvent {
    /// The leader has ended; the record is on disk.
    Exited(ExitRecord),
    /// The spool can't take more bytes, for this reason (mostly a full disk). The executor waits once its
    /// pipe is full. Nothing is lost.
    Stalled(String),
    Resumed,
    /// The tree was frozen (`true`) because the lease of the host is late, or was thawed.
    Frozen(bool),
    /// The last event: the shim has ended or died. Call [`rescue`](super::Shims::rescue).
    Closed,
}

/// A live connection to a shim, or the last events of one that has ended.
#[derive(Debug)]
pub struct Shim {
    pub control: Control,
    pub events: mpsc::Receiver<ShimEvent>,
    /// Changes when the spool may have grown. The value counts ticks; it is not a length.
    pub lengths: watch::Receiver<u64>,
    /// The record of its start, from the folder.
    pub started: Started,
}

/// Sends requests to a shim. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Control {
    requests: mpsc::Sender<Request>,
    shared: Arc<Shared>,
    stdin: watch::Receiver<StdinState>,
}

type Request = (ShimRequest, Option<oneshot::Sender<ShimMessage>>);

#[derive(Debug)]
struct Shared {
    /// The last sequence number used. Locked until the shim has written the message, so that messages keep
    /// their order.
    sequence: tokio::sync::Mutex<u64>,
    /// [`Hello::stdin_sequence`].
    received: u64,
    lifeline: Mutex<PipeHandles>,
}

#[derive(Clone, Copy, Debug, Default)]
struct StdinState {
    written: u64,
    is_closed: bool,
}

impl Shim {
    /// Starts the task of a connection whose first messages were exchanged (`attach`). Panics outside of a
    /// runtime.
    pub(super) fn connected(
        (stream, hello, lifeline): Attached,
        started: Started,
    ) -> io::Result<Self> {
        let (requests, requested) = mpsc::channel(REQUESTS);
        let (happened, events) = mpsc::channel(EVENTS);
        let (ticks, lengths) = watch::channel(0);
        let received = hello.stdin_sequence;
        let (written, is_closed) =
            (hello.stdin_written.unwrap_or(received), lifeline.stdin.is_none());
        let (stdin_state, stdin) = watch::channel(StdinState { written, is_closed });
        let sequence = tokio::sync::Mutex::new(received);
        let shared = Arc::new(Shared { sequence, received, lifeline: Mutex::new(lifeline) });
        let control = Control { requests, shared: Arc::clone(&shared), stdin };
        let connection = Connection { events: happened, ticks, stdin: stdin_state, shared };
        tokio::spawn(connection.serve(UnixStream::from_std(stream)?, requested));
        Ok(Self { control, events, lengths, started })
    }

    /// Stands for a shim that ended before the daemon attached. Its only events are the record and `Closed`,
    /// which come from a socket pair, so callers need no special case.
    pub(super) fn ended(record: ExitRecord, started: Started) -> io::Result<Self> {
        let (stream, mut shim) = std::os::unix::net::UnixStream::pair()?;
        shim.write_all(&ShimMessage::Exited(record).encode())?;
        stream.set_nonblocking(true)?;
        let hello = Hello { pid: started.pid, stdin_sequence: 0, stdin_written: None };
        Self::connected((stream, hello, PipeHandles::default()), started)
    }
}

impl Control {
    /// Signals the leader's process group, or every process of the tree. Then sends SIGCONT, so that a
    /// stopped process handles the signal; not after SIGSTOP or SIGKILL, nor to a frozen tree. Returns how
    /// many processes got the signal. For a group the count is 1, or 0 if the leader is gone.
    pub async fn signal(&self, target: Target, signal: Signal) -> Result<u32, ControlError> {
        let signal = signal as i32;
        match self.ask(ShimRequest::Signal { ticket: 0, target, signal }).await? {
            ShimMessage::Signalled { count, .. } => Ok(count),
            _ => Err(ControlError::Closed),
        }
    }

    /// Makes the exit record mention a stop. To be called before the stop's first signal: the shim ignores it
    /// once the leader has ended.
    pub async fn stopping(&self, kind: StopKind) -> Result<(), ControlError> {
        self.send(ShimRequest::Stopping(kind)).await
    }

    /// Kills the tree, SIGKILL at once. Returns when the shim has looked again and found nothing alive, or
    /// has given up ([`kill::BUDGET`]). The report lists survivors.
    pub async fn kill_tree(&self) -> Result<KillReport, ControlError> {
        match self.ask(ShimRequest::KillTree { ticket: 0 }).await? {
            ShimMessage::Killed { report, .. } => Ok(report),
            _ => Err(ControlError::Closed),
        }
    }

    /// Returns once the shim has handled all earlier requests of this connection.
    pub async fn ping(&self) -> Result<(), ControlError> {
        self.ask(ShimRequest::Ping { ticket: 0 }).await.map(drop)
    }

    /// Writes a message to standard input, whole and once, after all earlier ones. Waits until the shim has
    /// written it to the pipe, and so until the executor has read enough. If the caller drops the call once
    /// the request is sent, the shim still writes the message. Returns the message's sequence number.
    /// Fails with `StdinClosed` if the executor closes its end first: a part may be written then.
    pub async fn write_stdin(&self, bytes: Vec<u8>) -> Result<u64, ControlError> {
        if bytes.len() > STDIN_MESSAGE_MAX {
            return Err(ControlError::TooLong(bytes.len()));
        }
        let mut last = self.shared.sequence.lock().await;
        let mut state = self.stdin.clone();
        // The message of an earlier call that was dropped may not be written yet.
        Self::written(&mut state, *last).await?;
        let sequence = *last + 1;
        self.send(ShimRequest::Stdin { sequence, bytes }).await?;
        *last = sequence;
        Self::written(&mut state, sequence).await?;
        Ok(sequence)
    }

    /// Closes standard input after the messages that are queued. Does not wait: `has_stdin` is `false` once
    /// the shim has closed it.
    pub async fn close_stdin(&self) -> Result<(), ControlError> {
        // Our duplicate of the pipe goes first: while it is open, the executor sees no end of file.
        lock(&self.shared.lifeline).stdin = None;
        self.send(ShimRequest::CloseStdin).await
    }

    /// Whether standard input is a pipe that is still open, as far as the shim has reported.
    pub fn has_stdin(&self) -> bool {
        !self.stdin.borrow().is_closed
    }

    /// The highest sequence number whose message was written. A rescue shim ignores messages up to this
    /// number; later ones are sent to it again. Of an older shim, messages that it had received before this
    /// connection count as written.
    pub fn stdin_sequence(&self) -> u64 {
        self.stdin.borrow().written
    }

    /// The highest sequence number whose message the shim had received before this connection.
    pub fn stdin_received(&self) -> u64 {
        self.shared.received
    }

    /// Waits until a message is written. `StdinClosed`: the pipe was closed first. `Closed`: the connection
    /// ended.
    async fn written(
        state: &mut watch::Receiver<StdinState>,
        sequence: u64,
    ) -> Result<(), ControlError> {
        let state = state.wait_for(|state| state.written >= sequence || state.is_closed).await;
        let state = state.map_err(|_| ControlError::Closed)?;
        if state.written >= sequence { Ok(()) } else { Err(ControlError::StdinClosed) }
    }

    async fn send(&self, request: ShimRequest) -> Result<(), ControlError> {
        self.requests.send((request, None)).await.map_err(|_| ControlError::Closed)
    }

    /// Sends a request and waits for its answer, [`ANSWER`] at most. A shim answers in the order of the
    /// requests, so the tickets (all 0) are not compared. First resumes a shim that someone has stopped
    /// (SIGSTOP).
    async fn ask(&self, request: ShimRequest) -> Result<ShimMessage, ControlError> {
        let (sender, answer) = oneshot::channel();
        attach::wake(lock(&self.shared.lifeline).shim.as_ref());
        let ask = async {
            let sent = self.requests.send((request, Some(sender))).await;
            sent.map_err(|_| ControlError::Closed)?;
            answer.await.map_err(|_| ControlError::Closed)
        };
        timeout(ANSWER, ask).await.unwrap_or(Err(ControlError::Unresponsive))
    }

    /// Reports the leader's wait status (wait(2)) to a rescue shim, which is not its parent.
    pub(super) async fn leader_ended(&self, status: i32) -> Result<(), ControlError> {
        self.send(ShimRequest::LeaderEnded { status }).await
    }

    /// Takes the duplicates and handles for a rescue. This connection has none afterwards.
    pub(super) fn take_lifeline(&self) -> PipeHandles {
        std::mem::take(&mut *lock(&self.shared.lifeline))
    }
}

/// The state of the task that serves one connection.
struct Connection {
    events: mpsc::Sender<ShimEvent>,
    ticks: watch::Sender<u64>,
    stdin: watch::Sender<StdinState>,
    shared: Arc<Shared>,
}

impl Connection {
    /// Runs until the socket ends, or until all `Control`s and the receiver of events are dropped.
    async fn serve(self, stream: UnixStream, mut requested: mpsc::Receiver<Request>) {
        let (mut reader, mut writer) = stream.into_split();
        let (mut inbox, mut waiting) = (Vec::new(), VecDeque::new());
        let mut is_asked = true;
        loop {
            // A write fails once the shim is gone. The failure is ignored, because the shim's last messages
            // are still to be read.
            tokio::select! {
                request = requested.recv(), if is_asked => match request {
                    Some((request, answer)) => {
                        waiting.extend(answer);
                        drop(writer.write_all(&request.encode()).await);
                    }
                    None => is_asked = false,
                },
                () = self.events.closed(), if !is_asked => return,
                read = reader.read_buf(&mut inbox) => match read {
                    Ok(count) if count > 0 => {}
                    _ => break,
                },
            }
            match self.take_messages(&mut inbox, &mut waiting).await {
                Ok(false) => {}
                Ok(true) => drop(writer.write_all(&ShimRequest::TickSeen.encode()).await),
                Err(error) => {
                    tracing::warn!(%error, "a shim sent a malformed message");
                    break;
                }
            }
        }
        // No answer will come any more.
        drop((requested, waiting));
        self.more();
        let _ = self.events.send(ShimEvent::Closed).await;
    }

    /// Handles the complete messages in `inbox`. Skips unknown kinds, which a shim of another version sends.
    /// Returns whether a tick was among them: the caller answers it, and the shim sends the next one only
    /// then.
    async fn take_messages(
        &self,
        inbox: &mut Vec<u8>,
        waiting: &mut VecDeque<oneshot::Sender<ShimMessage>>,
    ) -> Result<bool, wire::WireError> {
        let mut was_tick = false;
        while let Some((frame, used)) = wire::first_frame(inbox)? {
            let message = ShimMessage::decode(frame);
            inbox.drain(..used);
            let message = match message {
                Ok(message) => message,
                Err(error @ wire::WireError::Unknown(_)) => {
                    tracing::warn!(%error, "a shim's message is skipped");
                    continue;
                }
                Err(error) => return Err(error),
            };
            match message {
                ShimMessage::Tick { .. } => {
                    was_tick = true;
                    self.more();
                }
                ShimMessage::StdinWritten { sequence } => {
                    self.stdin.send_modify(|state| state.written = state.written.max(sequence));
                }
                ShimMessage::StdinClosed => {
                    lock(&self.shared.lifeline).stdin = None;
                    self.stdin.send_modify(|state| state.is_closed = true);
                }
                ShimMessage::Exited(record) => {
                    self.more();
                    self.emit(ShimEvent::Exited(record)).await;
                }
                ShimMessage::Stalled(reason) => self.emit(ShimEvent::Stalled(reason)).await,
                ShimMessage::Resumed => self.emit(ShimEvent::Resumed).await,
                ShimMessage::Frozen(is) => self.emit(ShimEvent::Frozen(is)).await,
                answer @ (ShimMessage::Signalled { .. }
                | ShimMessage::Killed { .. }
                | ShimMessage::Pong { .. }) => {
                    if let Some(caller) = waiting.pop_front() {
                        // The caller may be gone.
                        let _ = caller.send(answer);
                    }
                }
                ShimMessage::Hello(_) | ShimMessage::Subscribed | ShimMessage::Pipes { .. } => {}
            }
        }
        Ok(was_tick)
    }

    /// Wakes the readers of the spool.
    fn more(&self) {
        self.ticks.send_modify(|ticks| *ticks += 1);
    }

    async fn emit(&self, event: ShimEvent) {
        // Without a listener the event is dropped.
        let _ = self.events.send(event).await;
    }
}
