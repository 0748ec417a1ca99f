//! The queue to the executor's standard input: whole messages, in order, each once. Never waits for the pipe.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::unistd::write;

use crate::process::wire::ShimMessage;

/// While the queue holds this many bytes or more, the shim takes no further message. One message may be
/// larger.
const BUFFER_MAX: usize = 1024 * 1024;

/// The pipe and the messages that wait for it.
#[derive(Debug, Default)]
pub struct Stdin {
    pipe: Option<OwnedFd>,
    queue: VecDeque<(u64, Vec<u8>)>,
    /// Bytes of the first message that are written.
    written: usize,
    /// The highest sequence number that was received. Messages up to it are repetitions.
    pub last: u64,
    /// The pipe is to be closed once the queue is empty.
    closing: bool,
}

impl Stdin {
    /// `pipe` must be in non-blocking mode; `None`: it is closed. An earlier shim has handled messages up to
    /// `last`.
    pub fn new(pipe: Option<OwnedFd>, last: u64) -> Self {
        Self { pipe, last, ..Self::default() }
    }

    /// Whether another message may be taken out of a client's inbox.
    pub fn has_room(&self) -> bool {
        self.queue.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() < BUFFER_MAX
    }

    /// Queues a message, unless its number was received before. Returns what to report at once: that the
    /// pipe is closed, or that the message is written already.
    pub fn push(&mut self, sequence: u64, bytes: Vec<u8>) -> Option<ShimMessage> {
        if self.open_pipe().is_none() {
            return Some(ShimMessage::StdinClosed);
        }
        if sequence > self.last {
            self.last = sequence;
            self.queue.push_back((sequence, bytes));
        }
        let waits = self.queue.iter().any(|(queued, _)| *queued == sequence);
        (!waits).then_some(ShimMessage::StdinWritten { sequence })
    }

    /// The highest sequence number whose message was written.
    pub fn written(&self) -> u64 {
        self.queue.front().map_or(self.last, |(sequence, _)| sequence.saturating_sub(1))
    }

    /// Closes the pipe after the messages in the queue. The next [`Self::feed`] does it.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// The pipe; `None`: it is closed, or will be.
    pub fn open_pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().filter(|_| !self.closing).map(AsFd::as_fd)
    }

    /// The pipe to poll for room; `None`: nothing waits.
    pub fn waiting(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().filter(|_| !self.queue.is_empty()).map(AsFd::as_fd)
    }

    /// Writes as much as the pipe takes now. Returns what to report to the clients.
    pub fn feed(&mut self) -> Vec<ShimMessage> {
        let mut messages = Vec::new();
        while let Some(pipe) = &self.pipe
            && let Some((sequence, bytes)) = self.queue.front()
        {
            match write(pipe, &bytes[self.written..]) {
                Ok(count) => self.written += count,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(_) => {
                    // EPIPE: the pipe has no reader any more, and can't get one. The queue is dropped.
                    self.closing = true;
                    self.queue.clear();
                    break;
                }
            }
            if self.written == bytes.len() {
                messages.push(ShimMessage::StdinWritten { sequence: *sequence });
                self.written = 0;
                self.queue.pop_front();
            }
        }
        if self.closing && self.queue.is_empty() && self.pipe.take().is_some() {
            messages.push(ShimMessage::StdinClosed);
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read, pipe};

    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    use super::*;

    fn stdin() -> (Stdin, PipeReader) {
        let (reader, writer) = pipe().unwrap();
        fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        (Stdin::new(Some(writer.into()), 0), reader)
    }

    #[test]
    fn a_message_sent_twice_is_written_once_and_acknowledged_twice() {
        let (mut stdin, mut reader) = stdin();
        let written = ShimMessage::StdinWritten { sequence: 1 };
        assert_eq!(stdin.push(1, b"a\n".to_vec()), None);
        assert_eq!(stdin.feed(), std::slice::from_ref(&written));
        assert_eq!(stdin.push(1, b"a\n".to_vec()), Some(written));
        stdin.close();
        assert_eq!(stdin.feed(), [ShimMessage::StdinClosed]);
        assert_eq!(stdin.push(2, b"b\n".to_vec()), Some(ShimMessage::StdinClosed));
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "a\n");
    }

    #[test]
    fn closing_waits_for_what_is_on_its_way() {
        let (mut stdin, mut reader) = stdin();
        let message = vec![b'x'; 3 * BUFFER_MAX];
        stdin.push(1, message.clone());
        assert!(!stdin.has_room() && stdin.written() == 0);
        stdin.close();
        assert_eq!(stdin.feed(), []);
        assert!(stdin.waiting().is_some() && stdin.open_pipe().is_none());

        let mut read = Vec::new();
        let mut chunk = vec![0; 65536];
        while read.len() < message.len() {
            let count = reader.read(&mut chunk).unwrap();
            read.extend_from_slice(&chunk[..count]);
            stdin.feed();
        }
        assert_eq!(read, message);
        assert!(stdin.waiting().is_none() && stdin.has_room() && stdin.written() == 1);
    }

    #[test]
    fn a_reader_that_is_gone_closes_it() {
        let (mut stdin, reader) = stdin();
        drop(reader);
        stdin.push(1, b"a".to_vec());
        stdin.push(2, b"b".to_vec());
        assert_eq!(stdin.feed(), [ShimMessage::StdinClosed]);
        assert_eq!(stdin.push(3, b"c".to_vec()), Some(ShimMessage::StdinClosed));
    }
}
