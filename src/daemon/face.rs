//! The sockets of the HTTP face: a TCP port, and a Unix socket in the home. This file accepts
//! connections, speaks TLS if it is configured, and finds out where the peer's process is; `http` decides
//! what is served. A connection that has proved no user yet is a stranger's. Only a few of them may be
//! open, and nothing is looked up for them:
//!
//! ```text
//!  accepted --> stranger --a token or cookie is valid--> user's     `place` is called: the seat is dropped
//!                  |
//!                  +-- one stranger too many: the oldest is ended
//!                  +-- no TLS handshake or no headers in time: ended
//! ```

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use provost_actors::blocking::{if_there, lock};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_util::sync::CancellationToken;

use crate::config::{self, Http};
use crate::domain::Domain;
use crate::home::{Home, PORT_FILE};
use crate::http::{self, Connection, HttpState, Names};
use crate::mcp::Limits;

/// Most open connections; further ones wait in the kernel's queue.
const CONNECTIONS: usize = 1024;
/// Most open connections of strangers; one more ends the oldest of them.
const UNAUTHENTICATED_MAX: usize = 256;
/// How long a client may take for a TLS handshake, and for the headers of a request.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);
/// How long a client may read nothing of an answer before its connection ends.
const STALLED: Duration = Duration::from_mins(1);
/// A pause after a failed accept(2), usually for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long answers may take once the daemon ends.
const GRACE: Duration = Duration::from_secs(2);

/// The bound sockets of the face.
pub struct Sockets {
    tcp: TcpListener,
    unix: UnixListener,
    tls: Option<TlsAcceptor>,
    names: Names,
    path: PathBuf,
}

