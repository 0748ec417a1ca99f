//! The two directions of a bridge, each a thread that reads, judges and writes: a line is handed to
//! no other thread on its way. The client's lines go up, the daemon's come down.

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

/// What is read from the daemon at once, in bytes.
const BUFFER: usize = 64 * 1024;

/// What the directions share with the bridge's control.
pub struct Link<W: Write> {
    pub pending: Mutex<PendingRequests>,
    /// The connection, while there is one. Held while lines are written to it, so that a new one
    /// gets the waiting requests before any other line.
    daemon: Mutex<Option<UnixStream>>,
    client: Mutex<BufWriter<W>>,
    input_ended: AtomicBool,
    /// A request may wait for a connection, or the client may wait for nothing more.
    pub news: Notify,
    /// Cancelled when the client does not read any more.
    pub client_gone: CancellationToken,
}

impl<W: Write> Link<W> {
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

    /// Whether the client has closed its side.
    pub fn has_ended(&self) -> bool {
        self.input_ended.load(Ordering::Acquire)
    }

    /// Relays the client's lines until their end.
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

    /// Writes the waiting requests to a new connection, and then all that the client says.
    pub fn connect(&self, mut stream: UnixStream) {
        let mut daemon = lock(&self.daemon);
        let waiting = lock(&self.pending).resend();
        match waiting.into_iter().try_for_each(|line| write_line(&mut stream, line)) {
            Ok(()) => *daemon = Some(stream),
            // Whoever reads from it notices its end.
            Err(error) => tracing::debug!(%error, "the daemon does not read"),
        }
    }

    /// Ends the connection: what the client says from now on waits for another one.
    pub fn disconnect(&self) {
        *lock(&self.daemon) = None;
    }

    /// Relays the daemon's lines until it closes.
    pub fn downward(&self, daemon: impl Read) {
        let mut daemon = BufReader::with_capacity(BUFFER, daemon);
        let mut line = Vec::new();
        loop {
            line.clear();
            match daemon.read_until(b'\n', &mut line) {
                // An incomplete line of a daemon that died is no answer.
                Ok(_) if line.ends_with(b"\n") => {}
                Ok(_) | Err(_) => return,
            }
            // Before the client can use its id again.
            lock(&self.pending).daemon_says(line.trim_ascii_end());
            let is_last = !daemon.buffer().contains(&b'\n');
            self.write(&line, is_last);
            if self.has_ended() {
                self.news.notify_one();
            }
        }
    }

    /// Writes a line of the bridge's own to the client.
    pub fn answer(&self, answer: &[u8]) {
        self.write(&[answer, b"\n"].concat(), true);
    }

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
