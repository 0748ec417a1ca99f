//! Which hosts may be reached from a box whose network is closed: the list, and the decisions about names and
//! addresses. Pure. The proxy asks twice:
//!
//! ```text
//!  target (host, port) ─▶ Allowed::judge ─▶ resolve the name ─▶ judge_address, for each address ─▶ connect
//!                           Unlisted,                             Private, OfThisMachine
//!                           Address, Port
//! ```
//!
//! The second question is needed because the owner of a name decides to which address it leads: an allowed
//! name must not become a way into this machine or its private networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The ports that a line without a port opens.
const USUAL: [u16; 2] = [80, 443];
/// Longest name, in bytes (RFC 1035, 2.3.4).
const NAME_MAX: usize = 253;
/// The name that always means this machine (RFC 6761, 6.3).
const LOCALHOST: &str = "localhost";
/// The addresses of [`LOCALHOST`].
const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// A line of the list: `name`, `*.name` or an address, and an optional `:port`. Without a port, 80 and 443
/// are open. An IPv6 address with a port needs brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedHost {
    host: Pattern,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Is(Host),
    /// All names below this one, at any depth, and not the name itself.
    Below(String),
}

/// A host in its normal form: a name in lower case without the final dot, or an address. An IPv4 address
/// that is mapped into IPv6 (`::ffff:a.b.c.d`) becomes IPv4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    Name(String),
    Address(IpAddr),
}

/// The destination of a connection, as a program asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub host: Host,
    pub port: u16,
}

/// Why a connection is refused. The text continues a sentence after the host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("is no name of a host, nor an address in its usual form")]
    Malformed,
    #[error("is not among the allowed hosts")]
    Unlisted,
    #[error("is an address, and only addresses that are listed themselves are allowed")]
    Address,
    #[error("is allowed at other ports only")]
    Port,
    #[error("leads to {0}, which is no public address and is not listed itself")]
    Private(IpAddr),
    #[error("leads to {0}, which is an address of this machine and is not listed itself")]
    OfThisMachine(IpAddr),
    #[error("is not the host that the request names in its header")]
    Differs,
    #[error("is not asked for as a proxy is asked")]
    NoProxyRequest,
}

/// A list of allowed (or of refused) hosts. Empty: it allows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed(Vec<AllowedHost>);

impl FromStr for AllowedHost {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        // Without brackets the whole text may be an IPv6 address. It has no port then.
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            let host = Host::Address(IpAddr::V6(address).to_canonical());
            return Ok(Self { host: Pattern::Is(host), port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !text.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        let port = port.map(str::parse).transpose().map_err(|_| Refused::Malformed)?;
        let host = match host.strip_prefix("*.") {
            Some(below) => match Host::from_str(below)? {
                Host::Name(name) => Pattern::Below(name),
                Host::Address(_) => return Err(Refused::Malformed),
            },
            None => Pattern::Is(host.parse()?),
        };
        Ok(Self { host, port })
    }
}

impl FromStr for Host {
    type Err = Refused;

