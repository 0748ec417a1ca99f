//! A network of its own for an executor, and the process that leads out of it: a proxy.
//!
//! ```text
//!  daemon ──starts──▶ proxy: listens at ./proxy, "ok" ─────────────┐ outside
//!    └──starts──▶ shim ─connects, forks──▶ child: a new namespace, │
//!                                           listens at its loopback┼─the listening socket──▶ proxy
//!                                           exec                   │
//! ```
//!
//! A socket belongs to the namespace in which it was made, whoever holds it: so the proxy accepts
//! inside, and connects outside; also at the ports of this machine's loopback that are allowed, for which
//! programs ask no proxy. It needs neither daemon nor shim to go on, and ends with the last
//! process of the namespace. If it dies, the network is closed until the next turn.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::{getegid, geteuid};

use super::attach::{DEADLINE, FDS_MAX, receive, send_with_fds};
use super::handshake::report_ready;
use super::identity::{Peer, PidFd};
use super::proc;
use crate::blocking::{blocking, if_there};
use crate::sandbox;

/// The first argument of a proxy.
pub const ARGUMENT: &str = "__proxy";
/// The second argument of one that only tries whether a namespace can be had.
pub const PROBE: &str = "probe";
/// Where the proxy listens in the namespace, on its loopback.
pub const PORT: u16 = 3128;
/// The proxy's socket in the process's folder, until its shim has come.
const SOCKET: &str = "proxy";
/// How long a proxy waits for its shim.
const FIRST: Duration = Duration::from_mins(1);
/// Between two looks for processes in a namespace that no shim watches.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What the proxy has of its namespace.
pub struct Network {
    pub listener: TcpListener,
    /// Those at which connections lead to the same address outside.
    pub passed: Vec<TcpListener>,
    /// The inode of the namespace, which stays its own while the listener is open.
    namespace: u64,
    shim: PidFd,
}

/// The shim's connection to the proxy, which its child takes along.
pub struct ProxyChannel(UnixStream);

impl ProxyChannel {
    /// To be called in the process's folder.
    pub fn connect() -> io::Result<Self> {
        UnixStream::connect(SOCKET).map(Self)
    }

    /// Moves this process, which has one thread, into a network of its own that has nothing but
    /// its loopback, and hands the proxy the sockets to listen at: its own, and those of its loopback
    /// that lead to the same ones outside.
    pub fn enter(self, passed: &[SocketAddr]) -> io::Result<()> {
        isolate()?;
        let mut listeners = vec![TcpListener::bind((Ipv4Addr::LOCALHOST, PORT))?];
        // Where one can't be had, the connection is refused.
        listeners.extend(passed.iter().filter_map(|it| TcpListener::bind(it).ok()));
        let namespace = fs::metadata("/proc/self/ns/net")?.ino();
        let fds: Vec<_> = listeners.iter().take(FDS_MAX).map(AsFd::as_fd).collect();
        send_with_fds(&self.0, &namespace.to_le_bytes(), &fds)
    }
}

impl Network {
    /// Announces to the daemon that the proxy is there, and waits for the namespace. To be called
    /// in the process's folder by a process that has one thread.
    pub fn receive() -> io::Result<Self> {
        if_there(fs::remove_file(SOCKET))?;
        let door = UnixListener::bind(SOCKET)?;
        let own = fs::symlink_metadata(SOCKET)?.ino();
        fs::set_permissions(SOCKET, Permissions::from_mode(0o600))?;
        report_ready("ok\n");
        let first = accept_unsandboxed(&door);
        // Whoever comes later must not be heard. The socket of a later proxy stays.
        if fs::symlink_metadata(SOCKET).is_ok_and(|there| there.ino() == own) {
            if_there(fs::remove_file(SOCKET))?;
        }
        let (stream, shim) = first?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let (mut inode, mut fds) = ([0; 8], Vec::new());
        let count = receive(&stream, &mut inode, &mut fds)?;
        let mut listeners = fds.into_iter().map(TcpListener::from);
        let listener = listeners.next().filter(|_| count == inode.len());
        let listener = listener.ok_or(io::ErrorKind::InvalidData)?;
        let passed: Vec<TcpListener> = listeners.collect();
        for listener in passed.iter().chain([&listener]) {
            listener.set_nonblocking(true)?;
        }
        Ok(Self { listener, passed, namespace: u64::from_le_bytes(inode), shim })
    }

