//! The line transport under the MCP server: one JSON-RPC message a line, over any byte stream.
//! It reads, judges each line with [`wire`], and writes; it knows nothing of tools. A peer that
//! writes and does not read is held back, never buffered for: nothing is read while the queue
//! or the [`Backlog`] is full. A peer that takes no byte of what waits for it loses its
//! connection in the end ([`Limits::stalled`]).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::backlog::{Backlog, Unread};
use super::limits::Limits;
use super::wire::{self, InputLine, Rejection};

/// The answer to `tools/list`, in bytes: it is far larger than its request.
const LIST_BYTES: usize = 128 * 1024;

/// Bytes of one write; each is progress.
const CHUNK: usize = 64 * 1024;

/// Lines that wait for the writer.
const QUEUE: usize = 64;

/// How long closing waits for a peer to take what is still queued.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// How much of a line too long to keep is kept to find its id.
const KEPT_OF_OVERSIZED: usize = 1024;

/// A line for the peer, with what it holds until it is written.
type Outgoing = (Vec<u8>, Option<Unread>);

/// A strict MCP transport over a byte stream. When the stream ends it cancels
/// the token it was given, so that nothing goes on for a peer that is gone.
pub struct LineTransport<R> {
    reader: LineReader<R>,
    /// A rejection that waits for room in the queue.
    rejection: Option<Vec<u8>>,
    queue: Option<mpsc::Sender<Outgoing>>,
    writer: Option<JoinHandle<io::Result<()>>>,
    backlog: Arc<Backlog>,
    at_end: CancellationToken,
}

impl<R: AsyncRead + Send + Unpin> LineTransport<R> {
    pub fn new<W>(
        read: R,
        write: W,
        limits: &Limits,
        backlog: Arc<Backlog>,
        at_end: CancellationToken,
    ) -> Self
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (queue, lines) = mpsc::channel(QUEUE);
        let writing = {
            let (at_end, stalled) = (at_end.clone(), limits.stalled);
            async move {
                let written = write_lines(write, lines, stalled).await;
                // Without a writer the connection is of no use.
                at_end.cancel();
                written
            }
        };
        Self {
            reader: LineReader::new(read, limits.line),
            rejection: None,
            queue: Some(queue),
            writer: Some(tokio::spawn(writing)),
            backlog,
            at_end,
        }
    }

    /// The next message, or `None` at the end. Cancel safe: whatever was read
    /// and not yet delivered or answered stays in `self`.
    async fn next_message(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if self.rejection.is_some() {
                let room = self.queue.as_ref()?.reserve().await.ok()?;
                room.send((self.rejection.take()?, None));
            }
            self.backlog.room_for_a_request().await;
            let line = match self.reader.next().await {
                Ok(Read::InputLine(line)) => self.admitted(line.len(), wire::read(&line)),
                Ok(Read::Oversized(start)) => {
                    InputLine::Rejected(Rejection::oversized(&start, self.reader.limit))
                }
                Ok(Read::End) => return None,
                Err(error) => {
                    tracing::debug!(%error, "the peer's stream broke");
                    return None;
                }
            };
            match line {
                InputLine::Message(message) => return Some(*message),
                InputLine::Rejected(rejection) => self.rejection = Some(rejection.to_line()),
                InputLine::Nothing => {}
            }
        }
    }

    /// Counts a request in, or rejects it when its id is taken.
    fn admitted(&self, bytes: usize, line: InputLine) -> InputLine {
        let InputLine::Message(message) = line else { return line };
        if let JsonRpcMessage::Request(request) = &*message {
            let lists = matches!(request.request, ClientRequest::ListToolsRequest(_));
            if !self.backlog.admit(&request.id, bytes, if lists { LIST_BYTES } else { 0 }) {
                return InputLine::Rejected(Rejection::duplicate(request.id.clone()));
            }
        } else if let Some(id) = wire::cancelled_id(&message) {
            // rmcp drops the answers of cancelled requests.
            self.backlog.forget(id);
        }
        InputLine::Message(message)
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> Transport<RoleServer> for LineTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let line = to_line(&message);
        let unread = answered_id(&message).and_then(|id| {
            let Ok(line) = &line else {
                self.backlog.forget(id);
                return None;
            };
            self.backlog.answered(id, line.len())
        });
        let queue = self.queue.clone();
        async move {
            let queue = queue.ok_or(io::ErrorKind::NotConnected)?;
            queue.send((line?, unread)).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let message = self.next_message().await;
        if message.is_none() {
            self.at_end.cancel();
        }
        message
    }

    /// A peer that is gone, or takes nothing more, is no fault of the connection.
    async fn close(&mut self) -> io::Result<()> {
        self.queue = None;
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        match tokio::time::timeout(CLOSE_GRACE, &mut writer).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::debug!(%error, "the peer left answers unread"),
            Ok(Err(fault)) => return Err(io::Error::other(fault)),
            Err(_) => {
                writer.abort();
                tracing::debug!("the peer takes no answers");
            }
        }
        Ok(())
    }
}

