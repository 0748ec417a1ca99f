//! The box around an executor: what is asked for, what a process is held to, and the receipt.
//! The kernel holds it: Landlock ([`landlock(7)`]) the files, seccomp(2) what gets around that.
//! The box is a property of the process and of all that it starts, whoever supervises them.
//!
//! ```text
//!  configuration ─Wanted─▶ daemon ─Sandbox, in the manifest─▶ shim ─Ready─▶ child: enter, exec
//!                                                              └─ Receipt, in started.json
//! ```
//!
//! It is never half a box: what is asked for and can't be had prevents the start.
//!
//! [`landlock(7)`]: https://man7.org/linux/man-pages/man7/landlock.7.html

pub mod allowed_destinations;
mod calls;
mod kernel;
pub mod places;
mod state;

use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::event::Timestamp;

pub use kernel::{Ready, holds};
pub use state::{Credentials, StatePlace};

/// How much of a box; a later one holds more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    #[default]
    None,
    /// Reads the system and the toolchains, writes the attempt's own files.
    Workspace,
    /// Besides, no network but the hosts that are allowed.
    Strict,
}

impl Level {
    /// Its name in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Workspace => "workspace",
            Self::Strict => "strict",
        }
    }
}

/// What the configuration asks for, for an executor and its variant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub level: Level,
    /// The agent may only read its worktrees. It still writes its own state.
    pub reads_only: bool,
    /// Paths to read and run beside the usual ones; `~/` begins the person's home.
    pub read: Vec<String>,
    /// Paths to write. A folder, which ends with `/`, is made if it is missing.
    pub write: Vec<String>,
    /// The hosts that `strict` allows ([`allowed_destinations::AllowedHost`]).
    pub hosts: Vec<String>,
    /// Those for which it asks no person.
    pub refused: Vec<String>,
    /// Where the executor's own state is: the attempt has a copy of it.
    pub state: Vec<StatePlace>,
    pub shipped: Shipped,
}

/// Those of the three lists that come with Provost: the executor's own state, its model's hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shipped {
    pub read: Vec<String>,
    pub write: Vec<String>,
    pub hosts: Vec<String>,
}

impl Wanted {
    /// What it opens that another box does not, apart from what comes with Provost. Hosts count
    /// where the other one holds the network.
    pub fn beyond<'a>(&'a self, other: &Self, home: Option<&Path>) -> Vec<&'a str> {
        let place = |text: &str| match (text.strip_prefix("~/"), home) {
            (Some(below), Some(home)) => home.join(below),
            _ => PathBuf::from(text),
        };
        let is_open = |text: &str, of: &[String]| {
            let path = place(text);
            let is_plain = path.components().all(|part| part != Component::ParentDir);
            is_plain && of.iter().any(|outer| path.starts_with(place(outer)))
        };
        let read = self.read.iter().filter(|it| !is_open(it, &other.read));
        let read = read.filter(|it| !is_open(it, &other.write));
        let write = self.write.iter().filter(|it| !is_open(it, &other.write));
        let is_host_open = |host: &str| {
            let own = host.parse::<allowed_destinations::AllowedHost>();
            let mut outer = other.hosts.iter().filter_map(|it| it.parse().ok());
            own.is_ok_and(|own| outer.any(|outer| own.is_within(&outer)))
        };
        let is_held = other.level == Level::Strict;
        let hosts = self.hosts.iter().filter(|it| is_held && !is_host_open(it));
        let Shipped { read: read_too, write: write_too, hosts: hosts_too } = &self.shipped;
        let read = read.filter(|it| !read_too.contains(it));
        let write = write.filter(|it| !write_too.contains(it));
        let hosts = hosts.filter(|it| !hosts_too.contains(it));
        read.chain(write).chain(hosts).map(String::as_str).collect()
    }
}

/// What held a turn, and the variant that had asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub level: Level,
    pub variant: Option<String>,
}

impl Held {
    /// The more of what has held turns before and of what holds one now; of the same, the newer.
    pub fn most(
        before: Option<Self>,
        now: Option<&Receipt>,
        variant: Option<&String>,
    ) -> Option<Self> {
        let now = now.map(|now| Self { level: now.level, variant: variant.cloned() });
        let is_as_much = now.as_ref().map(|it| it.level) >= before.as_ref().map(|it| it.level);
        if is_as_much { now } else { before }
    }
}

/// What a process is held to: part of its manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    pub level: Level,
    /// The version of Landlock that the daemon has found.
    pub abi: u32,
    pub rules: Vec<Rule>,
    /// The hosts that may be reached with [`Level::Strict`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Those for which no person is asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// The executor's state is the attempt's own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_state: bool,
    /// What package managers are configured with and it can't read, as a person writes the paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
}

/// A file, or a folder with all that is in it, that a process may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub path: PathBuf,
    pub access: Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Read, list and run.
    Read,
    /// Everything but to make devices.
    Write,
    /// Read, write and control a device.
    Device,
}

/// What holds a process: it was set before its program ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    pub level: Level,
    /// landlock+seccomp, and +netns for the network.
    pub mechanism: String,
    /// The kernel's version of Landlock.
    pub abi: u32,
    /// files, privileges, syscalls, network, devices, signals, `abstract_sockets`, state.
    pub enforced: Vec<String>,
    /// What the process can still reach.
    pub open: Vec<String>,
    /// What its proxy has decided; `None`: it has none, or nothing was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Decisions>,
    /// Of a script and a check: what package managers are configured with and it can't read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
}

