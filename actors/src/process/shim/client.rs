//! One connection to the control socket, on the shim's side. It never waits, and drops a peer that does not
//! read.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::geteuid;

use crate::process::attach::send_with_fds;
use crate::process::wire::{self, ShimMessage, ShimRequest};

/// The least time between two ticks: a flood of output must not wake the daemon as often.
const TICK_FLOOR: Duration = Duration::from_millis(3);
/// A peer that leaves more bytes than this unread counts as gone.
const UNREAD_MAX: usize = 1024 * 1024;
/// Bytes of one read. Small, because every shim has touched that much memory.
const READ_MAX: usize = 8 * 1024;

/// A connected peer: mostly the daemon.
pub struct Client {
    pub stream: UnixStream,
    /// The pid of the peer when it connected.
    pub pid: i32,
    inbox: Vec<u8>,
    /// Bytes that the socket did not take yet.
    pub outbox: Vec<u8>,
    /// The peer gets ticks and events.
    pub is_subscribed: bool,
    /// The next request is a message for standard input, and the queue is full. The shim does not read from
    /// the peer meanwhile, so requests behind the message wait as well.
    pub is_parked: bool,
    pub tick: Tick,
    /// The loop drops the connection at its next turn.
    pub is_gone: bool,
}

/// What the peer was told of the spool. Only one tick is on its way at a time.
#[derive(Debug, Default)]
pub struct Tick {
    /// The lengths of the last tick.
    sent: [u64; 2],
    at: Option<Instant>,
    /// The peer has not answered the last tick.
    pub is_unseen: bool,
}

impl Client {
    /// Fails for a peer of another user.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        let peer = getsockopt(&stream, PeerCredentials)?;
        if peer.uid() != geteuid().as_raw() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            pid: peer.pid(),
            inbox: Vec::new(),
            outbox: Vec::new(),
            is_subscribed: false,
            is_parked: false,
            tick: Tick::default(),
            is_gone: false,
        })
    }

    /// Reads once into the inbox. At the end of the stream the connection counts as gone.
    pub fn receive(&mut self) {
        let mut buffer = vec![0; READ_MAX];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.is_gone = true,
            Ok(count) => self.inbox.extend_from_slice(&buffer[..count]),
            Err(error) if is_passing(&error) => {}
            Err(_) => self.is_gone = true,
        }
    }

    /// The next request that has arrived whole. Skips frames that can't be decoded. Without `has_room`, a
    /// message for standard input stays in the inbox, and so do the requests after it: their order must not
    /// change.
    pub fn next_request(&mut self, has_room: bool) -> Option<ShimRequest> {
        loop {
            let Ok(first) = wire::first_frame(&self.inbox) else {
                self.is_gone = true;
                return None;
            };
            let (frame, used) = first?;
            self.is_parked = !has_room && ShimRequest::is_stdin(frame);
            if self.is_parked {
                return None;
            }
            let request = ShimRequest::decode(frame);
            self.inbox.drain(..used);
            if self.inbox.is_empty() {
                // Frees the memory of a long message.
                self.inbox = Vec::new();
            }
            if let Ok(request) = request {
                return Some(request);
            }
        }
    }

    /// Sends a message now, or when the socket has room. Drops the peer if too much waits.
    pub fn send(&mut self, message: &ShimMessage) {
        self.outbox.extend(message.encode());
        self.flush();
        if self.outbox.len() > UNREAD_MAX {
            self.is_gone = true;
        }
    }

    /// Writes what the socket takes now.
    pub fn flush(&mut self) {
        while !self.outbox.is_empty() && !self.is_gone {
            match self.stream.write(&self.outbox) {
                Ok(count) => drop(self.outbox.drain(..count)),
                Err(error) if is_passing(&error) => return,
                Err(_) => self.is_gone = true,
            }
        }
    }

    /// Sends duplicates of the open ones of these ends: stdout, stderr, stdin, and the two stages, of which
    /// both are there or neither.
    pub fn send_pipes(&mut self, ends: [Option<BorrowedFd<'_>>; 5]) {
        let [stdout, stderr, stdin, staged, _] = ends.map(|end| end.is_some());
        let message =
            ShimMessage::Pipes { stdout, stderr, stdin, staged: wire::Staged(staged) }.encode();
        let fds: Vec<_> = ends.into_iter().flatten().collect();
        // The message must be first in the socket, since its descriptors come with it. A peer asks for the
        // pipes right after the hello, so normally nothing is unread.
        self.is_gone |=
            !self.outbox.is_empty() || send_with_fds(&self.stream, &message, &fds).is_err();
    }

    /// Sends a tick if the lengths have changed, the last tick was answered, and [`TICK_FLOOR`] is over. If
    /// only the last condition is missing, returns when it will hold.
    pub fn offer_tick(&mut self, lengths: [u64; 2], now: Instant) -> Option<Instant> {
        if !self.is_subscribed || self.tick.is_unseen || self.tick.sent == lengths {
            return None;
        }
        let due = self.tick.at.map(|at| at + TICK_FLOOR).filter(|due| *due > now);
        if due.is_none() {
            self.tick = Tick { sent: lengths, at: Some(now), is_unseen: true };
            let [stdout, stderr] = lengths;
            self.send(&ShimMessage::Tick { stdout, stderr });
        }
        due
    }
}

