//! A client of the HTTP face that says exactly what a test writes, also what no browser would.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value, json};

use super::{Provost, TIMEOUT, eventually};

pub struct Web {
    /// `127.0.0.1:41237`.
    pub address: String,
    /// The owner's token.
    pub token: String,
}

/// An answer, with its body whole.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    /// As they came, without the status line.
    pub headers: String,
    pub body: String,
}

impl Page {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Web {
    /// The face of a daemon that runs.
    pub fn of(provost: &Provost) -> Self {
        let read = |name: &str| {
            let text = eventually(name, || fs::read_to_string(provost.home().join(name)).ok());
            text.trim().to_owned()
        };
        Self { address: format!("127.0.0.1:{}", read("http-port")), token: read("http-token") }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = eventually("the face listens", || TcpStream::connect(&self.address).ok());
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Sends a request with these headers and no others than it takes.
    pub fn send(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Page {
        let own_host = !headers.iter().any(|(name, _)| *name == "host");
        let own = [
            own_host.then(|| format!("host: {}\r\n", self.address)),
            (!body.is_empty()).then(|| format!("content-length: {}\r\n", body.len())),
        ];
        let mut text = format!("{line} HTTP/1.1\r\nconnection: close\r\n");
        text.extend(own.into_iter().flatten());
        text.extend(headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
        let mut stream = self.connect();
        // A server that refuses early may not read it all.
        let _ = stream.write_all(format!("{text}\r\n{body}").as_bytes());
        read(BufReader::new(stream))
    }

    /// The same with the owner's token.
    pub fn get(&self, path: &str) -> Page {
        self.send(&format!("GET {path}"), &[("authorization", &self.bearer())], "")
    }

    pub fn call(&self, tool: &str, arguments: &Value) -> Page {
        let headers =
            [("authorization", self.bearer()), ("content-type", "application/json".into())];
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        self.send(&format!("POST /api/v1/{tool}"), &headers, &arguments.to_string())
    }

    pub fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    /// Logs a browser in; returns its cookie.
    pub fn log_in(&self, provost: &Provost) -> String {
        let link = provost.verb(["open", "--print", "--json"]).json()["url"].clone();
        let path = link.as_str().unwrap().split_once(&self.address).unwrap().1.to_owned();
        let page = self.send(&format!("GET {path}"), &[], "");
        assert_eq!(page.status, 200, "{page:?}");
        let cookie = page.header("set-cookie").unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    /// Opens the stream of events after a change; the events come line by line.
    pub fn events(&self, after: Option<u64>) -> Events {
        let mut stream = self.connect();
        let after = after.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let (address, bearer) = (&self.address, self.bearer());
        write!(
            stream,
            "GET /events HTTP/1.1\r\nhost: {address}\r\nauthorization: {bearer}\r\n{after}\r\n"
        )
        .unwrap();
        Events(BufReader::new(stream))
    }
}

/// A stream of events.
pub struct Events(BufReader<TcpStream>);

impl Events {
    /// The next event that satisfies, with its id; `None`: the stream ended.
    pub fn until(&mut self, mut is_it: impl FnMut(&Value) -> bool) -> Option<(u64, Value)> {
        let mut id = 0;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            // A silent stream still has its beats.
            assert!(Instant::now() < deadline, "the stream goes on without what is waited for");
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end();
            if let Some(given) = line.strip_prefix("id: ") {
                id = given.parse().unwrap();
            } else if let Some(data) = line.strip_prefix("data: ") {
                let data = serde_json::from_str(data).unwrap();
                if is_it(&data) {
                    return Some((id, data));
                }
            }
        }
    }

    /// Where it begins.
    pub fn begin(&mut self) -> u64 {
        self.until(|data| *data == json!({})).unwrap().0
    }
}

fn read(mut stream: BufReader<TcpStream>) -> Page {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).unwrap() > 0, "cut off: {head}");
    }
    let (first, headers) = head.split_once("\r\n").unwrap();
    let status = first.split(' ').nth(1).unwrap().parse().unwrap();
    let mut body = Vec::new();
    if headers.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        loop {
            let mut size = String::new();
            stream.read_line(&mut size).unwrap();
            let size = usize::from_str_radix(size.trim(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).unwrap();
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                break;
            }
        }
    } else {
        stream.read_to_end(&mut body).unwrap();
    }
    Page { status, headers: headers.to_owned(), body: String::from_utf8_lossy(&body).into_owned() }
}
