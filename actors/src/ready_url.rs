//! The URL at which a dev server is asked whether it is ready. It is of this machine only, so that a
//! configuration from a repository can't make the daemon call others. Pure.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `http://HOST[:PORT][/PATH]`, whose port may be the name of one of the attempt's ports:
/// `http://localhost:$WEB_PORT/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyUrl {
    host: String,
    port: Port,
    /// With its query; begins with `/`.
    path: String,
}

/// A port, as the configuration gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Port {
    Number(u16),
    Named(String),
}

/// Where to connect to, and what to ask for: a [`ReadyUrl`] whose port is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub host: String,
    pub port: u16,
    pub path: String,
}

impl ReadyUrl {
    /// `None` for everything else than such a URL of this machine: another scheme or host, port 0, or odd
    /// characters.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '<' | '>' | '\\' | '#');
        let rest = text.strip_prefix("http://").filter(|rest| rest.chars().all(is_plain))?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (host, port) = match authority.strip_prefix('[') {
            Some(six) => {
                let (host, port) = six.split_once(']')?;
                (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = match port {
            None => Port::Number(80),
            Some(port) => match port.strip_prefix('$') {
                Some(name) => Port::Named(name.trim_matches(['{', '}']).to_owned()),
                None => Port::Number(port.parse().ok().filter(|port| *port > 0)?),
            },
        };
        is_of_this_machine(host).then(|| Self { host: host.to_owned(), port, path })
    }

    /// The URL with its port looked up among the attempt's ports, by name. `None`: there is none of that
    /// name.
    pub fn target(&self, ports: &BTreeMap<String, u16>) -> Option<Target> {
        let port = match &self.port {
            Port::Number(port) => *port,
            Port::Named(name) => *ports.get(name)?,
        };
        Some(Target { host: self.host.clone(), port, path: self.path.clone() })
    }
}

impl Target {
    /// The root page of a port of this machine: where no URL is configured.
    pub fn of_port(port: u16) -> Self {
        Self { host: "localhost".to_owned(), port, path: "/".to_owned() }
    }

    /// The whole URL, for a browser.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.authority(), self.path)
    }

    /// Host and port as the header `Host` has them.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// The addresses to try. No resolver is asked, so `localhost` is what it should be.
    pub fn addresses(&self) -> Vec<IpAddr> {
        match self.host.parse() {
            Ok(address) => vec![address],
            Err(_) => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        }
    }
}

fn is_of_this_machine(host: &str) -> bool {
    let is_loopback = |address: IpAddr| address.is_loopback();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Option<String> {
        let ports = BTreeMap::from([("WEB_PORT".to_owned(), 41_000)]);
        Some(ReadyUrl::parse(text)?.target(&ports)?.url())
    }

    #[test]
    fn a_port_may_be_one_of_the_attempts() {
        assert_eq!(url("http://localhost:$WEB_PORT/a?b").unwrap(), "http://localhost:41000/a?b");
        assert_eq!(url("http://localhost:${WEB_PORT}").unwrap(), "http://localhost:41000/");
        assert_eq!(url("http://127.0.0.2?x").unwrap(), "http://127.0.0.2:80/?x");
        assert_eq!(url("http://[::1]:9/").unwrap(), "http://[::1]:9/");
        assert_eq!(url("http://localhost:$OTHER_PORT/"), None);
    }

    #[test]
    fn no_other_machine_and_no_other_protocol_is_asked() {
        for text in [
            "https://localhost/",
            "http://example.com/",
            "http://localhost@example.com/",
            "http://localhost.example.com/",
            "http://10.0.0.1/",
            "http://[::]/",
            "http://0.0.0.0/",
            "http://localhost:0/",
            "http://localhost:x/",
            "http://[::1]x/",
            "http://localhost/a b",
            "http://localhost/\r\nHost: x",
            "file:///etc/passwd",
            "",
        ] {
            assert_eq!(ReadyUrl::parse(text), None, "{text:?}");
        }
    }
}