    /// Takes a host as it is in a URL: an IPv6 address is in brackets. Refuses numbers in other forms that
    /// resolvers take for IPv4 addresses.
    fn from_str(text: &str) -> Result<Self, Refused> {
        if let Some(inner) = text.strip_prefix('[') {
            let address: Ipv6Addr =
                inner.strip_suffix(']').and_then(|it| it.parse().ok()).ok_or(Refused::Malformed)?;
            return Ok(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let is_label = |label: &str| !label.is_empty() && label.chars().all(is_plain);
        let is_name = name.len() <= NAME_MAX && name.split('.').all(is_label);
        // Resolvers take 127.1, 0177.0.0.1, 0x7f000001 and 2130706433 for addresses.
        let last = name.rsplit('.').next().unwrap_or_default();
        let digits = last.strip_prefix("0x").unwrap_or(last);
        let is_hex = digits.len() < last.len() && digits.chars().all(|c| c.is_ascii_hexdigit());
        let is_number = is_hex || last.chars().all(|c| c.is_ascii_digit());
        if is_name && !is_number { Ok(Self::Name(name)) } else { Err(Refused::Malformed) }
    }
}

impl Allowed {
    /// This list and more lines. Lines that can't be parsed are left out and so allow nothing; the
    /// configuration has refused them before.
    #[must_use]
    pub fn with<'a>(&self, lines: impl IntoIterator<Item = &'a str>) -> Self {
        let more = lines.into_iter().filter_map(|line| line.parse().ok());
        Self(self.0.iter().cloned().chain(more).collect())
    }

    /// Whether a target may be reached, as far as that can be decided before its name is resolved. Otherwise
    /// `Unlisted` (a name), `Address`, or `Port` if only the port is not allowed.
    pub fn judge(&self, target: &Target) -> Result<(), Refused> {
        let mut of_host = self.0.iter().filter(|it| it.host.matches(&target.host)).peekable();
        if of_host.peek().is_none() {
            return Err(match target.host {
                Host::Address(_) => Refused::Address,
                Host::Name(_) => Refused::Unlisted,
            });
        }
        if of_host.any(|it| it.is_open(target.port)) { Ok(()) } else { Err(Refused::Port) }
    }

    /// Whether a target that [`Self::judge`] allows may have this address. An address that is listed itself
    /// is always allowed, and `localhost` may have a loopback address. Any other address must be public,
    /// and must not be one of `own`, the addresses of this machine's interfaces.
    pub fn judge_address(
        &self,
        target: &Target,
        address: IpAddr,
        own: &[IpAddr],
    ) -> Result<(), Refused> {
        let address = reached(address);
        let itself = Target { host: Host::Address(address), port: target.port };
        let is_localhost = target.host == Host::Name(LOCALHOST.to_owned()) && address.is_loopback();
        if is_localhost || self.judge(&itself).is_ok() {
            Ok(())
        } else if !is_public(address) {
            Err(Refused::Private(address))
        } else if own.iter().any(|own| own.to_canonical() == address) {
            Err(Refused::OfThisMachine(address))
        } else {
            Ok(())
        }
    }
}

impl Target {
    /// The line that would allow exactly this target, with its port.
    pub fn line(&self) -> String {
        match &self.host {
            Host::Name(name) => format!("{name}:{}", self.port),
            Host::Address(address) => SocketAddr::new(*address, self.port).to_string(),
        }
    }
}

impl Refused {
    /// Whether a line more in the list would allow the connection.
    pub fn is_by_list(&self) -> bool {
        matches!(self, Self::Unlisted | Self::Address | Self::Port)
    }
}

impl AllowedHost {
    fn is_open(&self, port: u16) -> bool {
        self.port.map_or(USUAL.contains(&port), |only| only == port)
    }

    /// Whether `other` allows everything that this line allows.
    pub fn is_within(&self, other: &Self) -> bool {
        let is_host = match &self.host {
            Pattern::Is(host) => other.host.matches(host),
            Pattern::Below(zone) => match &other.host {
                Pattern::Below(outer) => {
                    zone == outer || other.host.matches(&Host::Name(zone.clone()))
                }
                Pattern::Is(_) => false,
            },
        };
        is_host && (self.port == other.port || self.port.is_some_and(|port| other.is_open(port)))
    }

