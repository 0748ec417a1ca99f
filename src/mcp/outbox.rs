//! The lines on their way to a peer. A line is written at once as far as the peer takes it. The rest
//! waits here in order, and a task writes it when the peer reads again:
//!
//! ```text
//!  put --> written (nothing waits, and the peer takes all of it)
//!      --> waiting --write_rest, in chunks--> written
//!  close --> no further line is taken; what waits is written; then the stream is shut down
//! ```

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use provost_actors::blocking::lock;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use super::backlog::Unread;

/// Most bytes of one write. A peer that takes a chunk within `stalled` makes progress, however long the
/// line is.
const CHUNK: usize = 64 * 1024;

/// How many lines may wait before `room` makes a caller wait. Answers are not held back here: the backlog
/// bounds them.
const MOST: usize = 64;

/// The queue of one connection; `W` is the stream's writing half.
pub struct Outbox<W> {
    waiting: Mutex<Waiting<W>>,
    /// Wakes the writing task: a line waits, or the outbox was closed.
    news: Notify,
    /// Wakes those that wait for room: something was written.
    progress: Notify,
}

/// What is left to write, in order.
struct Waiting<W> {
    /// `None` once the stream is shut down.
    write: Option<W>,
    /// Each line with the room in the backlog that it holds until it is written.
    lines: VecDeque<(Vec<u8>, Option<Unread>)>,
    /// How many bytes of the first line are written.
    written: usize,
    is_closed: bool,
}

impl<W: AsyncWrite + Unpin> Outbox<W> {
    /// An empty outbox. A task must run [`write_rest`](Self::write_rest).
    pub fn new(write: W) -> Self {
        let (lines, written, is_closed) = (VecDeque::new(), 0, false);
        let waiting = Mutex::new(Waiting { write: Some(write), lines, written, is_closed });
        Self { waiting, news: Notify::new(), progress: Notify::new() }
    }

    /// Takes a line, and writes as much of it as the peer takes at once. Never waits. Fails if the outbox
    /// is closed.
    pub fn put(&self, line: Vec<u8>, held: Option<Unread>) -> io::Result<()> {
        let mut waiting = lock(&self.waiting);
        if waiting.is_closed {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let is_first = waiting.lines.is_empty();
        waiting.lines.push_back((line, held));
        // Only if no other line waits: then no other task waits for the peer, whose wake-up this poll
        // would replace.
        let mut noop = Context::from_waker(Waker::noop());
        while is_first && matches!(waiting.poll_chunk(&mut noop), Poll::Ready(Ok(true))) {}
        if !waiting.lines.is_empty() {
            self.news.notify_one();
        }
        Ok(())
    }

    /// Waits until fewer than [`MOST`] lines wait.
    pub async fn room(&self) {
        loop {
            let progress = self.progress.notified();
            tokio::pin!(progress);
            // Registered before the check, so that no wake-up between check and wait is lost.
            progress.as_mut().enable();
            let waiting = lock(&self.waiting).lines.len();
            if waiting < MOST {
                return;
            }
            progress.await;
        }
    }

    /// Closes the outbox: no further line is taken, and what waits is still written.
    pub fn close(&self) {
        lock(&self.waiting).is_closed = true;
        self.news.notify_one();
    }

    /// Writes what waits, until the outbox is closed and empty; then shuts the stream down. Fails if the
    /// peer takes nothing for `stalled`.
    pub async fn write_rest(&self, stalled: Duration) -> io::Result<()> {
        loop {
            while within(stalled, self.chunk()).await? {
                self.progress.notify_waiters();
            }
            self.progress.notify_waiters();
            let ended = {
                let mut waiting = lock(&self.waiting);
                if waiting.is_closed { waiting.write.take() } else { None }
            };
            if let Some(mut write) = ended {
                return write.shutdown().await;
            }
            self.news.notified().await;
        }
    }

    async fn chunk(&self) -> io::Result<bool> {
        std::future::poll_fn(|context| lock(&self.waiting).poll_chunk(context)).await
    }
}

impl<W: AsyncWrite + Unpin> Waiting<W> {
    /// Writes one chunk, or flushes if nothing waits. `false`: nothing is left.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let Some(write) = self.write.as_mut() else { return Poll::Ready(Ok(false)) };
        let Some((line, _)) = self.lines.front() else {
            return Pin::new(write).poll_flush(context).map_ok(|()| false);
        };
        let rest = &line[self.written..];
        let chunk = &rest[..rest.len().min(CHUNK)];
        match std::task::ready!(Pin::new(write).poll_write(context, chunk)) {
            Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Ok(bytes) => self.written += bytes,
            Err(error) => return Poll::Ready(Err(error)),
        }
        if self.written == line.len() {
            self.lines.pop_front();
            self.written = 0;
        }
        Poll::Ready(Ok(true))
    }
}

/// Fails if there is no progress within `stalled`.
async fn within<T>(
    stalled: Duration,
    progress: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    if let Ok(done) = tokio::time::timeout(stalled, progress).await {
        return done;
    }
    tracing::info!("a connection is closed: its peer does not read its answers");
    Err(io::ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::AsyncReadExt;

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn a_line_is_written_at_once_and_the_rest_when_the_peer_reads() {
        let (near, mut far) = tokio::io::duplex(16);
        let outbox = Arc::new(Outbox::new(near));
        outbox.put(b"at once\n".to_vec(), None).unwrap();
        let mut line = [0; 8];
        far.read_exact(&mut line).await.unwrap();
        assert_eq!(&line, b"at once\n");

        let lines: Vec<String> = (0..200).map(|number| format!("line {number}\n")).collect();
        for line in &lines {
            outbox.put(line.clone().into_bytes(), None).unwrap();
        }
        outbox.close();
        assert!(outbox.put(b"late".to_vec(), None).is_err());
        let writer = Arc::clone(&outbox);
        let writing = tokio::spawn(async move { writer.write_rest(LONG).await });
        let mut all = String::new();
        let ((), read) = tokio::join!(outbox.room(), far.read_to_string(&mut all));
        read.unwrap();
        assert_eq!(all, lines.concat());
        writing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_peer_that_takes_nothing_ends_it() {
        let (near, _far) = tokio::io::duplex(4);
        let outbox = Outbox::new(near);
        outbox.put(b"too long for it".to_vec(), None).unwrap();
        let error = outbox.write_rest(Duration::from_millis(20)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
