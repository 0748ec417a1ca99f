//! What a daemon hands to a shim that goes on where another has died: one message over a
//! socket pair, with the descriptors that must not be closed.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde::{Deserialize, Serialize};

use crate::process::attach::{Lifeline, receive as receive_some, send_with_fds};
use crate::process::identity::{PidFd, Process};

const MESSAGE_MAX: usize = 128 * 1024;

/// What is known of the process to go on with.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Takeover {
    /// The leader's wait status (wait(2)), if it has ended and the status is known.
    pub status: Option<i32>,
    pub roots: Vec<Process>,
    /// The last message for standard input that is known to be written.
    pub stdin_sequence: u64,
}

/// Sends it with the folder's lock and the lifeline's ends, which then survive this process.
pub fn send(
    stream: &UnixStream,
    takeover: &Takeover,
    lock: &File,
    lifeline: &Lifeline,
) -> io::Result<()> {
    let Lifeline { stdout, stderr, stdin, stages, leader, .. } = lifeline;
    let [stdout, stderr, stdin] = [stdout, stderr, stdin].map(|end| end.as_ref().map(AsFd::as_fd));
    let stage = |number: usize| stages.as_ref().map(|stages| stages[number].as_fd());
    let leader = leader.as_ref().map(|leader| leader.0.as_fd());
    let ends = [stdout, stderr, stdin, leader, stage(0), stage(1)];
    let message = serde_json::to_vec(&(takeover, ends.map(|end| end.is_some())))?;
    let fds: Vec<_> = std::iter::once(lock.as_fd()).chain(ends.into_iter().flatten()).collect();
    send_with_fds(stream, &message, &fds)
}

pub fn receive() -> io::Result<(Takeover, File, Lifeline)> {
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
    let (takeover, present): (Takeover, [bool; 6]) = serde_json::from_slice(&bytes)?;
    let mut fds = fds.into_iter();
    let lock = fds.next().ok_or(io::ErrorKind::InvalidData)?.into();
    let [stdout, stderr, stdin, leader, out_stage, err_stage] =
        present.map(|is| is.then(|| fds.next()).flatten());
    let stages = out_stage.zip(err_stage).map(<[OwnedFd; 2]>::from);
    let leader = leader.map(PidFd);
    Ok((takeover, lock, Lifeline { stdout, stderr, stdin, stages, leader, shim: None }))
}
