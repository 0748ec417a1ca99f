//! The control socket's frames, between a shim and its clients. Pure.
//!
//! ```text
//!  ┌───────────────┬────────────┬──────┐   length: kind and body together
//!  │ length  (u32) │ kind  (u8) │ body │   kind: one ASCII letter or sign
//!  └───────────────┴────────────┴──────┘   numbers: little endian; reports: JSON
//!
//!  client                      shim
//!    │ ◀────────────── Hello ──  │   the version, and the last message for stdin
//!    │ ── Pipes ──────────────▶  │
//!    │ ◀────────────── Pipes ──  │   with the descriptors (SCM_RIGHTS, unix(7))
//!    │ ── Subscribe ──────────▶  │
//!    │ ◀───────── Subscribed ──  │   then events at any time, and answers in order
//! ```
//!
//! A shim may be older than the daemon. So kinds may be added, and fields at the end of a body, but neither
//! is ever changed. Both sides skip frames of unknown kinds.

use serde::{Deserialize, Serialize};

use super::kill::KillReport;
use super::records::{ExitRecord, StopKind};

/// The version that a shim sends in its hello. A daemon with another version can't adopt it.
pub const VERSION: u8 = 1;
/// The longest frame without its length, in bytes: a message for standard input and its header.
pub const FRAME_MAX: usize = 16 * 1024 * 1024 + 64;
/// The longest message for standard input, in bytes.
pub const STDIN_MESSAGE_MAX: usize = 16 * 1024 * 1024;

/// Why bytes of a peer are no frame of this protocol. The daemon ends the connection, except for `Unknown`. A
/// shim skips a frame that it can't decode, and ends the connection for a wrong length.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WireError {
    #[error("a frame of {0} bytes is too long")]
    TooLong(usize),
    #[error("a frame of kind {0:#04x} makes no sense")]
    Malformed(u8),
    #[error("frames of kind {0:#04x} are unknown")]
    Unknown(u8),
    #[error("the shim speaks version {0}, not {VERSION}")]
    Version(u8),
}

/// Which processes a signal goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The leader's process group. Processes that have left the group do not get the signal.
    Leader,
    /// Every process of the tree.
    Tree,
}

/// Whether the stages of both outputs come with the pipes. Older shims send no such byte, which means
/// `false`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staged(pub bool);

/// The state of a shim when a client connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The leader's pid.
    pub pid: i32,
    /// The highest sequence number of a message for standard input that was received whole. The message may
    /// not be written yet.
    pub stdin_sequence: u64,
    /// The highest sequence number whose message was written. `None`: an older shim does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin_written: Option<u64>,
}