impl Sockets {
    /// Binds the sockets. The error is a sentence that says why there is no HTTP face; the daemon runs
    /// without it then. Plain HTTP is refused at an address that other machines reach, unless
    /// `http.plain` allows it.
    pub fn bind(home: &Home, http: &Http) -> Result<Self, String> {
        let at = config::listen(&http.listen);
        let at = at.ok_or_else(|| "http.listen is \"off\"".to_owned())?;
        let tls = acceptor(http)?;
        if tls.is_none() && !at.ip().is_loopback() && http.plain != "everywhere" {
            return Err(format!(
                "http.listen is {at}, where others could read along: set http.tls_certificate and \
                 http.tls_key, or http.plain = \"everywhere\""
            ));
        }
        let cannot = |error: io::Error| format!("{at} can't be listened at: {error}");
        let tcp = listen(home, at).map_err(cannot)?;
        let port = tcp.local_addr().map_err(cannot)?.port();
        let path = home.http_socket();
        let bind = || {
            if_there(fs::remove_file(&path))?;
            let unix = UnixListener::bind(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            io::Result::Ok(unix)
        };
        let unix = bind().map_err(|error| format!("{}: {error}", path.display()))?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let names = Names { scheme, port, further: further(&http.names, at.ip()) };
        Ok(Self { tcp, unix, tls, names, path })
    }

    /// The URL by which a browser on this machine finds the page.
    pub fn url(&self) -> String {
        let Names { scheme, port, further } = &self.names;
        let at = self.tcp.local_addr().map_or(Ipv4Addr::LOCALHOST.into(), |at| at.ip());
        format!("{scheme}://{}:{port}", host(at, further))
    }

    /// Serves connections until the daemon ends.
    pub async fn serve(self, domain: Arc<Domain>, limits: Limits, ending: CancellationToken) {
        let Self { tcp, unix, tls, names, path } = self;
        let port = names.port;
        let face =
            HttpState::new(Arc::clone(&domain) as Arc<_>, limits, Some(names), ending.clone());
        let server = Server {
            router: http::router(Arc::new(face)),
            domain,
            tls,
            port,
            room: Arc::new(Semaphore::new(CONNECTIONS)),
            unauthenticated: UnauthenticatedConnections::default(),
            ending: ending.clone(),
        };
        let mut open = JoinSet::new();
        loop {
            let Ok(permit) = Arc::clone(&server.room).acquire_owned().await else { break };
            let accepted = tokio::select! {
                () = ending.cancelled() => break,
                Some(_) = open.join_next() => continue,
                accepted = tcp.accept() => accepted.map(|(stream, from)| {
                    open.spawn(server.clone().tcp(stream, from, permit));
                }),
                accepted = unix.accept() => accepted.map(|(stream, _)| {
                    open.spawn(server.clone().unix(stream, permit));
                }),
            };
            if let Err(error) = accepted {
                tracing::warn!(%error, "an HTTP connection can't be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        let all = async { while open.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GRACE, all).await;
        // No other daemon can have bound the path: this one still holds the home's lock.
        let _ = fs::remove_file(path);
    }
}

/// What serves one connection.
#[derive(Clone)]
struct Server {
    router: Router,
    domain: Arc<Domain>,
    tls: Option<TlsAcceptor>,
    port: u16,
    room: Arc<Semaphore>,
    unauthenticated: UnauthenticatedConnections,
    ending: CancellationToken,
}

/// The connections that have proved no user yet, oldest first. The weak pointer is dead once the
/// connection has proved one or has ended; the token ends the connection.
#[derive(Clone, Default)]
struct UnauthenticatedConnections(Arc<Mutex<VecDeque<Unauthenticated>>>);

/// One connection of a stranger, and what ends it.
type Unauthenticated = (Weak<()>, CancellationToken);

impl UnauthenticatedConnections {
    /// Adds a connection, which stays a stranger's until the returned `Arc` is dropped. The returned
    /// token is cancelled when the connection has to end.
    fn enter(&self) -> (Arc<()>, CancellationToken) {
        let mut all = lock(&self.0);
        all.retain(|(seat, _)| seat.strong_count() > 0);
        if all.len() >= UNAUTHENTICATED_MAX
            && let Some((_, oldest)) = all.pop_front()
        {
            oldest.cancel();
        }
        let (seat, end) = (Arc::new(()), CancellationToken::new());
        all.push_back((Arc::downgrade(&seat), end.clone()));
        (seat, end)
    }
}

impl Server {
    /// Serves a connection of the TCP port, with a TLS handshake first if TLS is configured.
    async fn tcp(self, stream: TcpStream, from: SocketAddr, permit: OwnedSemaphorePermit) {
        // Without this, the kernel would hold back small answers and events to merge them (tcp(7)).
        let _ = stream.set_nodelay(true);
        let (domain, port) = (Arc::clone(&self.domain), self.port);
        let (seat, end) = self.unauthenticated.enter();
        // Called once the caller has proved a user: only then is `/proc` searched.
        let place = move || {
            drop(seat);
            domain.place_of_port(port, from)
        };
        let connection = Connection::new(false, from.to_string(), place);
        let serving = async move {
            let Some(tls) = self.tls.clone() else { return self.http(stream, connection).await };
            let shaken = tokio::time::timeout(HEADERS_WITHIN, tls.accept(stream)).await;
            if let Ok(Ok(stream)) = shaken {
                self.http(stream, connection).await;
            }
        };
        end.run_until_cancelled(serving).await;
        drop(permit);
    }

    /// Serves a connection of the Unix socket. Other users are refused, and the peer's process is found
    /// before the first read, because it may exit at any time.
    async fn unix(self, stream: UnixStream, permit: OwnedSemaphorePermit) {
        let Ok(peer) = stream.peer_cred() else { return };
        if peer.uid() != nix::unistd::geteuid().as_raw() {
            return;
        }
        let Ok(place) = self.domain.place_of(&stream) else { return };
        let process = peer.pid().map_or_else(String::new, |pid| format!(", process {pid}"));
        let connection = Connection::new(true, format!("socket{process}"), move || place);
        self.http(stream, connection).await;
        drop(permit);
    }

    /// Speaks HTTP/1.1 on a connection until it ends. When the daemon ends, the current answer is still
    /// sent.
    async fn http(self, stream: impl AsyncRead + AsyncWrite + Send, connection: Connection) {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(STALLED));
        let router = TowerToHyperService::new(self.router);
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(connection.clone());
            router.call(request)
        });
        let stream = std::pin::pin!(stream);
        let stream: Pin<&mut TimeoutStream<_>> = stream;
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_WITHIN)
            .serve_connection(TokioIo::new(stream), service);
        let mut serving = std::pin::pin!(serving);
        let served = tokio::select! {
            served = serving.as_mut() => served,
            () = self.ending.cancelled() => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        };
        if let Err(error) = served {
            tracing::debug!(%error, "an HTTP connection broke");
        }
    }
}

