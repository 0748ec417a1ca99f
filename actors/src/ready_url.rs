//! The URL at which a dev server is asked whether it is ready: of this machine alone. Pure.

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

#[derive(Clone, Debug, PartialEq, Eq)]
enum Port {
    Number(u16),
    Named(String),
}

/// Where to connect to, and what to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub host: String,
    pub port: u16,
    pub path: String,
}

impl ReadyUrl {
    /// `None`: it is no such URL.
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

    /// `None`: there is no port with this name.
    pub fn target(&self, ports: &BTreeMap<String, u16>) -> Option<Target> {
        let port = match &self.port {
            Port::Number(port) => *port,
            Port::Named(name) => *ports.get(name)?,
        };
        Some(Target { host: self.host.clone(), port, path: self.path.clone() })
    }
}

impl Target {
    /// The root of a port of this machine.
    pub fn of_port(port: u16) -> Self {
        Self { host: "localhost".to_owned(), port, path: "/".to_owned() }
    }

    pub fn url(&self) -> String {
        format!("http://{}{}", self.authority(), self.path)
    }

    /// As the header `Host` has it.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// The addresses to try, without asking a resolver.
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
