//! The two directions of a bridge. The client's lines go up, the daemon's lines come down. Each direction
//! is one thread that reads a line, asks `pending` about it, and writes it: no line passes from thread to
//! thread.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use provost_actors::blocking::lock;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::frame;
use super::lines::{BridgeLine, MAX_LINE, read_line};
use super::pending::{LineVerdict, PendingRequests};

/// Bytes of the buffers for reading from the daemon and for writing to the client.
const BUFFER: usize = 64 * 1024;

/// What the two directions share with the control task.
pub struct Link<W: Write> {
    pub pending: Mutex<PendingRequests>,
    /// The connection, while there is one. A thread holds the lock while it writes lines, so that a new
    /// connection gets the waiting requests before any other line.
    daemon: Mutex<Option<UnixStream>>,
    client: Mutex<BufWriter<W>>,
    input_ended: AtomicBool,
    /// Wakes the control task: a request may wait for a connection, or the client may wait for nothing any
    /// more.
    pub news: Notify,
    /// Cancelled when a write to the client has failed.
    pub client_gone: CancellationToken,
}

impl<W: Write> Link<W> {
    /// Without a connection; `client` is the output to the client.
    pub fn new(client: W) -> Self {
        Self {
            pending: Mutex::default(),
            daemon: Mutex::default(),
            client: Mutex::new(BufWriter::with_capacity(BUFFER, client)),
            input_ended: AtomicBool::new(false),
            news: Notify::new(),
            client_gone: CancellationToken::new(),
        }
    }

    /// Whether the client's input has ended.
    pub fn has_ended(&self) -> bool {
        self.input_ended.load(Ordering::Acquire)
    }

    /// Relays the client's lines until their end. Runs in a thread; blocks.
    pub fn upward(&self, mut client: impl BufRead) {
        loop {
            match read_line(&mut client, MAX_LINE) {
                Ok(Some(line)) => self.client_says(line),
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "the client's lines can't be read");
                    break;
                }
            }
        }
        self.input_ended.store(true, Ordering::Release);
        self.news.notify_one();
    }

    /// Decides about a line and writes it, both under the lock of the connection: otherwise a line could
    /// overtake the waiting requests on a new connection.
    fn client_says(&self, line: BridgeLine) {
        let mut daemon = lock(&self.daemon);
        match receive(&self.pending, line, daemon.is_some()) {
            LineVerdict::Forward(line) => {
                let sent = daemon.as_mut().map(|stream| write_line(stream, line));
                if let Some(Err(error)) = sent {
                    tracing::debug!(%error, "the daemon does not read");
                    *daemon = None;
                    self.news.notify_one();
                }
            }
            LineVerdict::Answer(answer) => {
                drop(daemon);
                self.answer(&answer);
            }
            LineVerdict::Nothing => self.news.notify_one(),
        }
    }

    /// Writes the waiting requests to a new connection, and makes it the one to which later lines of the
    /// client go. Runs in a thread; blocks while the daemon does not read.
    pub fn connect(&self, mut stream: UnixStream) {
        let mut daemon = lock(&self.daemon);
        let waiting = lock(&self.pending).resend();
        match waiting.into_iter().try_for_each(|line| write_line(&mut stream, line)) {
            Ok(()) => *daemon = Some(stream),
            // The thread that reads from the connection notices its end.
            Err(error) => tracing::debug!(%error, "the daemon does not read"),
        }
    }

    /// Forgets the connection. Requests of the client wait for the next one from now on.
    pub fn disconnect(&self) {
        *lock(&self.daemon) = None;
    }

    /// Relays the daemon's lines until the connection ends. Runs in a thread; blocks.
    pub fn downward(&self, daemon: impl Read) {
        let mut daemon = BufReader::with_capacity(BUFFER, daemon);
        let mut line = Vec::new();
        loop {
            line.clear();
            match daemon.read_until(b'\n', &mut line) {
                // A line without its end, of a daemon that has died, is not passed on.
                Ok(_) if line.ends_with(b"\n") => {}
                Ok(_) | Err(_) => return,
            }
            // The request is removed before the client gets the answer: then it may use the id again.
            lock(&self.pending).daemon_says(line.trim_ascii_end());
            // Flushed only when no further line is in the buffer.
            let is_last = !daemon.buffer().contains(&b'\n');
            self.write(&line, is_last);
            if self.has_ended() {
                self.news.notify_one();
            }
        }
    }

    /// Writes an answer of the bridge itself to the client.
    pub fn answer(&self, answer: &[u8]) {
        self.write(&[answer, b"\n"].concat(), true);
    }

    /// Writes to the client. A failure means that the client has left, and ends the bridge.
    fn write(&self, line: &[u8], flush: bool) {
        let mut client = lock(&self.client);
        let written = client.write_all(line);
        if let Err(error) = written.and_then(|()| if flush { client.flush() } else { Ok(()) }) {
            tracing::debug!(%error, "the client does not read");
            self.client_gone.cancel();
        }
    }
}

fn write_line(stream: &mut UnixStream, mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    stream.write_all(&line)
}

/// Asks `pending` about a line. Blank lines are ignored, and lines that are too long are refused here.
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
