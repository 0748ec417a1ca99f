//! The proxy's side of HTTP: CONNECT for a tunnel, and requests with an absolute `http` URL, of which each is
//! decided by itself. It connects to the address that was decided about, never to the name: a second
//! resolution could give another address.
//!
//! ```text
//!  asked: authority, Host header ──▶ reach: list, resolve, address, connect ──▶ record ──▶ tunnel or forward
//!     └─ Malformed, NoProxyRequest,      └─ refused: 403 with the reason
//!        Differs: 403                    └─ unreachable: 502
//! ```

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::header::{TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use provost_actors::blocking::lock;
use provost_actors::sandbox::allowed_destinations::{Host, Refused, Target};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::Proxy;
use super::record::Refusal;

/// The most connections at once, for each listener. Further ones wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 512;
/// How long a client may take for the head of a request, a name to be resolved, and one address of a host to
/// accept a connection.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
/// The most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;
/// The pause after accept(2) has failed, for example because no descriptor is left.
const AGAIN: Duration = Duration::from_millis(100);

/// Why a request is not carried out.
enum Failure {
    Refused(Refused),
    /// It is allowed, and no connection could be made.
    Unreachable(io::Error),
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

/// A listener in the namespace, with the limit of its connections.
struct ProxyChannel {
    listener: TcpListener,
    room: Arc<Semaphore>,
}

impl ProxyChannel {
    fn new(listener: std::net::TcpListener) -> io::Result<Self> {
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        Ok(Self { listener: TcpListener::from_std(listener)?, room })
    }

    /// The next connection, with its permit. The caller keeps the permit as long as the connection lives.
    async fn next(&self) -> (TcpStream, Option<OwnedSemaphorePermit>) {
        // The semaphore is never closed, so there is always a permit.
        let place = Arc::clone(&self.room).acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => return (stream, place),
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }
}

/// Serves HTTP as a proxy, until the future is dropped. Fails only if the listener can't be registered.
pub async fn serve(listener: std::net::TcpListener, proxy: Arc<Proxy>) -> io::Result<()> {
    let door = ProxyChannel::new(listener)?;
    loop {
        let (stream, place) = door.next().await;
        let (proxy, place) = (Arc::clone(&proxy), Arc::new(place));
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let (proxy, place) = (Arc::clone(&proxy), Arc::clone(&place));
                // A tunnel lives longer than the task of its HTTP connection, so it keeps the permit.
                async move { Ok::<_, Infallible>(answer(&proxy, request, place).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(STEP_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            // An error here is a fault of the client, which sees it.
            let _ = connection.await;
        });
    }
}

/// Passes connections to an allowed loopback address of the namespace on to the same address outside. The
/// list has allowed the address, so each connection is recorded as allowed.
pub async fn pass(listener: std::net::TcpListener, proxy: Arc<Proxy>) -> io::Result<()> {
    let address = listener.local_addr()?;
    let door = ProxyChannel::new(listener)?;
    loop {
        let (mut stream, place) = door.next().await;
        lock(&proxy.record).keep(&address.to_string(), &Ok(()));
        tokio::spawn(async move {
            if let Ok(Ok(mut there)) = timeout(STEP_TIMEOUT, TcpStream::connect(address)).await {
                let _ = copy_bidirectional(&mut stream, &mut there).await;
            }
            drop(place);
        });
    }
}

/// Decides about a request, records the decision, and carries the request out.
async fn answer<P: Send + 'static>(
    proxy: &Proxy,
    request: Request<Incoming>,
    place: P,
) -> Response<Body> {
    let asked = asked(&request);
    let (text, target) = match &asked {
        Ok((authority, target)) => (authority.to_string(), Ok(target.clone())),
        Err(refused) => (request.uri().to_string(), Err(refused.clone())),
    };
    let is_asked_for = |target: &&Target| proxy.refused.judge(target).is_err();
    let line = target.as_ref().ok().filter(is_asked_for).map(Target::line);
    let reached = match target {
        Ok(target) => reach(proxy, &target).await,
        Err(refused) => Err(Failure::Refused(refused)),
    };
    let decided = match &reached {
        Err(Failure::Refused(refused)) => Err(Refusal {
            reason: refused.to_string(),
            allow: line.clone().filter(|_| refused.is_by_list()),
        }),
        Ok(_) | Err(Failure::Unreachable(_)) => Ok(()),
    };
    lock(&proxy.record).keep(&text, &decided);
    match (reached, asked) {
        (Ok(stream), Ok(_)) if request.method() == Method::CONNECT => {
            tokio::spawn(tunnel(request, stream, place));
            Response::new(Body::empty())
        }
        (Ok(stream), Ok((authority, _))) => {
            forward(request, &authority, stream).await.unwrap_or_else(|error| {
                rejection(StatusCode::BAD_GATEWAY, format!("{text} did not answer: {error}\n"))
            })
        }
        (Err(Failure::Unreachable(error)), _) => {
            rejection(StatusCode::BAD_GATEWAY, format!("{text} can't be reached: {error}\n"))
        }
        (Err(Failure::Refused(refused)), _) | (Ok(_), Err(refused)) => {
            refusal(&text, &refused, line.is_some())
        }
    }
}

fn rejection(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
}

/// The text for the agent: what was refused, why, and which way is open. `is_asked_for`: a person may be
/// asked for this host.
fn refusal(host: &str, refused: &Refused, is_asked_for: bool) -> Response<Body> {
    let way_out = if refused.is_by_list() && is_asked_for {
        "If the task needs this host, say so and try again later: a person can allow it, for this \
         project (`provost approvals` lists what its agent asked for) or for good in config.toml, \
         by allow_hosts."
    } else {
        "If the task needs this host, say so: a person can change allow_hosts in config.toml."
    };
    let text = format!(
        "The sandbox refuses this connection: {host} {refused}. Do not try to get around it. \
         {way_out}\n"
    );
    rejection(StatusCode::FORBIDDEN, text)
}

/// The destination of a request: the authority of its URL, and its meaning. Refuses requests that two HTTP
/// implementations could read in different ways, since the decision must be about what is sent.
fn asked(request: &Request<Incoming>) -> Result<(Authority, Target), Refused> {
    let (uri, headers) = (request.uri(), request.headers());
    let authority = uri.authority().ok_or(Refused::NoProxyRequest)?;
    let usual = match (request.method(), uri.scheme()) {
        (&Method::CONNECT, None) => None,
        (_, Some(scheme)) if *scheme == Scheme::HTTP => Some(80),
        _ => return Err(Refused::NoProxyRequest),
    };
    // Implementations differ in how they read a user before the host, and a body with two lengths.
    let is_twofold =
        headers.contains_key(CONTENT_LENGTH) && headers.contains_key(TRANSFER_ENCODING);
    let has_user = authority.as_str().contains('@');
    let has_odd_port = authority.port().is_some() && authority.port_u16().is_none();
    let port = authority.port_u16().or(usual).ok_or(Refused::NoProxyRequest)?;
    if is_twofold || has_user || has_odd_port {
        return Err(Refused::NoProxyRequest);
    }
    let target = Target { host: authority.host().parse()?, port };
    for header in headers.get_all(HOST) {
        let named: Option<Authority> = header.as_bytes().try_into().ok();
        let named = named.ok_or(Refused::Differs)?;
        let default = if request.method() == Method::CONNECT { 443 } else { 80 };
        let is_same_port = named.port_u16().unwrap_or(default) == port
            // Some clients leave the port out of the Host header of CONNECT.
            || (request.method() == Method::CONNECT && named.port().is_none());
        if named.host().parse() != Ok(target.host.clone()) || !is_same_port {
            return Err(Refused::Differs);
        }
    }
    Ok((authority.clone(), target))
}

/// Connects to a target if the list allows its name and one of its first addresses. The error is that of
/// the last address.
async fn reach(proxy: &Proxy, target: &Target) -> Result<TcpStream, Failure> {
    let allowed = proxy.list(target);
    allowed.judge(target)?;
    let addresses = match &target.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) if name == "localhost" => {
            vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]
        }
        Host::Name(name) => {
            let found = timeout(STEP_TIMEOUT, lookup_host((name.as_str(), target.port))).await;
            let found = found.map_err(|_| Failure::Unreachable(io::ErrorKind::TimedOut.into()))?;
            found.map_err(Failure::Unreachable)?.map(|it| it.ip()).collect()
        }
    };
    let mut last = Failure::Unreachable(io::ErrorKind::NotFound.into());
    for address in addresses.into_iter().take(ADDRESSES_MAX) {
        // Read again each time: interfaces get and lose addresses.
        let own = own_addresses().map_err(Failure::Unreachable)?;
        if let Err(refused) = allowed.judge_address(target, address, &own) {
            last = refused.into();
            continue;
        }
        match timeout(STEP_TIMEOUT, TcpStream::connect(SocketAddr::new(address, target.port))).await
        {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = Failure::Unreachable(error),
            Err(_) => last = Failure::Unreachable(io::ErrorKind::TimedOut.into()),
        }
    }
    Err(last)
}

