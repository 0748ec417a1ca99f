//! Asks a dev server whether it is ready: one GET to this machine, by HTTP/1.0.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::process::{Marker, sockets};
use crate::ready_url::Target;

/// How long one answer may take, and the pause before the next request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);
/// How many bytes of an answer are read: the status line is shorter.
const READ_MAX: usize = 64;

/// Waits until the dev server answers: `None`. `Some`: another program answers at its port, and which; not if
/// that is `seen`, which was reported before.
pub async fn answered(target: &Target, marker: Marker, seen: Option<&str>) -> Option<String> {
    loop {
        for address in target.addresses() {
            if !matches!(timeout(ANSWER_TIMEOUT, answers(address, target)).await, Ok(Ok(true))) {
                continue;
            }
            let port = target.port;
            let foreign = tokio::task::spawn_blocking(move || foreign(port, marker)).await;
            // A panic is logged by the panic hook.
            let Ok(foreign) = foreign else { continue };
            if foreign.is_none() || foreign.as_deref() != seen {
                return foreign;
            }
        }
        sleep(PAUSE).await;
    }
}

/// Who listens at a port, if no process of the dev server does. Blocking.
fn foreign(port: u16, marker: Marker) -> Option<String> {
    let holders = sockets::listeners(port);
    if holders.iter().any(|pid| marker.has_started(*pid)) {
        return None;
    }
    let who = sockets::described(&holders);
    Some(format!("port {port} is answered by {who}, which is not the dev server's"))
}

/// Sends a GET to one address. Whether the answer's status counts.
async fn answers(address: IpAddr, target: &Target) -> io::Result<bool> {
    let mut stream = TcpStream::connect((address, target.port)).await?;
    let (path, host) = (&target.path, target.authority());
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::with_capacity(READ_MAX);
    while answer.len() < READ_MAX && !answer.contains(&b'\n') {
        let mut some = [0; READ_MAX];
        let count = stream.read(&mut some).await?;
        if count == 0 {
            break;
        }
        answer.extend_from_slice(&some[..count]);
    }
    Ok(is_ready(&answer))
}

/// Whether the status line is that of a server that works: 2xx to 4xx, because the path need not exist.
fn is_ready(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let mut words = text.split_ascii_whitespace();
    let is_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
    let code = words.next().and_then(|code| code.parse::<u16>().ok());
    is_http && code.is_some_and(|code| (200..500).contains(&code))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::ids::{AttemptId, ProcessId};

    #[test]
    fn a_server_that_fails_or_speaks_something_else_is_not_ready() {
        for good in ["HTTP/1.0 200 OK\r\n", "HTTP/1.1 404 Not Found\r\n", "HTTP/1.1 302 \r\n"] {
            assert!(is_ready(good.as_bytes()), "{good}");
        }
        for bad in ["HTTP/1.1 503 Starting\r\n", "SSH-2.0-x 200\r\n", "HTTP/1.1 \r\n", ""] {
            assert!(!is_ready(bad.as_bytes()), "{bad}");
        }
    }

    #[tokio::test]
    async fn it_waits_until_the_server_works() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            for answer in ["HTTP/1.1 500 no\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 512];
                let count = stream.read(&mut request).await.unwrap();
                let request = String::from_utf8_lossy(&request[..count]).into_owned();
                assert!(request.starts_with("GET /a?b HTTP/1.0\r\nHost: 127.0.0.1:"), "{request}");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            // It is still to be found at its port.
            listener
        });
        let target = Target { host: "127.0.0.1".to_owned(), port, path: "/a?b".to_owned() };
        let marker = Marker { attempt: AttemptId::new(), process: ProcessId::new() };
        let foreign = answered(&target, marker, None).await.unwrap();
        drop(serving.await.unwrap());
        let own = format!("port {port} is answered by process {} (", std::process::id());
        assert!(foreign.starts_with(&own), "it is not the server's: {foreign}");
    }
}