/// Declares an enum of frames, each with its kind and the fields of its body in order.
macro_rules! frames {
    ($(#[$about:meta])* $name:ident {
        $($(#[$doc:meta])* $kind:literal
            $frame:ident $(($only:ident: $type:ty))? $({ $($field:ident: $types:ty),* })?,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $frame $(($type))? $({ $($field: $types),* })?,)*
        }

        impl $name {
            // The length, the kind and the body.
            pub fn encode(&self) -> Vec<u8> {
                let mut frame = vec![0; 4];
                match self {
                    $(Self::$frame $(($only))? $({ $($field),* })? => {
                        frame.push($kind);
                        $($only.put(&mut frame);)?
                        $($($field.put(&mut frame);)*)?
                    })*
                }
                // Senders stay below FRAME_MAX. The receiver refuses a longer frame.
                let len = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
                frame[..4].copy_from_slice(&len.to_le_bytes());
                frame
            }

            // Takes a frame without its length, as `first_frame` returns it.
            pub fn decode(frame: &[u8]) -> Result<Self, WireError> {
                let (&kind, rest) = frame.split_first().unwrap_or((&0, &[]));
                let mut body = Body { kind, rest };
                Ok(match kind {
                    $($kind => Self::$frame
                        $((<$type>::take(&mut body)?))?
                        $({ $($field: <$types>::take(&mut body)?),* })?,)*
                    _ => return Err(WireError::Unknown(kind)),
                })
            }
        }
    };
}

frames! {
    /// A request to a shim. Its `ticket` comes back with the answer.
    ShimRequest {
        /// From now on the client gets ticks and events.
        b'A' Subscribe,
        /// The client has taken note of the last tick.
        b't' TickSeen,
        /// One message for standard input, written whole. A number that the shim has received before is
        /// ignored, so a client may send the message again after a rescue.
        b'I' Stdin { sequence: u64, bytes: Vec<u8> },
        /// Closes standard input after the messages before it.
        b'C' CloseStdin,
        /// The answer is `Signalled`.
        b'S' Signal { ticket: u32, target: Target, signal: i32 },
        /// Kills the whole tree. The answer is `Killed`, and comes when the kill is over.
        b'K' KillTree { ticket: u32 },
        /// A stop begins. The exit record mentions the strongest kind that came before the leader's end.
        b'E' Stopping(kind: StopKind),
        /// Asks for duplicates of the pipes' ends and of the stages.
        b'F' Pipes,
        b'P' Ping { ticket: u32 },
        /// The leader's wait status (wait(2)), for a rescue shim, which is not the leader's parent.
        b'L' LeaderEnded { status: i32 },
    }
}

frames! {
    /// A message of a shim: an event or an answer.
    ShimMessage {
        /// The first message of every connection.
        b'H' Hello(hello: Hello),
        b'A' Subscribed,
        /// Bytes of each stream spooled so far. The shim sends the next tick only after
        /// [`ShimRequest::TickSeen`], so a slow client gets one tick for much output.
        b'T' Tick { stdout: u64, stderr: u64 },
        /// All messages up to this number were written to standard input. It also comes after `Subscribed`.
        b'a' StdinWritten { sequence: u64 },
        /// Standard input is closed: on request, or because the executor has closed its end.
        b'c' StdinClosed,
        /// The leader has ended, and its record is on disk.
        b'X' Exited(record: ExitRecord),
        /// The spool can't be written to, for this reason.
        b'!' Stalled(reason: String),
        b'.' Resumed,
        /// The tree was frozen (`true`) because the lease of the host is late, or was thawed.
        b'z' Frozen(is: bool),
        /// `count`: how many processes got the signal; for the leader's group 1, or 0.
        b's' Signalled { ticket: u32, count: u32 },
        b'k' Killed { ticket: u32, report: KillReport },
        /// Which descriptors come with the message, in the order of the fields; two for the stages. They are
        /// duplicates of the shim's ends of the pipes.
        b'f' Pipes { stdout: bool, stderr: bool, stdin: bool, staged: Staged },
        b'p' Pong { ticket: u32 },
    }
}

impl ShimRequest {
    /// Whether the frame is a [`ShimRequest::Stdin`], without a copy of its body.
    pub fn is_stdin(frame: &[u8]) -> bool {
        frame.first() == Some(&b'I')
    }
}

/// The first frame of `arrived` without its length, and how many bytes it took with its length. `None`: it is
/// not complete yet.
pub fn first_frame(arrived: &[u8]) -> Result<Option<(&[u8], usize)>, WireError> {
    let Some((len, rest)) = arrived.split_first_chunk::<4>() else { return Ok(None) };
    let len = usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX);
    match len {
        0 => Err(WireError::Malformed(0)),
        _ if len > FRAME_MAX => Err(WireError::TooLong(len)),
        _ => Ok(rest.get(..len).map(|frame| (frame, 4 + len))),
    }
}

/// The part of a frame's body that is not decoded yet.
struct Body<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl Body<'_> {
    fn malformed(&self) -> WireError {
        WireError::Malformed(self.kind)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(self.malformed())?;
        self.rest = rest;
        Ok(*bytes)
    }
}

/// A type that can be a field of a frame.
trait Field: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(body: &mut Body<'_>) -> Result<Self, WireError>;
}

