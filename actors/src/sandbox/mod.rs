//! The box around an executor: what the configuration asks for, the rules for one process, and the receipt of
//! what the kernel enforces. Landlock ([`landlock(7)`]) limits files, seccomp(2) the calls that would get
//! around that. The box is a property of the process and of all that it starts, whoever supervises them.
//!
//! ```text
//!  configuration ─Wanted─▶ daemon ─Sandbox, in the manifest─▶ shim ─Ready─▶ child: enter, exec
//!                                                              └─ Receipt, in started.json
//! ```
//!
//! A box is never incomplete: if a part of what is asked for can't be had, the process is not started. What
//! an older kernel can't enforce at all is listed as open in the receipt.
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

/// How strict a box is. The order matters: a later level allows less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// No box.
    #[default]
    None,
    /// The process can read the system and the toolchains, and write the attempt's own files.
    Workspace,
    /// In addition, it has no network except, through a proxy, to the allowed hosts.
    Strict,
}

impl Level {
    /// Its name in the configuration and in receipts.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Workspace => "workspace",
            Self::Strict => "strict",
        }
    }
}

/// What the configuration asks for, for an executor with a variant. Paths and hosts are as the person wrote
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub level: Level,
    /// The agent may only read its worktrees. It can still write its own state.
    pub reads_only: bool,
    /// Paths to read and run, beside the usual ones. `~/` stands for the person's home.
    pub read: Vec<String>,
    /// Paths to write. One that ends with `/` is a folder, and is made if it is missing.
    pub write: Vec<String>,
    /// The hosts that `strict` allows ([`allowed_destinations::AllowedHost`]).
    pub hosts: Vec<String>,
    /// Hosts that stay refused, and for which no person is asked. In the form of `hosts`.
    pub refused: Vec<String>,
    /// Where the executor keeps its own state. The attempt gets a copy.
    pub state: Vec<StatePlace>,
    pub shipped: Shipped,
}

/// The entries of the three lists that come with Provost: the executor's own state, and its model's hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shipped {
    pub read: Vec<String>,
    pub write: Vec<String>,
    pub hosts: Vec<String>,
}

impl Wanted {
    /// The paths and hosts that this box opens and `other` does not, without those that come with Provost.
    /// Hosts count only if `other` is [`Level::Strict`]: otherwise its network is open. A path with `..`
    /// counts as not open in `other`. `gateway/sandbox_rules.rs` uses this to keep an agent from starting
    /// one that can do more.
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

/// The level of the box that a turn ran in, and the turn's variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub level: Level,
    pub variant: Option<String>,
}

impl Held {
    /// The stricter of the box of earlier turns and that of the current turn; of two equal levels, the
    /// current one.
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

/// The rules of the box of one process; part of its manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    pub level: Level,
    /// The version of Landlock that the daemon has found ([`abi`]).
    pub abi: u32,
    /// Every path that the process may use. Landlock refuses all others.
    pub rules: Vec<Rule>,
    /// The hosts that may be reached with [`Level::Strict`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Hosts that stay refused, and for which no person is asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// The executor uses the attempt's own copy of its state.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_state: bool,
    /// Configuration of package managers that the process can't read, as paths with `~/`
    /// ([`places::hidden`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
}

/// A file, or a folder with all that is in it, that a process may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub path: PathBuf,
    pub access: Access,
}

/// What a process may do with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Read, list and run.
    Read,
    /// Everything except making and controlling devices (mknod(2), ioctl(2)).
    Write,
    /// Read, write, and control a device by ioctl(2).
    Device,
}

/// What the kernel enforces for a process. The box was in force before its program ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    pub level: Level,
    /// `landlock+seccomp`, or `landlock+seccomp+netns` with [`Level::Strict`].
    pub mechanism: String,
    /// The version of Landlock whose rights are enforced ([`Sandbox::abi`]).
    pub abi: u32,
    /// Words out of: `files`, `privileges`, `syscalls`, `network`, `devices`, `signals`, `abstract_sockets`,
    /// `state`.
    pub enforced: Vec<String>,
    /// What the process can still reach: words of the same kind, and always `unix_sockets`.
    pub open: Vec<String>,
    /// What its proxy has decided. `None`: it has no proxy, or has asked for no host. Not in `started.json`:
    /// readers add it from [`Decisions::FILE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Decisions>,
    /// [`Sandbox::hidden`], which only scripts and checks have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
}

/// What a proxy decided about the connections of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decisions {
    /// Requests and connections that were allowed, whether or not the host answered.
    pub allowed: u64,
    pub refused: u64,
    /// The newest first, [`Decisions::NEWEST`] at most.
    pub newest_refusals: Vec<RefusedHost>,
}

/// A connection that a proxy has refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedHost {
    pub at: Timestamp,
    /// The host with its port, as the program asked for it.
    pub host: String,
    /// Why: words that continue a sentence after the host.
    pub reason: String,
    /// The line of `allow_hosts` that would allow it. `None`: no line would, or the host is to stay refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
}

/// The file in an attempt's folder with the hosts that a person has allowed for the attempt, one on each
/// line.
/// `attempt/network_approvals.rs` writes it. The proxy reads it for each target that the manifest's list does
/// not allow.
pub const ALLOWED_FILE: &str = "allow_hosts";

impl Decisions {
    /// The file in the process's folder that the proxy writes.
    pub const FILE: &str = "network.json";
    /// How many refusals are kept.
    pub const NEWEST: usize = 20;
}

/// The oldest version of Landlock with which the level `workspace` protects files: before version 3, any
/// file could be truncated.
pub const NEEDED: u32 = 3;
/// The first version that limits ioctl(2) on devices.
const DEVICES: u32 = 5;
/// The first version that limits signals and abstract Unix sockets.
pub const SCOPES: u32 = 6;
/// The environment variable by which a test lowers the version that [`abi`] finds.
pub const PRETENDED: &str = "PROVOST_TEST_LANDLOCK_ABI";

/// The version of Landlock that this kernel has; 0: it has none, or it is disabled. Asked once for each
/// process.
pub fn abi() -> u32 {
    static FOUND: LazyLock<u32> = LazyLock::new(|| {
        let pretended = std::env::var(PRETENDED).ok().and_then(|text| text.parse().ok());
        kernel::probe().min(pretended.unwrap_or(u32::MAX))
    });
    *FOUND
}

/// Why this machine can't enforce a box, in a sentence without its full stop; `None`: it can.
/// [`Level::Strict`] needs a network namespace too (`process::network::obstacle`).
pub fn obstacle() -> Option<String> {
    let found = abi();
    (found < NEEDED).then(|| match found {
        0 => "this kernel has no Landlock, or it is not turned on".to_owned(),
        found => format!("this kernel's Landlock is of version {found}, and {NEEDED} is needed"),
    })
}

impl Sandbox {
    /// What will be enforced once [`Ready`] is made of this and entered.
    pub fn receipt(&self) -> Receipt {
        let is_strict = self.level == Level::Strict;
        // Abstract sockets belong to a network namespace, so `strict` limits them with any version.
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
