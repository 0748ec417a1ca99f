//! A network of its own for an executor, and the process that leads out of it: a proxy.
//!
//! ```text
//!  daemon ──starts──▶ proxy: listens at ./proxy, "ok" ─────────────┐ outside
//!    └──starts──▶ shim ─connects, forks──▶ child: a new namespace, │
//!                                           listens at its loopback┼─the listening socket──▶ proxy
//!                                           exec                   │
//! ```
//!
//! A socket belongs to the namespace in which it was made, whoever holds it. So the proxy accepts
//! connections inside the namespace and makes connections outside. Programs ask no proxy for addresses of
//! the loopback, so the proxy also listens at each allowed loopback port of the namespace (`passed`).
//!
//! The proxy needs neither daemon nor shim, and ends with the last process of the namespace. If it dies, the
//! executor has no network until the next turn.

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
use crate::sandbox::allowed_destinations::AllowedHost;
use crate::sandbox::{self, Sandbox};

/// The first argument of a proxy.
pub const ARGUMENT: &str = "__proxy";
/// The second argument of a proxy that only tries to make a namespace ([`probe`]).
pub const PROBE: &str = "probe";
/// The port at which the proxy listens on the loopback of the namespace. The variables `HTTP_PROXY` and so on
/// name it.
pub const PORT: u16 = 3128;
/// The proxy's socket in the process's folder. The proxy removes it once its shim has connected.
const SOCKET: &str = "proxy";
/// How long a proxy waits for its shim.
const FIRST: Duration = Duration::from_mins(1);
/// The pause between two searches for processes of a namespace whose first shim has died.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The proxy's side: the sockets that it got from inside the namespace, and the shim to watch.
pub struct Network {
    /// The listener at [`PORT`], for HTTP.
    pub listener: TcpListener,
    /// Listeners at allowed loopback addresses. The proxy passes a connection on to the same address outside.
    pub passed: Vec<TcpListener>,
    /// The inode of the namespace. The open listener keeps the namespace alive, so no other one gets the
    /// number.
    namespace: u64,
    shim: PidFd,
}

/// The loopback sockets that the hosts of a box open, in the order of the hosts.
pub fn passed(sandbox: Option<&Sandbox>) -> Vec<SocketAddr> {
    let hosts = sandbox.into_iter().flat_map(|it| &it.hosts);
    let listed = hosts.filter_map(|host| host.parse::<AllowedHost>().ok());
    listed.flat_map(|it| it.loopback()).collect()
}

/// Logs which of the loopback sockets of a box get no listener, because the message to the proxy can't carry
/// more.
pub fn warn_of_left_out(sandbox: Option<&Sandbox>) {
    // The first descriptor is the listener for HTTP.
    let passed = passed(sandbox);
    let left_out = passed.get(FDS_MAX - 1..).unwrap_or_default();
    if !left_out.is_empty() {
        tracing::warn!(?left_out, "more loopback ports are allowed than a proxy can listen at");
    }
}

/// The shim's connection to the proxy. The child inherits it through the fork and sends the listeners.
pub struct ProxyChannel(UnixStream);

impl ProxyChannel {
    /// Connects to the proxy of the working folder, which must be the process's folder.
    pub fn connect() -> io::Result<Self> {
        UnixStream::connect(SOCKET).map(Self)
    }

    /// Moves this process, which must have one thread (unshare(2)), into a network namespace that has only a
    /// loopback. Sends the proxy the listeners: one for HTTP at [`PORT`], and one for each of `passed`.
    /// Listeners beyond the first `FDS_MAX` are not sent.
    pub fn enter(self, passed: &[SocketAddr]) -> io::Result<()> {
        isolate()?;
        let mut listeners = vec![TcpListener::bind((Ipv4Addr::LOCALHOST, PORT))?];
        // A port that can't be bound is left out: the kernel refuses connections to it.
        listeners.extend(passed.iter().filter_map(|it| TcpListener::bind(it).ok()));
        let namespace = fs::metadata("/proc/self/ns/net")?.ino();
        let fds: Vec<_> = listeners.iter().take(FDS_MAX).map(AsFd::as_fd).collect();
        send_with_fds(&self.0, &namespace.to_le_bytes(), &fds)
    }
}

impl Network {
    /// Reports to the daemon that the proxy listens, then waits `FIRST` at most for the listeners of the
    /// namespace. Blocks. To be called in the process's folder, by a process that has one thread.
    pub fn receive() -> io::Result<Self> {
        if_there(fs::remove_file(SOCKET))?;
        let door = UnixListener::bind(SOCKET)?;
        let own = fs::symlink_metadata(SOCKET)?.ino();
        fs::set_permissions(SOCKET, Permissions::from_mode(0o600))?;
        report_ready("ok\n");
        let first = accept_unsandboxed(&door);
        // No later process may connect, so the socket is removed. A later try of the same start may have
        // bound a socket of its own by now: another inode, which stays.
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

    /// Waits until no process is left in the namespace. A shim ends after all of its tree, so while the first
    /// shim lives no search is needed. After its death a rescue shim may go on, so this searches once a
    /// second.
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

/// Accepts the first connection of a living process of this user that is in no box. An agent in a box may
/// have learnt the path of the socket. A process that has ended does not show whether it was in a box.
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

/// Why a child of `program` (this binary) can't have a network namespace here, as a sentence without its full
/// stop; `None`: it can. Blocks for some milliseconds, until the first success: that is remembered.
pub fn obstacle(program: &Path) -> Option<String> {
    // A namespace that could be made once can be made again, or else the start itself fails.
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

/// The process that [`obstacle`] starts: tries to make a namespace, and writes the error to standard output.
pub fn probe() -> io::Result<()> {
    isolate().inspect_err(|error| {
        let _ = write!(io::stdout(), "{error}");
    })
}

/// Enters a new network namespace. Root may do so directly. Other users need a new user namespace for it
/// (user_namespaces(7)), in which the user and the group are mapped to themselves.
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

/// Brings the interface `lo` up (netdevice(7)). The kernel assigns 127.0.0.1 and ::1 then.
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
