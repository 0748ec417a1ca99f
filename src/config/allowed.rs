//! What values a setting accepts: in words, as a check, and as the text of an environment variable. Pure.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use provost_actors::host::is_label;
use provost_actors::journal::PORTS_IN_BLOCK;
use provost_actors::sandbox::allowed_destinations::AllowedHost;
use provost_actors::secret::SecretNames;
use serde_json::{Value, json};

use super::engine::is_engine;

/// What a list of allowed hosts is, in words.
pub(super) const HOSTS: &str =
    "an array of hosts such as \"example.com\", \"*.example.com\" or \"example.com:8443\"";

/// What a list of labels is, in words.
pub(super) const LABELS: &str =
    "an array of words of letters, digits, `.`, `_` and `-`, such as \"gpu\"";

/// The kind of values that a setting accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    Integer(RangeInclusive<u64>),
    /// The beginning of a branch name (git-check-ref-format(1)).
    BranchPrefix,
    /// The name of an executor or a variant, or an empty text.
    Name,
    /// Which variables hold secrets; in the environment, separated by commas.
    SecretNames,
    /// The first and the last of a range of ports.
    Ports,
    /// An address and a port, or `off`.
    Listen,
    /// Names of hosts; in the environment, separated by commas.
    HostNames,
    /// Hosts that a sandbox lets its processes reach; in the environment, separated by commas.
    HostList,
    /// Labels of a host; in the environment, separated by commas.
    Labels,
    /// An absolute path, or an empty text.
    Path,
    /// The URL of a PostgreSQL database, or an empty text. It may contain a password, so it is never
    /// shown as it is.
    Engine,
    /// One of these words.
    Word(&'static [&'static str]),
}

impl Allowed {
    /// What [`Self::check`] allows, in words.
    pub fn expected(&self) -> String {
        match self {
            Self::Integer(range) => {
                format!("a whole number from {} to {}", range.start(), range.end())
            }
            Self::BranchPrefix => "the beginning of a branch name, such as \"provost/\"".to_owned(),
            Self::Name => "a name of letters, digits, `.`, `_` and `-`".to_owned(),
            Self::SecretNames => "an array of \"NAME\", \"PREFIX_*\" or \"*_SUFFIX\"".to_owned(),
            Self::Ports => {
                "a range of at least 10 ports from 1024 on, such as \"24000-31999\"".to_owned()
            }
            Self::Listen => "an address such as \"127.0.0.1:4100\", or \"off\"".to_owned(),
            Self::HostNames => "an array of names such as \"box.example\"".to_owned(),
            Self::HostList => HOSTS.to_owned(),
            Self::Labels => LABELS.to_owned(),
            Self::Path => "an absolute path, or \"\"".to_owned(),
            Self::Engine => {
                "a database such as \"postgres://user@host/database\", or \"\"".to_owned()
            }
            Self::Word(words) => format!("one of {}", words.join(", ")),
        }
    }

    /// True if the setting accepts the value.
    pub fn check(&self, value: &Value) -> bool {
        let text = value.as_str();
        match self {
            Self::Integer(range) => value.as_u64().is_some_and(|number| range.contains(&number)),
            Self::BranchPrefix => text.is_some_and(is_branch_prefix),
            Self::Name => {
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
                text.is_some_and(|text| text.chars().all(is_plain))
            }
            Self::Ports => text.is_some_and(|text| ports(text).is_some()),
            Self::Listen => text.is_some_and(|text| text == OFF || listen(text).is_some()),
            Self::Path => text.is_some_and(|text| text.is_empty() || text.starts_with('/')),
            Self::Engine => text.is_some_and(is_engine),
            Self::Word(words) => text.is_some_and(|text| words.contains(&text)),
            Self::HostNames => all_are(value, is_host_name),
            Self::Labels => all_are(value, is_label),
            Self::HostList => all_are(value, |host| host.parse::<AllowedHost>().is_ok()),
            Self::SecretNames => all_are(value, SecretNames::is_pattern),
        }
    }

    /// Reads the text of an environment variable or a flag. `None`: the setting does not accept it.
    pub fn parse(&self, text: &str) -> Option<Value> {
        let value = match self {
            Self::Integer(_) => json!(text.trim().parse::<u64>().ok()?),
            Self::BranchPrefix
            | Self::Name
            | Self::Ports
            | Self::Listen
            | Self::Path
            | Self::Engine
            | Self::Word(_) => json!(text),
            Self::SecretNames | Self::HostNames | Self::HostList | Self::Labels => {
                let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                names.collect()
            }
        };
        self.check(&value).then_some(value)
    }
}

/// Reads a range of ports, `FIRST-LAST`. `None`: it is no range, begins below 1024, or has fewer ports
/// than a block.
pub fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-')?;
    let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    let is_wide = last.checked_sub(first)? >= PORTS_IN_BLOCK - 1;
    (first >= 1024 && is_wide).then_some(first..=last)
}

/// The word that turns the HTTP face off.
const OFF: &str = "off";

/// The address of the HTTP face. `None`: it is off.
pub fn listen(text: &str) -> Option<SocketAddr> {
    text.parse().ok()
}

fn all_are(value: &Value, is_one: impl Fn(&str) -> bool) -> bool {
    value.as_array().is_some_and(|all| all.iter().all(|it| it.as_str().is_some_and(&is_one)))
}

/// True for a name or an address, with or without a port, of a Host header.
fn is_host_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    !name.is_empty() && name.chars().all(is_plain)
}

/// True if a branch name can begin with the text: the rules of git-check-ref-format(1), but only for
/// ASCII.
fn is_branch_prefix(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    text.chars().all(plain)
        && !text.starts_with(['/', '-', '.'])
        && !["..", "//", "/.", ".lock/"].iter().any(|bad| text.contains(bad))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_ports_has_room_for_a_block() {
        assert_eq!(ports("41000-41009"), Some(41000..=41009));
        for wrong in ["", "41000", "41000-41008", "80-200", "5000-4000", "a-b", "65530-65539"] {
            assert_eq!(ports(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn branch_prefixes_follow_git() {
        for good in ["", "provost/", "a.b-c_d/e", "x"] {
            assert!(is_branch_prefix(good), "{good}");
        }
        for bad in ["/a", "-a", ".a", "a..b", "a//b", "a/.b", "a b", "a~", "ä", "a.lock/"] {
            assert!(!is_branch_prefix(bad), "{bad}");
        }
    }
}
