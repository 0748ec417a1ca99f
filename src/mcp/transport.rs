//! The line transport of the MCP server: one JSON-RPC message a line, over any byte stream. It reads
//! lines, judges them with [`wire`], and writes; it knows nothing of tools. Nothing is read while the
//! [`Outbox`] or the [`Backlog`] is full, so a peer that writes and does not read is slowed down instead
//! of buffered for. A peer that reads nothing for [`Limits::stalled`] loses its connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::backlog::Backlog;
use super::limits::Limits;
use super::outbox::Outbox;
use super::wire::{self, InputLine, Rejection};
use crate::jsonrpc::ID_WITHIN;

/// The size of the answer to `tools/list`, in bytes: it is much larger than its request, and is counted
/// with it.
const LIST_BYTES: usize = 128 * 1024;

/// How long closing waits until the peer has taken what is queued.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// The transport of one connection. When the stream ends, it cancels the token that it was given, so that
/// no work continues for a peer that is gone.
pub struct LineTransport<R, W> {
    reader: LineReader<R>,
    /// A rejection that waits for room in the outbox.
    rejection: Option<Vec<u8>>,
    outbox: Arc<Outbox<W>>,
    writer: Option<JoinHandle<io::Result<()>>>,
    backlog: Arc<Backlog>,
    at_end: CancellationToken,
}

impl<R, W> LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Starts the task that writes. `at_end` is cancelled when the peer closes its side, or when writing
    /// fails.
    pub fn new(
        read: R,
        write: W,
        limits: &Limits,
        backlog: Arc<Backlog>,
        at_end: CancellationToken,
    ) -> Self {
        let outbox = Arc::new(Outbox::new(write));
        let writing = {
            let (at_end, stalled, outbox) = (at_end.clone(), limits.stalled, Arc::clone(&outbox));
            async move {
                let written = outbox.write_rest(stalled).await;
                // Nothing can be answered without a writer, so the connection ends.
                at_end.cancel();
                written
            }
        };
        Self {
            reader: LineReader::new(read, limits.line),
            rejection: None,
            outbox,
            writer: Some(tokio::spawn(writing)),
            backlog,
            at_end,
        }
    }

    /// The next message; `None` at the end. Cancel safe: what was read and is not yet delivered or
    /// answered stays in `self`.
    async fn next_message(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if self.rejection.is_some() {
                self.outbox.room().await;
                self.outbox.put(self.rejection.take()?, None).ok()?;
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

    /// Counts a request in, or rejects it if its id belongs to an unanswered request.
    fn admitted(&self, bytes: usize, line: InputLine) -> InputLine {
        let InputLine::Message(message) = line else { return line };
        if let JsonRpcMessage::Request(request) = &*message {
            let lists = matches!(request.request, ClientRequest::ListToolsRequest(_));
            if !self.backlog.admit(&request.id, bytes, if lists { LIST_BYTES } else { 0 }) {
                return InputLine::Rejected(Rejection::duplicate(request.id.clone()));
            }
        } else if let Some(id) = wire::cancelled_id(&message) {
            // rmcp drops the answer of a cancelled request, so its room has to be given back here.
            self.backlog.forget(id);
        }
        InputLine::Message(message)
    }
}

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
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
        std::future::ready(line.and_then(|line| self.outbox.put(line, unread)))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let message = self.next_message().await;
        if message.is_none() {
            self.at_end.cancel();
        }
        message
    }

    /// Writes what is queued, for a short time. A peer that is gone or takes nothing is no error.
    async fn close(&mut self) -> io::Result<()> {
        self.outbox.close();
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

/// What the reader found in the stream.
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

    /// The next line, without its `\n`, which the last line may lack. Cancel safe: the only await
    /// consumes no bytes.
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
            let wanted = if fits { text.len() } else { ID_WITHIN.min(text.len()) };
            self.line.extend_from_slice(&text[..wanted]);
            self.reader.consume(used);
            if !fits {
                self.skipping = newline.is_none();
                let mut start = std::mem::take(&mut self.line);
                start.truncate(ID_WITHIN);
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