/// The addresses of all interfaces of this machine.
fn own_addresses() -> io::Result<Vec<IpAddr>> {
    let address = |it: InterfaceAddress| {
        let address = it.address?;
        let four = address.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
        four.or_else(|| address.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip())))
    };
    Ok(getifaddrs()?.filter_map(address).collect())
}

/// After CONNECT: copies bytes both ways, whatever they are, until either side ends.
async fn tunnel<P>(request: Request<Incoming>, mut stream: TcpStream, place: P) {
    if let Ok(upgraded) = hyper::upgrade::on(request).await {
        // An error here means that one side has ended.
        let _ = copy_bidirectional(&mut TokioIo::new(upgraded), &mut stream).await;
    }
    drop(place);
}

/// Sends a request to the host over a new connection: with a relative path, with the Host header of its
/// URL, and without headers for the next hop.
async fn forward(
    mut request: Request<Incoming>,
    authority: &Authority,
    stream: TcpStream,
) -> Result<Response<Body>, hyper::Error> {
    keep_to_ends(request.headers_mut());
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    if let Ok(host) = HeaderValue::from_str(authority.as_str()) {
        request.headers_mut().insert(HOST, host);
    }
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // The task of the connection ends with the response.
    tokio::spawn(connection);
    let mut response = sender.send_request(request).await?;
    keep_to_ends(response.headers_mut());
    Ok(response.map(Body::new))
}

/// Removes headers that are for the next hop only (RFC 9110, section 7.6.1), and those that the `Connection`
/// header names. `Content-Length` stays even if it is named there: the body must keep its length.
fn keep_to_ends(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','))
        .filter_map(|it| it.trim().parse().ok())
        .collect();
    for name in named.iter().filter(|name| **name != CONTENT_LENGTH) {
        headers.remove(name);
    }
    for name in [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    for name in ["keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate"] {
        headers.remove(name);
    }
}