fn to_line(message: &TxJsonRpcMessage<RoleServer>) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// The request that a message answers.
fn answered_id(message: &TxJsonRpcMessage<RoleServer>) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

/// The only writer of the stream. It ends when all senders are gone.
async fn write_lines<W>(
    write: W,
    mut lines: mpsc::Receiver<Outgoing>,
    stalled: Duration,
) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    let mut write = BufWriter::new(write);
    let mut batch = Vec::new();
    while lines.recv_many(&mut batch, QUEUE).await > 0 {
        for (line, _unread) in batch.drain(..) {
            for chunk in line.chunks(CHUNK) {
                within(stalled, write.write_all(chunk)).await?;
            }
        }
        within(stalled, write.flush()).await?;
    }
    write.shutdown().await
}

async fn within(
    stalled: Duration,
    progress: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    if let Ok(done) = tokio::time::timeout(stalled, progress).await {
        return done;
    }
    tracing::info!("a connection is closed: its peer does not read its answers");
    Err(io::ErrorKind::TimedOut.into())
}

enum Read {
    InputLine(Vec<u8>),
    /// The beginning of a line that was too long; the rest is skipped.
    Oversized(Vec<u8>),
    End,
}

/// Cuts a byte stream into lines of bounded length.
struct LineReader<R> {
    reader: BufReader<R>,
    limit: usize,
    line: Vec<u8>,
    skipping: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    fn new(reader: R, limit: usize) -> Self {
        Self { reader: BufReader::new(reader), limit, line: Vec::new(), skipping: false }
    }

    /// The next line, without its `\n`; the last one may lack it. Cancel safe:
    /// the only await loses no bytes.
    async fn next(&mut self) -> io::Result<Read> {
        loop {
            let bytes = self.reader.fill_buf().await?;
            if bytes.is_empty() {
                return Ok(match std::mem::take(&mut self.line) {
                    rest if rest.is_empty() => Read::End,
                    rest => Read::InputLine(rest),
                });
            }
            let newline = bytes.iter().position(|byte| *byte == b'\n');
            let text = &bytes[..newline.unwrap_or(bytes.len())];
            let used = text.len() + usize::from(newline.is_some());
            if self.skipping {
                self.skipping = newline.is_none();
                self.reader.consume(used);
                continue;
            }
            let fits = self.line.len() + text.len() <= self.limit;
            let wanted = if fits { text.len() } else { KEPT_OF_OVERSIZED.min(text.len()) };
            self.line.extend_from_slice(&text[..wanted]);
            self.reader.consume(used);
            if !fits {
                self.skipping = newline.is_none();
                let mut start = std::mem::take(&mut self.line);
                start.truncate(KEPT_OF_OVERSIZED);
                return Ok(Read::Oversized(start));
            }
            if newline.is_some() {
                return Ok(Read::InputLine(std::mem::take(&mut self.line)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(input: &[u8], limit: usize) -> Vec<String> {
        let mut reader = LineReader::new(input, limit);
        let mut lines = Vec::new();
        loop {
            match reader.next().await.unwrap() {
                Read::InputLine(line) => lines.push(String::from_utf8(line).unwrap()),
                Read::Oversized(start) => lines.push(format!("<{}>", start.len())),
                Read::End => return lines,
            }
        }
    }

    #[tokio::test]
    async fn lines_end_at_newlines_and_at_the_end_of_the_stream() {
        assert_eq!(lines(b"a\n\nbc\nd", 9).await, ["a", "", "bc", "d"]);
        assert_eq!(lines(b"", 9).await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_line_over_the_limit_is_skipped_and_the_next_one_read() {
        assert_eq!(lines(b"123456789\n1234567890\nx\n", 9).await, ["123456789", "<10>", "x"]);
        let long = [vec![b'x'; 100_000], b"\nnext\n".to_vec()].concat();
        assert_eq!(lines(&long, 9000).await, ["<1024>", "next"]);
        assert_eq!(lines(&long[..90_000], 9000).await, ["<1024>"]);
    }
}