/// Implements [`Field`] for types: `|value, out| put; |body| take;`.
macro_rules! fields {
    ($($($type:ty),*: |$value:ident, $out:ident| $put:expr, |$body:ident| $take:expr;)*) => {
        $($(impl Field for $type {
            fn put(&self, $out: &mut Vec<u8>) {
                let $value = self;
                $put;
            }

            fn take($body: &mut Body<'_>) -> Result<Self, WireError> {
                $take
            }
        })*)*
    };
}

fields! {
    i32, u32, u64:
        |number, out| out.extend(number.to_le_bytes()),
        |body| body.bytes().map(Self::from_le_bytes);
    bool:
        |is, out| out.push(u8::from(*is)),
        |body| body.bytes().map(|[byte]| byte != 0);
    Staged:
        |is, out| out.push(u8::from(is.0)),
        |body| Ok(Self(body.rest.first().is_some_and(|byte| *byte != 0)));
    Target:
        |target, out| out.push(if *target == Self::Leader { b'l' } else { b't' }),
        |body| match body.bytes()? {
            [b'l'] => Ok(Self::Leader),
            [b't'] => Ok(Self::Tree),
            _ => Err(body.malformed()),
        };
    StopKind:
        |kind, out| out.push(u8::from(*kind == Self::Forced)),
        |body| body.bytes().map(|[byte]| if byte == 0 { Self::Soft } else { Self::Forced });
    // The types from here on take all the rest of the body, so each can only be the last field.
    Vec<u8>:
        |bytes, out| out.extend_from_slice(bytes),
        |body| Ok(body.rest.to_vec());
    String:
        |text, out| out.extend_from_slice(text.as_bytes()),
        |body| Ok(String::from_utf8_lossy(body.rest).into_owned());
    ExitRecord, KillReport:
        // JSON can't represent maps whose keys are not strings. No report has such a map, so this never
        // fails.
        |report, out| out.extend(serde_json::to_vec(report).unwrap_or_default()),
        |body| serde_json::from_slice(body.rest).map_err(|_| body.malformed());
    Hello:
        |hello, out| {
            out.push(VERSION);
            out.extend(serde_json::to_vec(hello).unwrap_or_default());
        },
        |body| match body.bytes()? {
            [VERSION] => serde_json::from_slice(body.rest).map_err(|_| body.malformed()),
            [other] => Err(WireError::Version(other)),
        };
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
            ShimMessage::Hello(Hello { pid: 12, stdin_sequence: 3, stdin_written: Some(2) }),
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
            ShimMessage::Stalled("no room".into()),
            ShimMessage::Resumed,
            ShimMessage::Frozen(true),
            ShimMessage::Signalled { ticket: 1, count: 2 },
            ShimMessage::Killed {
                ticket: 1,
                report: KillReport { signalled: 4, survivors: vec![survivor] },
            },
            ShimMessage::Pipes { stdout: true, stderr: false, stdin: true, staged: Staged(false) },
            ShimMessage::Pipes { stdout: true, stderr: true, stdin: false, staged: Staged(true) },
            ShimMessage::Pong { ticket: 4 },
        ] {
            assert_eq!(ShimMessage::decode(only_frame(&message.encode())), Ok(message));
        }
    }

    #[test]
    fn a_shim_of_another_version_is_distinguished_from_nonsense() {
        assert_eq!(ShimMessage::decode(b"H\x02{}"), Err(WireError::Version(2)));
        assert_eq!(ShimMessage::decode(b"H\x01{}"), Err(WireError::Malformed(b'H')));
        assert_eq!(ShimMessage::decode(b"G"), Err(WireError::Unknown(b'G')), "of an older shim");
        let unstaged =
            ShimMessage::Pipes { stdout: true, stderr: true, stdin: true, staged: Staged(false) };
        assert_eq!(ShimMessage::decode(b"f\x01\x01\x01"), Ok(unstaged), "of an older shim");
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