/// The names beside the loopback's under which a listener at this address can be reached.
fn further(names: &[String], at: IpAddr) -> Vec<String> {
    let given =
        names.iter().map(|name| name.parse::<IpAddr>().map_or_else(|_| name.clone(), in_url));
    given.chain((!at.is_loopback() && !at.is_unspecified()).then(|| in_url(at))).collect()
}

/// The host in a URL that leads to a listener at this address.
fn host(at: IpAddr, further: &[String]) -> String {
    match (at, further) {
        (at, _) if at.is_loopback() => in_url(at),
        (_, [first, ..]) => first.clone(),
        (IpAddr::V4(_), []) => in_url(Ipv4Addr::LOCALHOST.into()),
        (IpAddr::V6(_), []) => in_url(Ipv6Addr::LOCALHOST.into()),
    }
}

/// An address as URLs and `Host` headers have it (RFC 3986): one of IPv6 is in brackets.
fn in_url(at: IpAddr) -> String {
    match at {
        IpAddr::V4(at) => at.to_string(),
        IpAddr::V6(at) => format!("[{at}]"),
    }
}

/// Listens at an address. With port 0, it takes the port of the daemon before, so that open pages and
/// bookmarks keep working, or else a free one.
fn listen(home: &Home, at: SocketAddr) -> io::Result<TcpListener> {
    let kept = home.data_dir.join(PORT_FILE);
    let bind = |at: SocketAddr| {
        let listener = std::net::TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    };
    if at.port() != 0 {
        return bind(at);
    }
    let before = fs::read_to_string(&kept).ok().and_then(|text| text.trim().parse().ok());
    if let Some(listener) = before.and_then(|port| bind(SocketAddr::new(at.ip(), port)).ok()) {
        return Ok(listener);
    }
    let listener = bind(at)?;
    fs::write(&kept, format!("{}\n", listener.local_addr()?.port()))?;
    Ok(listener)
}

/// The TLS side of the TCP port. `None`: TLS is not configured.
fn acceptor(http: &Http) -> Result<Option<TlsAcceptor>, String> {
    let (chain, key) = (&http.tls_certificate, &http.tls_key);
    if chain.is_empty() && key.is_empty() {
        return Ok(None);
    }
    if chain.is_empty() || key.is_empty() {
        return Err("http.tls_certificate and http.tls_key go together".to_owned());
    }
    let unreadable = |path: &str| format!("{path} can't be read as PEM");
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("{}: {error}", unreadable(chain)))?;
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| format!("{}: {error}", unreadable(key)))?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(|error| format!("the certificate in {chain} can't be used: {error}"))?;
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_url_is_a_name_that_requests_may_ask_for() {
        let cases: [(&[&str], &str, &str); 9] = [
            (&[], "127.0.0.1", "127.0.0.1"),
            (&[], "127.0.0.2", "127.0.0.2"),
            (&["box.lan"], "::1", "[::1]"),
            (&[], "::", "[::1]"),
            (&[], "0.0.0.0", "127.0.0.1"),
            (&["box.lan"], "0.0.0.0", "box.lan"),
            (&[], "192.0.2.7", "192.0.2.7"),
            (&[], "2001:db8::7", "[2001:db8::7]"),
            (&["2001:db8::8"], "::", "[2001:db8::8]"),
        ];
        for (names, at, expected) in cases {
            let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
            let at: IpAddr = at.parse().unwrap();
            let further = further(&names, at);
            let host = host(at, &further);
            assert_eq!(host, expected);
            let is_loopback = ["127.0.0.1", "127.0.0.2", "[::1]"].contains(&&*host);
            assert_eq!(further.contains(&host), !is_loopback, "{host}: {further:?}");
        }
    }

    #[test]
    fn one_unauthenticated_connection_too_many_ends_the_oldest_and_no_authenticated_one() {
        let unauthenticated = UnauthenticatedConnections::default();
        let (seat, known) = unauthenticated.enter();
        let mut others: Vec<_> =
            (1..UNAUTHENTICATED_MAX).map(|_| unauthenticated.enter()).collect();
        drop(seat);
        others.push(unauthenticated.enter());
        assert!(!known.is_cancelled() && others.iter().all(|(_, end)| !end.is_cancelled()));
        others.push(unauthenticated.enter());
        let ended = others.iter().map(|(_, end)| end.is_cancelled()).collect::<Vec<_>>();
        assert!(ended[0] && !ended[1..].contains(&true) && !known.is_cancelled());
    }
}
