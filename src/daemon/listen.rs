//! The daemon's Unix socket: accepts clients of the same user, reads their hello, and serves one MCP
//! session each.
//!
//! ```text
//!  accept --> uid is ours --> where its process is --> hello --> welcome --> MCP lines
//! ```

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use provost_actors::blocking::if_there;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use crate::client::{Hello, Welcome};
use crate::domain::Domain;
use crate::home::Home;
use crate::mcp;

/// How long a connection may take to send its hello.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// Longest hello, in bytes.
const HELLO_MAX: u64 = 64 * 1024;
/// A pause after a failed accept(2), usually for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Binds the home's socket. The caller holds the home's lock, so a file at the path is left from a dead
/// daemon.
pub fn bind(home: &Home) -> io::Result<UnixListener> {
    home.make_socket_folder().map_err(io::Error::other)?;
    if_there(std::fs::remove_file(&home.socket))?;
    let listener = UnixListener::bind(&home.socket)?;
    std::fs::set_permissions(&home.socket, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Serves connections until `ending`. After it, sessions have 2 s to send the answers that they are at.
pub async fn serve(
    listener: UnixListener,
    domain: Arc<Domain>,
    limits: mcp::Limits,
    ending: CancellationToken,
) {
    let mut sessions = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            () = ending.cancelled() => break,
            Some(_) = sessions.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let (domain, limits) = (Arc::clone(&domain), limits.clone());
                    let ending = ending.child_token();
                    sessions.spawn(async move {
                        if let Err(error) = session(stream, domain, limits, ending).await {
                            tracing::debug!(%error, "a connection ended");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection can't be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
    drop(listener);
    // Each session sees the token and ends after its current answer.
    let all = async { while sessions.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(2), all).await;
}

/// Serves one connection from its hello to its end.
async fn session(
    stream: UnixStream,
    domain: Arc<Domain>,
    limits: mcp::Limits,
    ending: CancellationToken,
) -> io::Result<()> {
    let peer = stream.peer_cred()?;
    if peer.uid() != nix::unistd::geteuid().as_raw() {
        let message = format!("uid {}", peer.uid());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    let from =
        peer.pid().map_or_else(|| "socket".to_owned(), |pid| format!("socket, process {pid}"));
    // Before the first read, because the client may exit at any time, and an exited process can't be
    // located.
    let place = domain.place_of(&stream)?;
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    let mut start = (&mut read).take(HELLO_MAX);
    tokio::time::timeout(HELLO_WITHIN, start.read_until(b'\n', &mut line)).await??;
    let hello: Hello = serde_json::from_slice(&line)?;
    let caller = domain.caller(&hello, place, from).await;
    let mut welcome = serde_json::to_vec(&Welcome::of_process())?;
    welcome.push(b'\n');
    write.write_all(&welcome).await?;
    let stream = tokio::io::join(read, write);
    mcp::serve(stream, caller, domain, limits, ending).await;
    Ok(())
}
