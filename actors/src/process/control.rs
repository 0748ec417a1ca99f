//! The daemon's end of a control socket: one task per connection, requests in, events out.

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

const ANSWER: Duration = kill::BUDGET.saturating_add(Duration::from_secs(8));
const EVENTS: usize = 64;
const REQUESTS: usize = 16;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ControlError {
    /// The shim has ended or died; its folder tells which.
    #[error("the connection to the shim is closed")]
    Closed,
    #[error("the shim does not answer")]
    Unresponsive,
    #[error("standard input is closed")]
    StdinClosed,
    #[error("{0} bytes are too many for one message to standard input")]
    TooLong(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShimEvent {
    /// The leader has ended; the record is on disk.
    Exited(ExitRecord),
    /// The spool has no room, and the executor waits; nothing is lost.
    Stalled(String),
    Resumed,
    /// Whether the tree stands still, because the lease of the host is late.
    Frozen(bool),
    /// The shim has ended or died: call [`rescue`](super::Shims::rescue).
    Closed,
}

/// A live connection to a shim, or the last events of one that has ended.
#[derive(Debug)]
pub struct Shim {
    pub control: Control,
    pub events: mpsc::Receiver<ShimEvent>,
    /// Changes whenever the spool may have grown.
    pub lengths: watch::Receiver<u64>,
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
    /// The last sequence number used. Locked while a message is on its way.
    sequence: tokio::sync::Mutex<u64>,
    lifeline: Mutex<PipeHandles>,
}

#[derive(Clone, Copy, Debug, Default)]
struct StdinState {
    written: u64,
    is_closed: bool,
}

impl Shim {
    /// Goes on with a connection after its hello. To be called within a runtime.
    pub(super) fn connected(
        (stream, hello, lifeline): Attached,
        started: Started,
    ) -> io::Result<Self> {
        let (requests, requested) = mpsc::channel(REQUESTS);
        let (happened, events) = mpsc::channel(EVENTS);
        let (ticks, lengths) = watch::channel(0);
        let (written, is_closed) = (hello.stdin_sequence, lifeline.stdin.is_none());
        let (stdin_state, stdin) = watch::channel(StdinState { written, is_closed });
        let sequence = tokio::sync::Mutex::new(written);
        let shared = Arc::new(Shared { sequence, lifeline: Mutex::new(lifeline) });
        let control = Control { requests, shared: Arc::clone(&shared), stdin };
        let connection = Connection { events: happened, ticks, stdin: stdin_state, shared };
        tokio::spawn(connection.serve(UnixStream::from_std(stream)?, requested));
        Ok(Self { control, events, lengths, started })
    }

    /// A shim that ended with its process before the daemon attached: all that it would have
    /// said is the record.
    pub(super) fn ended(record: ExitRecord, started: Started) -> io::Result<Self> {
        let (stream, mut shim) = std::os::unix::net::UnixStream::pair()?;
        shim.write_all(&ShimMessage::Exited(record).encode())?;
        stream.set_nonblocking(true)?;
        let hello = Hello { pid: started.pid, stdin_sequence: 0 };
        Self::connected((stream, hello, PipeHandles::default()), started)
    }
}

impl Control {
    /// Signals the leader's process group or every process of the tree, and then sends SIGCONT,
    /// so that a stopped one handles it. Returns how many got it; 0: the leader is gone already.
    pub async fn signal(&self, target: Target, signal: Signal) -> Result<u32, ControlError> {
        let signal = signal as i32;
        match self.ask(ShimRequest::Signal { ticket: 0, target, signal }).await? {
            ShimMessage::Signalled { count, .. } => Ok(count),
            _ => Err(ControlError::Closed),
        }
    }

    /// Makes the record of the leader's end mention a stop. To be called before its first signal.
    pub async fn stopping(&self, kind: StopKind) -> Result<(), ControlError> {
        self.send(ShimRequest::Stopping(kind)).await
    }

    pub async fn kill_tree(&self) -> Result<KillReport, ControlError> {
        match self.ask(ShimRequest::KillTree { ticket: 0 }).await? {
            ShimMessage::Killed { report, .. } => Ok(report),
            _ => Err(ControlError::Closed),
        }
    }

    pub async fn ping(&self) -> Result<(), ControlError> {
        self.ask(ShimRequest::Ping { ticket: 0 }).await.map(drop)
    }

    /// Writes a message to standard input, whole and once, after all earlier ones, even if the
    /// call is dropped. Waits until the executor has read enough. Returns its sequence number.
    pub async fn write_stdin(&self, bytes: Vec<u8>) -> Result<u64, ControlError> {
        if bytes.len() > STDIN_MESSAGE_MAX {
            return Err(ControlError::TooLong(bytes.len()));
        }
        let mut last = self.shared.sequence.lock().await;
        let mut state = self.stdin.clone();
        // The message of a dropped call may still be on its way.
        Self::written(&mut state, *last).await?;
        let sequence = *last + 1;
        self.send(ShimRequest::Stdin { sequence, bytes }).await?;
        *last = sequence;
        Self::written(&mut state, sequence).await?;
        Ok(sequence)
    }

    pub async fn close_stdin(&self) -> Result<(), ControlError> {
        // While our copy is open, the executor sees no end.
        lock(&self.shared.lifeline).stdin = None;
        self.send(ShimRequest::CloseStdin).await
    }

    /// Whether its standard input is a pipe that has not been closed.
    pub fn has_stdin(&self) -> bool {
        !self.stdin.borrow().is_closed
    }

    pub fn stdin_sequence(&self) -> u64 {
        self.stdin.borrow().written
    }

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

    /// Answers come in the order of the requests, so all tickets may be the same.
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

    pub(super) async fn leader_ended(&self, status: i32) -> Result<(), ControlError> {
        self.send(ShimRequest::LeaderEnded { status }).await
    }

    pub(super) fn take_lifeline(&self) -> PipeHandles {
        std::mem::take(&mut *lock(&self.shared.lifeline))
    }
}

struct Connection {
    events: mpsc::Sender<ShimEvent>,
    ticks: watch::Sender<u64>,
    stdin: watch::Sender<StdinState>,
    shared: Arc<Shared>,
}

impl Connection {
    /// Runs until the socket ends, or all callers and listeners are gone.
    async fn serve(self, stream: UnixStream, mut requested: mpsc::Receiver<Request>) {
        let (mut reader, mut writer) = stream.into_split();
        let (mut inbox, mut waiting) = (Vec::new(), VecDeque::new());
        let mut is_asked = true;
        loop {
            // Writing fails once the shim is gone; its last messages are still to be read.
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

    /// Handles the complete messages in `inbox`; skips kinds that only a shim of another
    /// version sends. Returns whether a tick was among them.
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

    fn more(&self) {
        self.ticks.send_modify(|ticks| *ticks += 1);
    }

    async fn emit(&self, event: ShimEvent) {
        // Without a listener the event is dropped.
        let _ = self.events.send(event).await;
    }
}
