//! Connects to a shim: the first messages, and the duplicates of its pipes' ends; and sends such ends on to a
//! rescue shim. Blocks, for [`DEADLINE`] for each read or write at most.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::libc;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::geteuid;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use super::identity::{PidFd, Process};
use super::wire::{self, Hello, ShimMessage, ShimRequest, WireError};

/// The control socket's name in the process's folder.
pub const SOCKET: &str = "sock";
/// How long a shim may take for its next message, and other short waits of this module's callers.
pub const DEADLINE: Duration = Duration::from_secs(5);
/// The most descriptors that one message carries. The kernel's own limit is 253 (unix(7)).
pub const FDS_MAX: usize = 64;
/// The most bytes of a takeover that a rescue shim reads.
const TAKEOVER_MAX: usize = 128 * 1024;

/// Why the daemon could not find out the state of a process, or could not reach its shim.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    #[error("the shim is there and does not answer")]
    Unresponsive,
    #[error("the shim's socket belongs to another user")]
    Foreign,
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("can't read the process's folder or reach its shim: {0}")]
    Io(#[from] io::Error),
}

/// Duplicates of a shim's ends of the pipes, and handles on the shim and its leader. While the daemon holds
/// them, the executor's pipes stay open if the shim dies.
#[derive(Debug, Default)]
pub struct PipeHandles {
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
    /// `None` once standard input is closed: a duplicate would keep it open.
    pub stdin: Option<OwnedFd>,
    /// The stages of stdout and stderr (`shim/stage`); `None`: the executor has no secrets.
    pub stages: Option<[OwnedFd; 2]>,
    /// `None`: the leader was dead, or of another boot, when the daemon attached.
    pub leader: Option<PidFd>,
    pub shim: Option<PidFd>,
}

/// A connection after its first messages, in non-blocking mode.
pub type Attached = (UnixStream, Hello, PipeHandles);

/// Sends SIGCONT to a shim: one that someone has stopped would not answer.
pub fn wake(shim: Option<&PidFd>) {
    if let Some(shim) = shim {
        // The shim may be dead by now. Then its socket is closed, and the caller notices that.
        let _ = shim.signal(libc::SIGCONT);
    }
}

/// Attaches to the shim of a folder. `None`: no shim listens, or it ended during the first messages. A read
/// that takes longer than [`DEADLINE`] gives `Unresponsive`.
pub fn attach(dir: &Path) -> Result<Option<Attached>, AdoptError> {
    match connect(dir) {
        Err(AdoptError::Io(error)) => match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => Ok(None),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Err(AdoptError::Unresponsive),
            _ => Err(AdoptError::Io(error)),
        },
        attached => attached.map(Some),
    }
}

/// The first messages, in the order that `wire` draws: hello, pipes, subscription. After the subscription
/// the shim sends events, so the descriptors must have come before it.
fn connect(dir: &Path) -> Result<Attached, AdoptError> {
    // Through the descriptor of the folder: `sun_path` (unix(7)) is too short for many paths.
    let folder = File::open(dir)?;
    let socket = format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd());
    let mut stream = UnixStream::connect(socket)?;
    let peer = getsockopt(&stream, PeerCredentials).map_err(io::Error::from)?;
    if peer.uid() != geteuid().as_raw() {
        return Err(AdoptError::Foreign);
    }
    // Best effort: if the shim ends now, its pid may pass to another process. The reads below then fail.
    let shim = PidFd::open(peer.pid()).ok();
    wake(shim.as_ref());
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;

    let ShimMessage::Hello(hello) = read_message(&mut stream, &mut Vec::new())? else {
        return Err(WireError::Malformed(b'H').into());
    };
    stream.write_all(&ShimRequest::Pipes.encode())?;
    let mut fds = Vec::new();
    let ShimMessage::Pipes { stdout, stderr, stdin, staged: wire::Staged(staged) } =
        read_message(&mut stream, &mut fds)?
    else {
        return Err(WireError::Malformed(b'f').into());
    };
    let mut fds = fds.into_iter();
    let mut end = |is_open: bool| is_open.then(|| fds.next()).flatten();
    let (stdout, stderr, stdin) = (end(stdout), end(stderr), end(stdin));
    let stages = end(staged).zip(end(staged)).map(<[OwnedFd; 2]>::from);
    stream.write_all(&ShimRequest::Subscribe.encode())?;
    // A shim that is about to end may not read the request. Then this read ends, and `attach` returns `None`.
    let ShimMessage::Subscribed = read_message(&mut stream, &mut Vec::new())? else {
        return Err(WireError::Malformed(b'A').into());
    };
    stream.set_nonblocking(true)?;
    let lifeline = PipeHandles { stdout, stderr, stdin, stages, leader: None, shim };
    Ok((stream, hello, lifeline))
}

