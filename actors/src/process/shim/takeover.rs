//! What a daemon hands to a shim that goes on where another has died: one
//! message over a socket pair, with the descriptors that must not be closed.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde::{Deserialize, Serialize};

use crate::process::attach::receive as receive_some;
use crate::process::identity::Process;
use crate::process::pidfd::PidFd;

/// Longest message, in bytes; some thousand orphans fit.
const MESSAGE_MAX: usize = 128 * 1024;

/// What is known of the process to go on with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Takeover {
    pub leader: Process,
    /// Its wait status (wait(2)), if it has ended and the status is known.
    pub status: Option<i32>,
    /// Orphans of its tree.
    pub roots: Vec<Process>,
    /// The last message for standard input that is known to be written.
    pub stdin_sequence: u64,
}

/// The descriptors: the folder's lock, held, and what a lifeline saved.
#[derive(Debug)]
pub struct Ends {
    pub lock: File,
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
    pub stdin: Option<OwnedFd>,
    pub leader: Option<PidFd>,
    pub stages: Option<[OwnedFd; 2]>,
}

#[derive(Serialize, Deserialize)]
struct TakeoverMessage {
    takeover: Takeover,
    /// Which of stdout, stderr, stdin, leader and the two stages come after the lock.
    present: [bool; 6],
}

/// Sends it; it is received even if we are gone by then.
pub fn send(stream: &UnixStream, takeover: Takeover, ends: &Ends) -> io::Result<()> {
    let pipes = [&ends.stdout, &ends.stderr, &ends.stdin].map(|end| end.as_ref().map(AsFd::as_fd));
    let [stdout, stderr, stdin] = pipes;
    let [out_stage, err_stage] =
        [0, 1].map(|number| ends.stages.as_ref().map(|stages| stages[number].as_fd()));
    let leader = ends.leader.as_ref().map(AsFd::as_fd);
    let optional = [stdout, stderr, stdin, leader, out_stage, err_stage];
    let present = optional.map(|end| end.is_some());
    let fds: Vec<RawFd> = std::iter::once(ends.lock.as_fd())
        .chain(optional.into_iter().flatten())
        .map(|end| end.as_raw_fd())
        .collect();
    let message = serde_json::to_vec(&TakeoverMessage { takeover, present })?;
    let sent = sendmsg::<()>(
        stream.as_raw_fd(),
        &[IoSlice::new(&message)],
        &[ControlMessage::ScmRights(&fds)],
        MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT,
        None,
    )?;
    if sent == message.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives it from standard input, which the sender has closed for writing.
pub fn receive() -> io::Result<(Takeover, Ends)> {
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (mut bytes, mut fds) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; 4096];
    while bytes.len() < MESSAGE_MAX {
        match receive_some(&stream, &mut buffer, &mut fds) {
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    let TakeoverMessage { takeover, present } = serde_json::from_slice(&bytes)?;
    let mut fds = fds.into_iter();
    let lock = fds.next().ok_or(io::ErrorKind::InvalidData)?.into();
    let [stdout, stderr, stdin, leader, out_stage, err_stage] =
        present.map(|is| is.then(|| fds.next()).flatten());
    let leader = leader.map(PidFd::from);
    let stages = out_stage.zip(err_stage).map(<[OwnedFd; 2]>::from);
    Ok((takeover, Ends { lock, stdout, stderr, stdin, leader, stages }))
}
