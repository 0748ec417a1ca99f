//! Connecting to a shim: the first words, and the ends of its pipes. Blocks,
//! for [`DEADLINE`] a read at most; what follows is the connection's.

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::libc;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::geteuid;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::paths::SOCKET;
use super::pidfd::PidFd;
use super::wire::{self, Hello, ShimMessage, ShimRequest, WireError};

/// How long a shim may take for its next word.
pub const DEADLINE: Duration = Duration::from_secs(5);
/// Most descriptors that come with a message.
const FDS_MAX: usize = 8;

/// Why the daemon can't attach.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error("no shim listens")]
    Nobody,
    #[error("the shim does not answer")]
    Unresponsive,
    #[error("the shim's socket belongs to another user")]
    Foreign,
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("can't talk to the shim: {0}")]
    Io(io::Error),
}

impl From<io::Error> for AttachError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => Self::Nobody,
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Unresponsive,
            _ => Self::Io(error),
        }
    }
}

/// What keeps an executor whole when its shim dies: duplicates of its pipes'
/// ends, so that none of them breaks, of its stages, and a handle on it.
#[derive(Debug, Default)]
pub struct Lifeline {
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
    /// `None` once standard input is closed: a copy would keep it open.
    pub stdin: Option<OwnedFd>,
    /// Where both outputs lie between pipe and spool, if there are secrets.
    pub stages: Option<[OwnedFd; 2]>,
    /// The leader, if it lived still when we attached.
    pub leader: Option<PidFd>,
    /// The shim itself.
    pub shim: Option<PidFd>,
}

/// A connection after its hello, subscribed to every event.
#[derive(Debug)]
pub struct Attached {
    pub stream: UnixStream,
    pub hello: Hello,
    pub lifeline: Lifeline,
}

/// Lets a shim go on that somebody has stopped (SIGSTOP): it would answer nobody.
/// One that runs takes no message.
pub fn wake(shim: Option<&PidFd>) {
    if let Some(shim) = shim {
        // It may be dead by now; then its socket tells.
        let _ = shim.signal(libc::SIGCONT);
    }
}

/// Attaches to the shim of a folder.
pub fn attach(dir: &Path) -> Result<Attached, AttachError> {
    // By way of the open folder: `sun_path` (unix(7)) is too short for many paths.
    let folder = File::open(dir)?;
    let socket = format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd());
    let mut stream = UnixStream::connect(socket)?;
    let peer = getsockopt(&stream, PeerCredentials).map_err(io::Error::from)?;
    if peer.uid() != geteuid().as_raw() {
        return Err(AttachError::Foreign);
    }
    let shim = PidFd::open(peer.pid()).ok();
    wake(shim.as_ref());
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;

    let ShimMessage::Hello(hello) = read_message(&mut stream, &mut Vec::new())? else {
        return Err(WireError::Malformed(b'H').into());
    };
    stream.write_all(&ShimRequest::Pipes.encode())?;
    let mut fds = Vec::new();
    let ShimMessage::Pipes { stdout, stderr, stdin, staged } = read_message(&mut stream, &mut fds)?
    else {
        return Err(WireError::Malformed(b'f').into());
    };
    let mut fds = fds.into_iter();
    let mut end = |is_open: bool| is_open.then(|| fds.next()).flatten();
    let lifeline = Lifeline {
        stdout: end(stdout),
        stderr: end(stderr),
        stdin: end(stdin),
        stages: end(staged).zip(end(staged)).map(<[OwnedFd; 2]>::from),
        leader: None,
        shim,
    };
    stream.write_all(&ShimRequest::Subscribe.encode())?;
    // A shim that is about to end may not read the request.
    let ShimMessage::Subscribed = read_message(&mut stream, &mut Vec::new())? else {
        return Err(WireError::Malformed(b'A').into());
    };
    stream.set_nonblocking(true)?;
    Ok(Attached { stream, hello, lifeline })
}

/// Reads one frame and no byte beyond it. The descriptors that came with it go
/// to `fds`; they come with its first bytes (unix(7)).
fn read_message(
    stream: &mut UnixStream,
    fds: &mut Vec<OwnedFd>,
) -> Result<ShimMessage, AttachError> {
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

/// Reads some bytes and takes in what descriptors come with them. The kernel does
/// not restart a read with a deadline after a signal (signal(7)), and the daemon
/// gets a SIGCHLD at any time.
pub fn receive(stream: &UnixStream, bytes: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<usize> {
    loop {
        match receive_once(stream, bytes, fds) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            received => return received,
        }
    }
}

fn receive_once(
    stream: &UnixStream,
    bytes: &mut [u8],
    fds: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut buffer = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [io::IoSliceMut::new(bytes)];
    let message = recvmsg(stream, &mut slices, &mut buffer, RecvFlags::CMSG_CLOEXEC)?;
    for part in buffer.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            fds.extend(received);
        }
    }
    if message.bytes == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(message.bytes) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::thread::JoinHandleExt;

    use nix::libc;
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
