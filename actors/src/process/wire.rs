//! The control socket's frames, between a shim and its clients. Pure.
//!
//! A frame is its length (u32, kind and body together), a kind (one ASCII byte) and a body;
//! numbers are little endian, reports are JSON. A shim may be older than the daemon: kinds and
//! bodies may be added, never changed, and the shim sends its version first.

use serde::{Deserialize, Serialize};

use super::kill::KillReport;
use super::manifest::{ExitRecord, StopKind};

/// Version of the frames, first byte of a [`Hello`].
pub const VERSION: u8 = 1;
/// Longest frame, in bytes of kind and body.
pub const FRAME_MAX: usize = 16 * 1024 * 1024 + 64;
/// Longest message for standard input, in bytes.
pub const STDIN_MESSAGE_MAX: usize = 16 * 1024 * 1024;

/// A peer that doesn't speak this protocol.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WireError {
    #[error("a frame of {0} bytes is too long")]
    TooLong(usize),
    #[error("a frame of kind {0:#04x} makes no sense")]
    Malformed(u8),
    #[error("the shim speaks version {0}, not {VERSION}")]
    Version(u8),
}

/// Which processes a signal goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The leader's process group.
    Leader,
    /// Every process of the tree.
    Tree,
}

/// A request to a shim. Its `ticket` comes back with the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShimRequest {
    /// Report every event from now on.
    Subscribe,
    /// The client has read the last tick.
    TickSeen,
    /// One message for standard input, written whole. A repeated number is not written again.
    Stdin { sequence: u64, bytes: Vec<u8> },
    /// Close standard input after the queued messages.
    CloseStdin,
    /// Signal some processes.
    Signal { ticket: u32, target: Target, signal: i32 },
    /// Kill every process of the tree.
    KillTree { ticket: u32 },
    /// A stop begins; the record of the leader's end mentions it.
    Stopping(StopKind),
    /// Send the pipes' other ends.
    Pipes,
    /// Answer.
    Ping { ticket: u32 },
    /// To a shim that isn't the leader's parent: the leader's wait status (wait(2)).
    LeaderEnded { status: i32 },
}

/// A message of a shim: an event or an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShimMessage {
    /// First of all.
    Hello(Hello),
    /// The answer to [`ShimRequest::Subscribe`].
    Subscribed,
    /// Bytes spooled so far. The next tick follows [`ShimRequest::TickSeen`].
    Tick { stdout: u64, stderr: u64 },
    /// All messages up to this one were written to standard input.
    StdinWritten { sequence: u64 },
    /// Standard input is closed: on request, or because it has no reader.
    StdinClosed,
    /// The leader's end is on disk.
    Exited(ExitRecord),
    /// The last process of the tree is gone; the shim ends.
    TreeGone,
    /// The spool takes no bytes, and why.
    Stalled(String),
    /// The spool has room again.
    Resumed,
    /// How many processes got a signal.
    Signalled { ticket: u32, count: u32 },
    /// The result of a kill.
    Killed { ticket: u32, report: KillReport },
    /// Comes with the descriptors of the pipes' other ends, and of both outputs' stages.
    Pipes { stdout: bool, stderr: bool, stdin: bool, staged: bool },
    /// The answer to [`ShimRequest::Ping`].
    Pong { ticket: u32 },
}

/// The state of a shim when a client connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The leader.
    pub pid: i32,
    /// The last message for standard input that was received whole.
    pub stdin_sequence: u64,
}

impl ShimRequest {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Subscribe => frame(b'A', &[]),
            Self::TickSeen => frame(b't', &[]),
            Self::Stdin { sequence, bytes } => frame(b'I', &[&sequence.to_le_bytes(), bytes]),
            Self::CloseStdin => frame(b'C', &[]),
            Self::Signal { ticket, target, signal } => {
                let target = [match target {
                    Target::Leader => b'l',
                    Target::Tree => b't',
                }];
                frame(b'S', &[&ticket.to_le_bytes(), &target, &signal.to_le_bytes()])
            }
            Self::KillTree { ticket } => frame(b'K', &[&ticket.to_le_bytes()]),
            Self::Stopping(kind) => frame(b'E', &[&[u8::from(*kind == StopKind::Forced)]]),
            Self::Pipes => frame(b'F', &[]),
            Self::Ping { ticket } => frame(b'P', &[&ticket.to_le_bytes()]),
            Self::LeaderEnded { status } => frame(b'L', &[&status.to_le_bytes()]),
        }
    }

    /// Whether the frame is a [`ShimRequest::Stdin`], without copying it.
    pub fn is_stdin(frame: &[u8]) -> bool {
        frame.first() == Some(&b'I')
    }

    pub fn decode(frame: &[u8]) -> Result<Self, WireError> {
        let mut body = Body::of(frame);
        Ok(match body.kind {
            b'A' => Self::Subscribe,
            b't' => Self::TickSeen,
            b'I' => Self::Stdin { sequence: body.u64()?, bytes: body.rest().to_vec() },
            b'C' => Self::CloseStdin,
            b'S' => {
                let ticket = body.u32()?;
                let target = match body.u8()? {
                    b'l' => Target::Leader,
                    b't' => Target::Tree,
                    _ => return Err(body.malformed()),
                };
                Self::Signal { ticket, target, signal: body.u32()?.cast_signed() }
            }
            b'K' => Self::KillTree { ticket: body.u32()? },
            b'E' => match body.u8()? {
                0 => Self::Stopping(StopKind::Soft),
                _ => Self::Stopping(StopKind::Forced),
            },
            b'F' => Self::Pipes,
            b'P' => Self::Ping { ticket: body.u32()? },
            b'L' => Self::LeaderEnded { status: body.u32()?.cast_signed() },
            _ => return Err(body.malformed()),
        })
    }
}