/// What a proxy decided about the connections of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decisions {
    pub allowed: u64,
    pub refused: u64,
    /// The newest first, [`Decisions::NEWEST`] at most.
    pub newest_refusals: Vec<RefusedHost>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedHost {
    pub at: Timestamp,
    /// With its port, as it was asked for.
    pub host: String,
    /// Goes on after the host.
    pub reason: String,
    /// The line of a list that would allow it; `None`: none would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
}

/// The file in an attempt's folder with the hosts that a person has allowed for it, one a line.
pub const ALLOWED_FILE: &str = "allow_hosts";

impl Decisions {
    /// The file in the process's folder.
    pub const FILE: &str = "network.json";
    pub const NEWEST: usize = 20;
}

/// The oldest version of Landlock with which the level `workspace` holds: before it, any file
/// could be truncated.
pub const NEEDED: u32 = 3;
/// The version that knows of devices.
const DEVICES: u32 = 5;
/// The version that knows of signals and of abstract sockets.
pub const SCOPES: u32 = 6;
/// The environment variable by which a test lowers the version that is found.
pub const PRETENDED: &str = "PROVOST_TEST_LANDLOCK_ABI";

/// The version of Landlock that this kernel has; 0: none.
pub fn abi() -> u32 {
    static FOUND: LazyLock<u32> = LazyLock::new(|| {
        let pretended = std::env::var(PRETENDED).ok().and_then(|text| text.parse().ok());
        kernel::probe().min(pretended.unwrap_or(u32::MAX))
    });
    *FOUND
}

/// Why this machine can't hold a box, in a sentence without its full stop.
pub fn obstacle() -> Option<String> {
    let found = abi();
    (found < NEEDED).then(|| match found {
        0 => "this kernel has no Landlock, or it is not turned on".to_owned(),
        found => format!("this kernel's Landlock is of version {found}, and {NEEDED} is needed"),
    })
}

impl Sandbox {
    /// What will hold the process once [`Ready`] is made of this and entered.
    pub fn receipt(&self) -> Receipt {
        let is_strict = self.level == Level::Strict;
        // Abstract sockets are part of the network.
        let abstract_sockets = if is_strict { NEEDED } else { SCOPES };
        let newer =
            [(DEVICES, "devices"), (SCOPES, "signals"), (abstract_sockets, "abstract_sockets")];
        let names = |is_held: bool| {
            let chosen =
                newer.into_iter().filter(move |(since, _)| (self.abi >= *since) == is_held);
            chosen.map(|(_, name)| name)
        };
        let network = |is_held: bool| (is_held == is_strict).then_some("network");
        let enforced = ["files", "privileges", "syscalls"].into_iter();
        let own_state = self.own_state.then_some("state");
        let enforced = enforced.chain(network(true)).chain(names(true)).chain(own_state);
        let open = network(false).into_iter().chain(["unix_sockets"]).chain(names(false));
        Receipt {
            level: self.level,
            mechanism: if is_strict { "landlock+seccomp+netns" } else { "landlock+seccomp" }
                .to_owned(),
            abi: self.abi,
            enforced: enforced.map(str::to_owned).collect(),
            open: open.map(str::to_owned).collect(),
            hosts: None,
            hidden: self.hidden.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_box_opens_beyond_another_is_said() {
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let wanted = |level, read: &str, write: &str, hosts: &str| Wanted {
            level,
            reads_only: false,
            read: list(read),
            write: list(write),
            hosts: list(hosts),
            refused: vec![],
            state: vec![],
            shipped: Shipped {
                read: list("~/.program"),
                write: list("~/.state/"),
                hosts: list("model.api"),
            },
        };
        let home = Some(Path::new("/home/me"));
        let outer = wanted(Level::Strict, "/data", "~/.npm/ ~/.own", "a.b *.c.d odd:8443");
        let beyond = |read: &str, write: &str, hosts: &str| {
            let own = wanted(Level::Strict, read, write, hosts);
            own.beyond(&outer, home).join(" ")
        };
        assert_eq!(beyond("/data/x ~/.npm/", "/home/me/.npm/ ~/.own ~/.state/", "a.b:443"), "");
        assert_eq!(beyond("", "", "x.c.d *.x.c.d odd:8443 model.api"), "");
        assert_eq!(beyond("/database ~/.ssh", "/data", ""), "/database ~/.ssh /data");
        assert_eq!(beyond("", "~/.npm/../.ssh", ""), "~/.npm/../.ssh");
        assert_eq!(
            beyond("~/.program", "~/.program", ""),
            "~/.program",
            "Provost opens it to read"
        );
        assert_eq!(beyond("", "", "a.b:22 c.d *.d odd"), "a.b:22 c.d *.d odd");
        let open = Wanted { level: Level::Workspace, ..outer.clone() };
        let own = wanted(Level::Strict, "", "", "any.where");
        assert_eq!(own.beyond(&open, home), [] as [&str; 0], "its network is open");
    }

    #[test]
    fn the_receipt_says_what_an_older_kernel_does_not_hold() {
        let held = |level, abi| {
            let hidden = vec![];
            Sandbox { level, abi, hidden, ..Sandbox::default() }.receipt()
        };
        let receipt = |abi| held(Level::Workspace, abi);
        let old = receipt(3);
        assert_eq!(old.enforced, ["files", "privileges", "syscalls"]);
        assert_eq!(old.open, ["network", "unix_sockets", "devices", "signals", "abstract_sockets"]);
        assert_eq!(receipt(6).open, ["network", "unix_sockets"]);
        assert!(receipt(6).enforced.contains(&"signals".to_owned()));
        let strict = held(Level::Strict, 3);
        assert_eq!(strict.open, ["unix_sockets", "devices", "signals"]);
        assert!(strict.enforced.contains(&"network".to_owned()));
    }
}