    /// The loopback sockets of this machine that the line opens; for `localhost`, at 127.0.0.1. Programs
    /// ask no proxy for such names, so the proxy listens at the same sockets inside the namespace
    /// (`process/network.rs`).
    pub fn loopback(&self) -> Vec<SocketAddr> {
        let address = match &self.host {
            Pattern::Is(Host::Name(name)) if name == LOCALHOST => Ipv4Addr::LOCALHOST.into(),
            Pattern::Is(Host::Address(address)) if LOOPBACK.contains(address) => *address,
            _ => return Vec::new(),
        };
        let ports = self.port.map_or(USUAL.to_vec(), |port| vec![port]);
        ports.into_iter().map(|port| SocketAddr::new(address, port)).collect()
    }
}

impl Pattern {
    fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Is(own), host) => own == host,
            (Self::Below(zone), Host::Name(name)) => {
                name.strip_suffix(zone.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            (Self::Below(_), Host::Address(_)) => false,
        }
    }
}

/// The IPv4 networks that are not public: address and length of the prefix (RFC 6890, and IANA's registry of
/// special-purpose addresses).
const SPECIAL: [([u8; 4], u32); 16] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([168, 63, 129, 16], 32), // A cloud's own services.
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// The address that a connection reaches in the end: the IPv4 address for one that is mapped into IPv6, or
/// that NAT64 translates.
fn reached(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => match address.segments() {
            // The well-known prefix of NAT64 (RFC 6052).
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)).into()
            }
            _ => address.into(),
        },
        address @ IpAddr::V4(_) => address,
    }
}