impl ShimMessage {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Hello(hello) => frame(b'H', &[&[VERSION], &json(hello)]),
            Self::Subscribed => frame(b'A', &[]),
            Self::Tick { stdout, stderr } => {
                frame(b'T', &[&stdout.to_le_bytes(), &stderr.to_le_bytes()])
            }
            Self::StdinWritten { sequence } => frame(b'a', &[&sequence.to_le_bytes()]),
            Self::StdinClosed => frame(b'c', &[]),
            Self::Exited(record) => frame(b'X', &[&json(record)]),
            Self::TreeGone => frame(b'G', &[]),
            Self::Stalled(reason) => frame(b'!', &[reason.as_bytes()]),
            Self::Resumed => frame(b'.', &[]),
            Self::Signalled { ticket, count } => {
                frame(b's', &[&ticket.to_le_bytes(), &count.to_le_bytes()])
            }
            Self::Killed { ticket, report } => frame(b'k', &[&ticket.to_le_bytes(), &json(report)]),
            Self::Pipes { stdout, stderr, stdin, staged } => {
                frame(b'f', &[&[*stdout, *stderr, *stdin, *staged].map(u8::from)])
            }
            Self::Pong { ticket } => frame(b'p', &[&ticket.to_le_bytes()]),
        }
    }

    pub fn decode(frame: &[u8]) -> Result<Self, WireError> {
        let mut body = Body::of(frame);
        Ok(match body.kind {
            b'H' => match body.u8()? {
                VERSION => Self::Hello(body.json()?),
                other => return Err(WireError::Version(other)),
            },
            b'A' => Self::Subscribed,
            b'T' => Self::Tick { stdout: body.u64()?, stderr: body.u64()? },
            b'a' => Self::StdinWritten { sequence: body.u64()? },
            b'c' => Self::StdinClosed,
            b'X' => Self::Exited(body.json()?),
            b'G' => Self::TreeGone,
            b'!' => Self::Stalled(String::from_utf8_lossy(body.rest()).into_owned()),
            b'.' => Self::Resumed,
            b's' => Self::Signalled { ticket: body.u32()?, count: body.u32()? },
            b'k' => Self::Killed { ticket: body.u32()?, report: body.json()? },
            b'f' => Self::Pipes {
                stdout: body.u8()? != 0,
                stderr: body.u8()? != 0,
                stdin: body.u8()? != 0,
                // Older shims end here.
                staged: body.rest().first().is_some_and(|&is| is != 0),
            },
            b'p' => Self::Pong { ticket: body.u32()? },
            _ => return Err(body.malformed()),
        })
    }
}

/// The first complete frame of `arrived` without its length, and how many bytes it took.
pub fn first_frame(arrived: &[u8]) -> Result<Option<(&[u8], usize)>, WireError> {
    let Some((len, rest)) = arrived.split_first_chunk::<4>() else { return Ok(None) };
    let len = usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX);
    match len {
        0 => Err(WireError::Malformed(0)),
        _ if len > FRAME_MAX => Err(WireError::TooLong(len)),
        _ => Ok(rest.get(..len).map(|frame| (frame, 4 + len))),
    }
}