/// Reads one frame and no byte beyond it, and adds its descriptors to `fds`. Descriptors arrive with the
/// first bytes of their message, so only the read of the length asks for them.
fn read_message(
    stream: &mut UnixStream,
    fds: &mut Vec<OwnedFd>,
) -> Result<ShimMessage, AdoptError> {
    let mut len = [0; 4];
    let got = receive(stream, &mut len, fds)?;
    stream.read_exact(&mut len[got..])?;
    let len = usize::try_from(u32::from_le_bytes(len)).unwrap_or(usize::MAX);
    if len > wire::FRAME_MAX {
        return Err(WireError::TooLong(len).into());
    }
    let mut frame = vec![0; len];
    stream.read_exact(&mut frame)?;
    Ok(ShimMessage::decode(&frame)?)
}

/// Reads some bytes, and adds the descriptors that come with them to `fds`. The end of the stream is
/// `UnexpectedEof`. Repeats a read that a signal interrupts: with a timeout set, the kernel does not restart
/// it (signal(7)), so each signal also begins the timeout again.
pub fn receive(stream: &UnixStream, bytes: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut buffer = RecvAncillaryBuffer::new(&mut space);
    let message = rustix::io::retry_on_intr(|| {
        let mut slices = [io::IoSliceMut::new(&mut *bytes)];
        recvmsg(stream, &mut slices, &mut buffer, RecvFlags::CMSG_CLOEXEC)
    })?;
    for part in buffer.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            fds.extend(received);
        }
    }
    if message.bytes == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(message.bytes) }
}

/// Sends all bytes with some descriptors in one message, or fails. Never waits: a full socket is
/// `WouldBlock`, or `WriteZero` if only a part fits.
pub fn send_with_fds(stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        rights.push(SendAncillaryMessage::ScmRights(fds));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let sent = sendmsg(stream, &[IoSlice::new(bytes)], &mut rights, flags)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// What a rescue shim gets to know of its process, beside the folder and the descriptors.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Takeover {
    /// The leader's wait status (wait(2)), if it has ended and the status is known.
    pub status: Option<i32>,
    /// Orphans of the dead shim, which only the daemon can find.
    pub roots: Vec<Process>,
    /// The last message for standard input that is known to be written. The new shim ignores repetitions up
    /// to it.
    pub stdin_sequence: u64,
}

/// Sends a takeover, the folder's lock and the handles to a rescue shim. The descriptors are in the socket's
/// queue from now on, so they stay open even if this process dies.
pub fn send_takeover(
    stream: &UnixStream,
    takeover: &Takeover,
    lock: &File,
    lifeline: &PipeHandles,
) -> io::Result<()> {
    let PipeHandles { stdout, stderr, stdin, stages, leader, .. } = lifeline;
    let [stdout, stderr, stdin] = [stdout, stderr, stdin].map(|end| end.as_ref().map(AsFd::as_fd));
    let stage = |number: usize| stages.as_ref().map(|stages| stages[number].as_fd());
    let leader = leader.as_ref().map(|leader| leader.0.as_fd());
    let ends = [stdout, stderr, stdin, leader, stage(0), stage(1)];
    let message = serde_json::to_vec(&(takeover, ends.map(|end| end.is_some())))?;
    let fds: Vec<_> = std::iter::once(lock.as_fd()).chain(ends.into_iter().flatten()).collect();
    send_with_fds(stream, &message, &fds)
}

/// Receives what [`send_takeover`] sent over standard input.
pub fn receive_takeover() -> io::Result<(Takeover, File, PipeHandles)> {
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (mut bytes, mut fds) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; 4096];
    while bytes.len() < TAKEOVER_MAX {
        match receive(&stream, &mut buffer, &mut fds) {
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
    Ok((takeover, lock, PipeHandles { stdout, stderr, stdin, stages, leader, shim: None }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::thread::JoinHandleExt;

    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

    use super::*;

    extern "C" fn nothing(_: i32) {}

    #[test]
    fn a_signal_does_not_end_a_read_that_has_a_deadline() {
        let handler = SigHandler::Handler(nothing);
        let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
        // SAFETY: the handler does nothing.
        unsafe { sigaction(Signal::SIGUSR1, &action) }.unwrap();
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        let reader = std::thread::spawn(move || receive(&ours, &mut [0; 4], &mut Vec::new()));
        for _ in 0..1000 {
            // SAFETY: the thread is not joined yet.
            unsafe { libc::pthread_kill(reader.as_pthread_t(), libc::SIGUSR1) };
            std::thread::yield_now();
        }
        theirs.write_all(b"word").unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), 4);
    }
}