/// Whether a later try may succeed.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected() -> (Client, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Client::new(ours).unwrap(), theirs)
    }

    #[test]
    fn a_full_standard_input_holds_up_nothing_before_it() {
        let (mut client, mut peer) = connected();
        let stdin = ShimRequest::Stdin { sequence: 1, bytes: b"x".to_vec() };
        for request in [ShimRequest::KillTree { ticket: 1 }, stdin.clone(), ShimRequest::CloseStdin]
        {
            peer.write_all(&request.encode()).unwrap();
        }
        client.receive();
        assert_eq!(client.next_request(false), Some(ShimRequest::KillTree { ticket: 1 }));
        assert_eq!(client.next_request(false), None);
        assert!(client.is_parked);
        assert_eq!(client.next_request(true), Some(stdin));
        assert_eq!(client.next_request(true), Some(ShimRequest::CloseStdin));
        assert!(!client.is_parked);
    }

    #[test]
    fn ticks_wait_for_the_peer_and_for_the_floor() {
        let (mut client, _peer) = connected();
        let start = Instant::now();
        assert_eq!(client.offer_tick([1, 0], start), None);
        assert!(client.tick.at.is_none(), "nobody has asked");

        client.is_subscribed = true;
        client.offer_tick([1, 0], start);
        assert_eq!(client.tick.sent, [1, 0]);
        client.offer_tick([2, 0], start + TICK_FLOOR);
        assert_eq!(client.tick.sent, [1, 0], "the first one is unseen");
        client.tick.is_unseen = false;
        assert_eq!(client.offer_tick([2, 0], start), Some(start + TICK_FLOOR));
        assert_eq!(client.offer_tick([2, 0], start + TICK_FLOOR), None);
        assert_eq!(client.tick.sent, [2, 0]);
    }

    #[test]
    fn a_peer_that_never_reads_is_dropped() {
        let (mut client, _peer) = connected();
        for _ in 0..100 {
            client.send(&ShimMessage::Stalled("x".repeat(64 * 1024)));
        }
        assert!(client.is_gone);
    }

    #[test]
    fn an_unknown_request_is_passed_over() {
        let (mut client, mut peer) = connected();
        peer.write_all(&[2, 0, 0, 0, b'?', 1]).unwrap();
        peer.write_all(&ShimRequest::Pipes.encode()).unwrap();
        client.receive();
        assert_eq!(client.next_request(true), Some(ShimRequest::Pipes));
        assert!(!client.is_gone);
    }
}