fn frame(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let len = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut frame = Vec::with_capacity(4 + len);
    // Senders keep below FRAME_MAX; the receiver would refuse a longer frame.
    frame.extend(u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    frame.push(kind);
    for part in parts {
        frame.extend_from_slice(part);
    }
    frame
}

fn json<T: Serialize>(report: &T) -> Vec<u8> {
    // Only maps with keys that are no strings fail, and no report holds one.
    serde_json::to_vec(report).unwrap_or_default()
}

struct Body<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl<'a> Body<'a> {
    fn of(frame: &'a [u8]) -> Self {
        let (&kind, rest) = frame.split_first().unwrap_or((&0, &[]));
        Self { kind, rest }
    }

    fn malformed(&self) -> WireError {
        WireError::Malformed(self.kind)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(self.malformed())?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn u8(&mut self) -> Result<u8, WireError> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, WireError> {
        self.take().map(u64::from_le_bytes)
    }

    fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn json<T: for<'de> Deserialize<'de>>(&self) -> Result<T, WireError> {
        serde_json::from_slice(self.rest).map_err(|_| self.malformed())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::Timestamp;
    use crate::process::kill::Survivor;

    fn only_frame(bytes: &[u8]) -> &[u8] {
        let (frame, used) = first_frame(bytes).unwrap().unwrap();
        assert_eq!(used, bytes.len());
        frame
    }

    #[test]
    fn every_request_survives_its_encoding() {
        for request in [
            ShimRequest::Subscribe,
            ShimRequest::TickSeen,
            ShimRequest::Stdin { sequence: u64::MAX, bytes: b"\0\n\xff".to_vec() },
            ShimRequest::CloseStdin,
            ShimRequest::Signal { ticket: 7, target: Target::Leader, signal: 15 },
            ShimRequest::Signal { ticket: 7, target: Target::Tree, signal: -1 },
            ShimRequest::KillTree { ticket: 1 },
            ShimRequest::Stopping(StopKind::Soft),
            ShimRequest::Stopping(StopKind::Forced),
            ShimRequest::Pipes,
            ShimRequest::Ping { ticket: 9 },
            ShimRequest::LeaderEnded { status: 0x0700 },
        ] {
            assert_eq!(ShimRequest::decode(only_frame(&request.encode())), Ok(request));
        }
    }

    #[test]
    fn every_notice_survives_its_encoding() {
        let survivor = Survivor { pid: 3, command: "sh".into() };
        for message in [
            ShimMessage::Hello(Hello { pid: 12, stdin_sequence: 3 }),
            ShimMessage::Subscribed,
            ShimMessage::Tick { stdout: 1, stderr: u64::MAX },
            ShimMessage::StdinWritten { sequence: 5 },
            ShimMessage::StdinClosed,
            ShimMessage::Exited(ExitRecord {
                v: 1,
                exit_code: None,
                exit_signal: Some(9),
                reason: None,
                limit: None,
                stopped: Some(StopKind::Soft),
                at: Timestamp::from_millis(1),
                stdout_bytes: 4,
                stderr_bytes: 0,
            }),
            ShimMessage::TreeGone,
            ShimMessage::Stalled("no room".into()),
            ShimMessage::Resumed,
            ShimMessage::Signalled { ticket: 1, count: 2 },
            ShimMessage::Killed {
                ticket: 1,
                report: KillReport { signalled: 4, survivors: vec![survivor] },
            },
            ShimMessage::Pipes { stdout: true, stderr: false, stdin: true, staged: false },
            ShimMessage::Pipes { stdout: true, stderr: true, stdin: false, staged: true },
            ShimMessage::Pong { ticket: 4 },
        ] {
            assert_eq!(ShimMessage::decode(only_frame(&message.encode())), Ok(message));
        }
    }

    #[test]
    fn a_shim_of_another_version_is_told_apart_from_nonsense() {
        assert_eq!(ShimMessage::decode(b"H\x02{}"), Err(WireError::Version(2)));
        assert_eq!(ShimMessage::decode(b"H\x01{}"), Err(WireError::Malformed(b'H')));
        let pipes = ShimMessage::Pipes { stdout: true, stderr: true, stdin: true, staged: false };
        assert_eq!(ShimMessage::decode(b"f\x01\x01\x01"), Ok(pipes), "of before there were stages");
        assert_eq!(first_frame(&[0, 0, 0, 0, 1]), Err(WireError::Malformed(0)));
        assert_eq!(first_frame(&[255; 5]), Err(WireError::TooLong(0xffff_ffff)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoders_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = first_frame(&bytes);
            let _ = ShimRequest::decode(&bytes);
            let _ = ShimMessage::decode(&bytes);
        }

        #[test]
        fn a_frame_cut_short_is_waited_for(bytes in prop::collection::vec(any::<u8>(), 0..64), cut in 0..68usize) {
            let frame = ShimRequest::Stdin { sequence: 1, bytes }.encode();
            let cut = cut.min(frame.len() - 1);
            prop_assert_eq!(first_frame(&frame[..cut]), Ok(None));
        }
    }
}