/// Whether an address is public: not of this machine's loopback, a private network, or for a special
/// purpose. Of IPv6, only 2000::/3 without its special parts is public.
fn is_public(address: IpAddr) -> bool {
    match reached(address) {
        IpAddr::V4(address) => !SPECIAL.iter().any(|(network, length)| {
            let mask = u32::MAX << (32 - length);
            u32::from(address) & mask == u32::from(Ipv4Addr::from(*network))
        }),
        IpAddr::V6(address) => match address.segments() {
            // 2001::/23 (Teredo and other protocols), 2001:db8::/32 (documentation), 2002::/16 (6to4),
            // 3fff::/16 (documentation).
            [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x2002 | 0x3fff, ..] => false,
            [first, ..] => first & 0xe000 == 0x2000,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(list: &[&str], host: &str, port: u16) -> Result<(), Refused> {
        let allowed = Allowed::default().with(list.iter().copied());
        allowed.judge(&Target { host: host.parse()?, port })
    }

    #[test]
    fn a_name_is_matched_whole_at_the_usual_ports() {
        let list = ["api.example.com", "*.wide.org", "odd.net:8443"];
        for (host, port) in [
            ("api.example.com", 443),
            ("API.Example.COM.", 80),
            ("a.wide.org", 443),
            ("a.b.wide.org", 443),
            ("odd.net", 8443),
        ] {
            assert_eq!(judge(&list, host, port), Ok(()), "{host}:{port}");
        }
        for (host, port, why) in [
            ("example.com", 443, Refused::Unlisted),
            ("xapi.example.com", 443, Refused::Unlisted),
            ("api.example.com.evil.org", 443, Refused::Unlisted),
            ("wide.org", 443, Refused::Unlisted),
            ("xwide.org", 443, Refused::Unlisted),
            ("api.example.com", 22, Refused::Port),
            ("odd.net", 443, Refused::Port),
            ("api.example.com..", 443, Refused::Malformed),
            ("", 443, Refused::Malformed),
            ("a b", 443, Refused::Malformed),
            ("api.example.com\0.evil.org", 443, Refused::Malformed),
        ] {
            assert_eq!(judge(&list, host, port), Err(why), "{host}:{port}");
        }
    }

    #[test]
    fn addresses_are_allowed_only_if_they_are_listed_in_whatever_form() {
        for host in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "93.184.215.14", "[2606::1]"] {
            assert_eq!(judge(&["*.com", "localhost"], host, 443), Err(Refused::Address), "{host}");
        }
        for odd in
            ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1", "127.0.0.1.", "[::1"]
        {
            assert_eq!(judge(&["127.0.0.1", "[::1]"], odd, 443), Err(Refused::Malformed), "{odd}");
        }
        for (listed, host, port) in [
            ("127.0.0.1:8080", "127.0.0.1", 8080),
            ("127.0.0.1:8080", "[::ffff:127.0.0.1]", 8080),
            ("[::1]:8080", "[::1]", 8080),
            ("::1", "[0:0::1]", 443),
            ("[::1]", "[::1]", 80),
        ] {
            assert_eq!(judge(&[listed], host, port), Ok(()), "{listed}");
        }
        assert_eq!(judge(&["127.0.0.1:8080"], "127.0.0.1", 443), Err(Refused::Port));
    }

    #[test]
    fn a_name_may_not_lead_into_this_machine_or_a_private_network() {
        let list = ["api.example.com", "localhost:1", "10.0.0.5", "*.localhost"];
        let allowed = Allowed::default().with(list);
        let judge = |host: &str, address: &str| {
            let target = Target { host: host.parse().unwrap(), port: 443 };
            allowed.judge_address(&target, address.parse().unwrap(), &[]).is_ok()
        };
        for open in ["93.184.215.14", "2606:2800::1", "64:ff9b::5db8:d70e", "10.0.0.5"] {
            assert!(judge("api.example.com", open), "{open}");
        }
        for closed in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "10.0.0.6",
            "172.31.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "::ffff:10.0.0.6",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::1",
            "2001:0:1::1",
        ] {
            assert!(!judge("api.example.com", closed), "{closed}");
        }
        assert!(judge("localhost", "127.0.0.1") && judge("localhost", "::1"));
        assert!(!judge("localhost", "10.0.0.6") && !judge("a.localhost", "127.0.0.1"));
    }

    #[test]
    fn a_name_may_not_lead_to_a_public_address_of_this_machine_unless_that_is_listed() {
        let own = ["93.184.215.14", "2606:2800::1"].map(|it| it.parse().unwrap());
        let target = Target { host: "a.b".parse().unwrap(), port: 443 };
        let judge = |list: &[&str], address: &str| {
            let allowed = Allowed::default().with(list.iter().copied());
            allowed.judge_address(&target, address.parse().unwrap(), &own)
        };
        for address in
            ["93.184.215.14", "::ffff:93.184.215.14", "64:ff9b::5db8:d70e", "2606:2800::1"]
        {
            let refused = judge(&["a.b"], address).unwrap_err();
            assert!(matches!(refused, Refused::OfThisMachine(_)) && !refused.is_by_list());
        }
        assert_eq!(judge(&["a.b"], "93.184.215.15"), Ok(()));
        assert_eq!(judge(&["a.b", "93.184.215.14"], "93.184.215.14"), Ok(()));
    }

    #[test]
    fn lines_of_the_list_are_checked() {
        for good in ["a", "a.b", "*.a.b", "a.b:1", "1.2.3.4:5", "[::1]:5", "fe80::1", "*.a:443"] {
            assert!(good.parse::<AllowedHost>().is_ok(), "{good}");
        }
        for bad in ["", "*", "*.", "a*.b", "https://a", "a/b", "a:", "a:x", "a:70000", "*.1.2.3.4"]
        {
            assert!(bad.parse::<AllowedHost>().is_err(), "{bad}");
        }
        let local = |text: &str| {
            let sockets = text.parse::<AllowedHost>().unwrap().loopback();
            sockets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(local("127.0.0.1:1"), "127.0.0.1:1");
        assert_eq!(local("Localhost"), "127.0.0.1:80 127.0.0.1:443");
        assert_eq!(local("[::1]:1"), "[::1]:1");
        assert_eq!((local("a.b").as_str(), local("127.0.0.2:1").as_str()), ("", ""));
        for host in ["a.b", "1.2.3.4", "[::1]"] {
            let target = Target { host: host.parse().unwrap(), port: 8443 };
            assert_eq!(Allowed::default().with([target.line().as_str()]).judge(&target), Ok(()));
        }
    }
}