    /// Waits until no process is left in the namespace. The shim, and then another that replaces
    /// it, ends after all of them: as long as the first one lives, nothing has to be looked for.
    pub async fn gone(self) -> io::Result<()> {
        let Self { namespace, shim, listener, passed } = self;
        shim.dead().await?;
        while blocking(move || io::Result::Ok(is_inhabited(namespace))).await? {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        drop((listener, passed));
        Ok(())
    }
}

/// The first of this user's to connect that is in no box, and has not ended: what is in one may
/// have learnt the path, and what has ended shows no box.
fn accept_unsandboxed(door: &UnixListener) -> io::Result<(UnixStream, PidFd)> {
    let timeout = PollTimeout::try_from(FIRST).unwrap_or(PollTimeout::MAX);
    loop {
        let mut fds = [PollFd::new(door.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, timeout)? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let (stream, _) = door.accept()?;
        let is_ours = getsockopt(&stream, PeerCredentials)?.uid() == geteuid().as_raw();
        let peer = Peer::of(&stream)?;
        if is_ours
            && peer.sure(sandbox::holds) == Some(false)
            && let Some(shim) = peer.into_handle()
        {
            return Ok((stream, shim));
        }
    }
}

fn is_inhabited(namespace: u64) -> bool {
    let inode = |pid: i32| Some(fs::metadata(format!("/proc/{pid}/ns/net")).ok()?.ino());
    proc::all().into_iter().any(|pid| inode(pid) == Some(namespace))
}

/// Why a program, which is this one, can't have a network of its own; `None`: it can. Blocks for
/// some milliseconds.
pub fn obstacle(program: &Path) -> Option<String> {
    // What could be had once can be had again, or the start itself fails.
    static HAD: AtomicBool = AtomicBool::new(false);
    if HAD.load(Ordering::Relaxed) {
        return None;
    }
    #[expect(clippy::disallowed_methods, reason = "a process with one thread has to try it")]
    let mut command = Command::new(program);
    command.args([ARGUMENT, PROBE]).env_clear().stdin(Stdio::null()).stderr(Stdio::null());
    let reason = match command.output() {
        Ok(output) if output.status.success() => {
            HAD.store(true, Ordering::Relaxed);
            return None;
        }
        Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Some(format!("a process can't have a network namespace of its own here ({reason})"))
}

/// The same as [`obstacle`], in the process that tries it. The error goes to standard output.
pub fn probe() -> io::Result<()> {
    isolate().inspect_err(|error| {
        let _ = write!(io::stdout(), "{error}");
    })
}

/// A new network namespace. Root makes it as it is; others need a user namespace for it, in which
/// they are who they were.
fn isolate() -> io::Result<()> {
    if unshare(CloneFlags::CLONE_NEWNET).is_err() {
        let (user, group) = (geteuid(), getegid());
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)?;
        // Without it, a group map is refused (user_namespaces(7)).
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    raise_loopback()
}

/// netdevice(7). The kernel gives it its addresses then.
fn raise_loopback() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_flags: libc::c_short::try_from(libc::IFF_UP).map_err(io::Error::other)?,
        },
    };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    // SAFETY: the request is a whole structure of the kind that this call reads.
    let raised = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    Errno::result(raised)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// It may have been in a box, which nothing shows any more.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test needs a real peer")]
    fn a_peer_that_has_ended_is_not_heard() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(SOCKET);
        let door = UnixListener::bind(&path).unwrap();
        let connect = format!("import socket; socket.socket(1).connect('{}')", path.display());
        assert!(Command::new("python3").args(["-c", &connect]).status().unwrap().success());
        let mut own = UnixStream::connect(&path).unwrap();
        own.write_all(b"x").unwrap();
        let (mut heard, _) = accept_unsandboxed(&door).unwrap();
        heard.read_exact(&mut [0]).unwrap();
    }
}
