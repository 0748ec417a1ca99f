//! Hosts: the machines that attempts run on, each with a daemon that has registered it. Their registrations,
//! leases and removal, and which host a start goes to. Pure.
//!
//! A lease of length L, renewed every L/6, as [`Host::liveness`] sees it:
//!
//! ```text
//!  Alive ─no renewal for L/3─▶ Suspect ─none for L─▶ Lost ─L/3 later, a sweep of another daemon─▶ Fenced
//!    ▲ ◀───── a renewal ──────────┘                   │                                             │
//!    └─────────────────────── its daemon registers again: a new incarnation ────────────────────────┘
//!
//!  Alive ─its daemon ends with nothing running─▶ Ended ─the lease would be over─▶ Lost
//! ```

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::Timestamp;
use crate::refusal::{Code, Refusal};

/// The name of the host where only one home can open the database.
pub const LOCAL: &str = "local";
/// Most characters of a label.
const LABEL_MAX: usize = 64;

/// A host, as its daemon has registered it, and as it was at `read_at`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Host {
    pub host_id: String,
    /// Counts its registrations. What an earlier incarnation writes is refused.
    pub incarnation: u64,
    /// The hash of a secret that its home holds: the proof that a daemon is of that home.
    pub secret: String,
    /// What its owner says that it has, such as `gpu`: executors may ask for it.
    pub labels: Vec<String>,
    /// How many attempts it runs at once.
    pub slots: u64,
    /// Bytes that its attempts may ask for together; 0: unknown, and not counted.
    pub memory: u64,
    pub version: String,
    pub role: HostRole,
    pub state: HostState,
    pub registered_at: Timestamp,
    /// When its lease was last renewed.
    pub renewed_at: Timestamp,
    /// When the lease is over. `None`: the lock of its home is the lease, and nothing is renewed.
    pub lease_until: Option<Timestamp>,
    /// When it was given up, and its attempts were given away. The next registration clears it.
    pub fenced_at: Option<Timestamp>,
    /// When its daemon ended with nothing running. The next registration clears it.
    pub ended_at: Option<Timestamp>,
    /// When this was read, by the clock of the database: all leases are by that clock.
    pub read_at: Timestamp,
}

/// What a daemon registers its host with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    pub host_id: String,
    /// The hash of the secret that the home holds.
    pub secret: String,
    pub labels: Vec<String>,
    pub slots: u64,
    /// Bytes that its attempts may ask for together.
    pub memory: u64,
    pub version: String,
    pub role: HostRole,
    /// The length of the lease; `None`: the lock of the home is the lease.
    pub lease: Option<Duration>,
    /// When it was given up, as far as it knows: what it had started before has ended.
    pub fenced_at: Option<Timestamp>,
}

/// What an attempt asks of its host beside a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// All of these labels.
    pub labels: Vec<String>,
    /// Bytes; 0: none.
    pub memory: u64,
}

impl Demand {
    /// Any host with a free slot is fit.
    pub fn is_none(&self) -> bool {
        self.labels.is_empty() && self.memory == 0
    }
}

/// What the attempts that run on a host take of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub slots: u64,
    /// Bytes that they have asked for, which is not what they use.
    pub memory: u64,
}

/// How long a lease lasts after its renewal; the other times follow from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease(pub Duration);

impl Lease {
    /// The time between two renewals: several may fail before the lease is over.
    pub fn renew_every(self) -> Duration {
        self.0 / 6
    }

    /// From the end of the lease until the host may be given up; also how long a renewal may fail before
    /// the host is suspect.
    pub fn grace(self) -> Duration {
        self.0 / 3
    }
}

/// What a daemon does for the board.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostRole {
    /// It serves clients, and runs attempts.
    #[default]
    All,
    /// It serves clients, and runs no attempts.
    Gateway,
    /// It runs attempts, and serves only the clients within them.
    Worker,
}

/// What a person has decided about a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostState {
    Active,
    /// Nothing new begins on it; running turns finish.
    Draining,
}

/// Whether a host's daemon runs, as far as its lease shows. The header of this file draws it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Liveness {
    /// Its lease is renewed in time; or it has none, as only one home can open the database.
    Alive,
    /// Its last renewal is late.
    Suspect,
    /// Its daemon ended with nothing running: its attempts wait for the next one as long as the lease.
    Ended,
    /// Its lease is over. Its attempts are still its own: it may be given up, or come back.
    Lost,
    /// It was given up: its attempts are other hosts' now.
    Fenced,
}

impl Liveness {
    /// Whether a daemon may be able to carry out what the host is asked for.
    pub fn is_there(self) -> bool {
        matches!(self, Self::Alive | Self::Suspect)
    }
}

/// A change of a host that a person asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostChange {
    Drain,
    /// It no longer drains.
    Resume,
    /// It is forgotten, if nothing of it would be lost.
    Remove,
}

impl Host {
    /// By the times at which this was read: only as new as the read.
    pub fn liveness(&self) -> Liveness {
        let now = self.read_at;
        let Some(until) = self.lease_until else { return Liveness::Alive };
        let grace = Lease(until.since(self.renewed_at)).grace();
        match () {
            () if self.fenced_at.is_some() => Liveness::Fenced,
            () if until <= now => Liveness::Lost,
            () if self.ended_at.is_some() => Liveness::Ended,
            () if now.since(self.renewed_at) >= grace => Liveness::Suspect,
            () => Liveness::Alive,
        }
    }

    /// Whether its daemon runs, and is of another version than this one.
    pub fn is_other_version(&self, own: &str) -> bool {
        self.version != own && self.liveness().is_there()
    }

    fn has_labels(&self, labels: &[String]) -> bool {
        labels.iter().all(|label| self.labels.contains(label))
    }

    /// Whether it has what is asked for when nothing else runs on it.
    pub fn has(&self, wanted: &Demand) -> bool {
        self.has_labels(&wanted.labels) && self.has_memory(wanted.memory)
    }

    fn has_memory(&self, wanted: u64) -> bool {
        wanted == 0 || self.memory == 0 || wanted <= self.memory
    }

    /// Whether it has the memory that is asked for beside what runs on it.
    fn has_room(&self, wanted: &Demand, used: Used) -> bool {
        wanted.memory == 0 || self.has_memory(wanted.memory.saturating_add(used.memory))
    }

    /// Whether new attempts that ask for this may begin on it, once it has room for them.
    pub fn runs(&self, wanted: &Demand) -> bool {
        self.has(wanted) && self.state == HostState::Active && self.role != HostRole::Gateway
    }

    /// Whether it can be forgotten, while so many of its attempts are not settled.
    ///
    /// # Errors
    /// Its daemon may be running, or an attempt would be lost with it.
    pub fn check_removal(&self, unsettled: u64) -> Result<(), Refusal> {
        let host = &self.host_id;
        let refused = |why: String| {
            Refusal::new(Code::InvalidState, format!("host {host} can't be removed: {why}"))
        };
        if self.liveness().is_there() {
            return Err(refused("its daemon is there".to_owned()).hint(
                "Only a host whose lease is over can be removed: end its daemon first. \
                 `provost host drain` lets nothing new begin on a host.",
            ));
        }
        if unsettled > 0 {
            let are = if unsettled == 1 { "is" } else { "are" };
            return Err(refused(format!("{unsettled} of its attempts {are} not settled")).hint(
                "Start its daemon again, which takes them up; `provost ps --all` lists them. If its \
                 home is lost for good and nothing of it runs, start a daemon with this [host] name on \
                 another machine: it ends them.",
            ));
        }
        Ok(())
    }
}

/// The incarnation that a registration gets. `now` is the time of the database.
///
/// # Errors
/// `not_permitted`: the host belongs to another home, and its lease is not over. `attempt_running`: it was
/// given up without knowing that, so something of it may still run.
pub fn next_incarnation(
    known: Option<&Host>,
    registration: &Registration,
    now: Timestamp,
) -> Result<u64, Refusal> {
    let Some(known) = known else { return Ok(1) };
    if known.fenced_at != registration.fenced_at {
        let message = format!("host {} has just been given up by another daemon", known.host_id);
        return Err(Refusal::new(Code::AttemptRunning, message)
            .hint("End what runs of this host, then register it again."));
    }
    // A daemon that registers without a lease holds the lock of the home, which is proof enough.
    let is_leased = known.ended_at.is_none() && registration.lease.is_some();
    let until = known.lease_until.filter(|until| *until > now && is_leased);
    match until {
        Some(until) if known.secret != registration.secret => {
            let message = format!(
                "host {} belongs to the daemon of another home, whose lease lasts until {until}",
                known.host_id
            );
            Err(Refusal::new(Code::NotPermitted, message).hint(
                "Give this host another name. Or end that daemon, and start this one when the \
                 lease is over.",
            ))
        }
        _ => Ok(known.incarnation + 1),
    }
}

/// Where a start goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostChoice {
    /// This host begins it.
    Here,
    /// The start is forwarded to the daemon of this host.
    On(String),
    /// It waits for the first host that has room for it.
    Anywhere,
}

/// Which host a start goes to that asks for this: this one if it has room, else the one with most free
/// slots. `is_free`: this host has a free slot. `used`: what is in use, by host.
pub fn place(
    own: &str,
    is_free: bool,
    wanted: &Demand,
    hosts: &[Host],
    used: &BTreeMap<String, Used>,
) -> HostChoice {
    let own = hosts.iter().find(|host| host.host_id == own);
    let used = |host: &Host| used.get(&host.host_id).copied().unwrap_or_default();
    if is_free && own.is_some_and(|own| own.runs(wanted) && own.has_room(wanted, used(own))) {
        return HostChoice::Here;
    }
    let free = |host: &Host| {
        let slots = host.slots.saturating_sub(used(host).slots);
        if host.has_room(wanted, used(host)) { slots } else { 0 }
    };
    let others = hosts.iter().filter(|host| {
        host.runs(wanted) && host.liveness() == Liveness::Alive && Some(*host) != own
    });
    // A gateway may have no repository to look up the base commit in, so it forwards a start also to a host
    // that is full.
    let may_be_full = own.is_some_and(|own| own.role == HostRole::Gateway);
    // The most free slots; among equals the first name, so that all daemons choose alike.
    let best = others.max_by_key(|host| (free(host), Reverse(&host.host_id)));
    match best.filter(|best| may_be_full || free(best) > 0) {
        Some(best) => HostChoice::On(best.host_id.clone()),
        None => HostChoice::Anywhere,
    }
}

/// The refusal of what only another host's daemon can do, as it alone has the worktrees, the log and the
/// processes. An empty `host`: no host has it yet.
pub fn elsewhere(what: &str, host: &str) -> Refusal {
    if host.is_empty() {
        let message = format!("{what} is on no host yet: it waits for one with a free slot");
        return Refusal::new(Code::InvalidState, message)
            .hint("Call the tool again when a host has taken it.");
    }
    let message = format!("{what} is on host {host}, whose daemon alone can do this");
    Refusal::new(Code::Elsewhere, message)
        .hint(format!(
            "Ask the daemon of host {host}: run the command, or connect the client, there."
        ))
        .detail("host", host)
}

/// Whether a text can be a label: 1 to 64 letters, digits, `.`, `_` or `-`.
pub fn is_label(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=LABEL_MAX).contains(&text.len()) && text.chars().all(is_plain)
}

/// Whether some host has what an executor asks for: all the labels, and the memory when nothing else runs
/// there.
///
/// # Errors
/// `executor_unavailable`: none has; the message names what the hosts have.
pub fn require_host(executor: &str, wanted: &Demand, hosts: &[Host]) -> Result<(), Refusal> {
    if wanted.is_none() {
        return Ok(());
    }
    let labelled: Vec<&Host> = hosts.iter().filter(|it| it.has_labels(&wanted.labels)).collect();
    if labelled.is_empty() {
        return Err(without_labels(executor, &wanted.labels, hosts));
    }
    let mut runners = labelled.iter().filter(|it| it.role != HostRole::Gateway).peekable();
    // While only gateways are registered, the attempt waits for a host.
    if runners.peek().is_none() || runners.clone().any(|it| it.has_memory(wanted.memory)) {
        return Ok(());
    }
    let found: Vec<String> =
        runners.map(|it| format!("{} has {} MiB", it.host_id, it.memory >> 20)).collect();
    let asked = wanted.memory >> 20;
    let message = format!(
        "executor {executor:?} asks for {asked} MiB of memory, and no host that could run it has as \
         much: {}",
        found.join("; ")
    );
    let hint = format!(
        "Lower memory_mb of [executors.{executor}] in config.toml and restart the daemon. Or start a \
         daemon on a machine with more memory; where [host] memory_mb is set, that counts."
    );
    Err(Refusal::new(Code::ExecutorUnavailable, message)
        .hint(hint)
        .detail("path", "executor")
        .detail("memory_mb", asked))
}

/// The refusal where no host has all the labels.
fn without_labels(executor: &str, wanted: &[String], hosts: &[Host]) -> Refusal {
    let wanted_text = listed(wanted);
    let found: Vec<String> =
        hosts.iter().map(|it| format!("{} has {}", it.host_id, listed(&it.labels))).collect();
    let message = format!(
        "executor {executor:?} asks for a host with the labels {wanted_text}, and there is none: {}",
        found.join("; ")
    );
    let hint = format!(
        "Write labels = {wanted:?} into the table [host] of config.toml on a host that has what \
         they stand for, and restart its daemon. Or remove labels from [executors.{executor}]."
    );
    Refusal::new(Code::ExecutorUnavailable, message)
        .hint(hint)
        .detail("path", "executor")
        .detail("labels", wanted.to_vec())
}

fn listed(labels: &[String]) -> String {
    if labels.is_empty() { "none".to_owned() } else { labels.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    /// Registered and last renewed at 100 s, with a lease unless it is `local`.
    fn host(id: &str, labels: &[&str]) -> Host {
        Host {
            host_id: id.into(),
            incarnation: 7,
            secret: "mine".into(),
            labels: labels.iter().map(|it| (*it).into()).collect(),
            slots: 8,
            memory: 1 << 30,
            version: "1".into(),
            role: HostRole::All,
            state: HostState::Active,
            registered_at: at(100),
            renewed_at: at(100),
            lease_until: (id != LOCAL).then(|| at(100).plus(LEASE)),
            fenced_at: None,
            ended_at: None,
            read_at: at(101),
        }
    }

    fn read(known: &Host, seconds: i64) -> Host {
        Host { read_at: at(seconds), ..known.clone() }
    }

    fn from(secret: &str, lease: Option<Duration>) -> Registration {
        let Host { host_id, labels, slots, memory, version, role, .. } = host("a", &[]);
        let (secret, fenced_at) = (secret.into(), None);
        Registration { host_id, secret, labels, slots, memory, version, role, lease, fenced_at }
    }

    #[test]
    fn a_name_goes_to_its_own_home_at_once_and_to_another_after_the_lease() {
        let known = host("a", &[]);
        let next = |known: Option<&Host>, secret, now| {
            next_incarnation(known, &from(secret, Some(LEASE)), at(now))
        };
        assert_eq!(next(None, "mine", 0), Ok(1));
        assert_eq!(next(Some(&known), "mine", 101), Ok(8));
        assert_eq!(next(Some(&known), "other", 130), Ok(8));
        let refused = next(Some(&known), "other", 129).unwrap_err();
        assert_eq!(refused.code, Code::NotPermitted);
        assert!(refused.message.contains("1970-01-01T00:02:10"), "{refused}");
        assert!(refused.hint.contains("another name"), "{}", refused.hint);
        // Who was given up has to know it.
        let given_up = Host { fenced_at: Some(at(140)), ..known };
        assert_eq!(next(Some(&given_up), "mine", 150).unwrap_err().code, Code::AttemptRunning);
        let knows = Registration { fenced_at: Some(at(140)), ..from("mine", Some(LEASE)) };
        assert_eq!(next_incarnation(Some(&given_up), &knows, at(150)), Ok(8));
        // A home with a lock of its own needs no other proof.
        assert_eq!(next_incarnation(Some(&host(LOCAL, &[])), &from("other", None), at(0)), Ok(8));
    }

    #[test]
    fn a_host_that_does_not_renew_is_suspect_and_then_lost() {
        let known = host("a", &[]);
        let seen = [100, 109, 110, 129, 130, 9999].map(|now| read(&known, now).liveness());
        let (alive, suspect, lost) = (Liveness::Alive, Liveness::Suspect, Liveness::Lost);
        assert_eq!(seen, [alive, alive, suspect, suspect, lost, lost]);
        assert_eq!(read(&host(LOCAL, &[]), 9999).liveness(), alive);
        let given_up = Host { fenced_at: Some(at(140)), ..known.clone() };
        assert_eq!(given_up.liveness(), Liveness::Fenced);
        let ended = Host { ended_at: Some(at(105)), ..known };
        assert_eq!(ended.liveness(), Liveness::Ended);
        assert_eq!(read(&ended, 130).liveness(), lost);
        assert!(ended.check_removal(0).is_ok());
        assert_eq!(next_incarnation(Some(&ended), &from("other", Some(LEASE)), at(106)), Ok(8));
    }

    #[test]
    fn only_a_lost_host_without_work_is_removed() {
        let known = host("a", &[]);
        for now in [101, 120] {
            let refused = read(&known, now).check_removal(0).unwrap_err();
            assert!(refused.message.contains("its daemon is there"), "{refused}");
        }
        let refused = read(&known, 130).check_removal(2).unwrap_err();
        assert!(refused.message.contains("2 of its attempts are not settled"), "{refused}");
        assert_eq!(read(&known, 130).check_removal(0), Ok(()));
        assert!(read(&host(LOCAL, &[]), 9999).check_removal(0).is_err());
    }

    fn demand(labels: &[&str], memory: u64) -> Demand {
        Demand { labels: labels.iter().map(|it| (*it).into()).collect(), memory }
    }

    #[test]
    fn memory_that_no_host_has_is_refused_and_what_is_in_use_is_waited_for() {
        let small = Host { memory: 4 << 20, ..host("small", &[]) };
        let large = Host { memory: 9 << 20, ..host("large", &["gpu"]) };
        let hosts = [small.clone(), large.clone()];
        for (labels, memory) in [(&[] as &[&str], 9), (&["gpu"], 9), (&[], 4), (&[], 0)] {
            assert_eq!(require_host("x", &demand(labels, memory << 20), &hosts), Ok(()));
        }
        let refused = require_host("x", &demand(&[], 10 << 20), &hosts).unwrap_err();
        assert_eq!(refused.code, Code::ExecutorUnavailable);
        for expected in ["10 MiB", "small has 4 MiB", "large has 9 MiB"] {
            assert!(refused.message.contains(expected), "{expected}: {refused}");
        }
        for expected in ["[executors.x]", "[host] memory_mb"] {
            assert!(refused.hint.contains(expected), "{expected}: {}", refused.hint);
        }
        let gateway = Host { role: HostRole::Gateway, ..large };
        assert!(require_host("x", &demand(&[], 9 << 20), &[small, gateway.clone()]).is_err());
        assert_eq!(require_host("x", &demand(&[], 99 << 20), &[gateway]), Ok(()));
        let unknown = Host { memory: 0, ..host("unknown", &[]) };
        assert_eq!(require_host("x", &demand(&[], 99 << 20), &[unknown]), Ok(()));

        let placed = |wanted: u64, used: [(&str, u64); 2]| {
            let used =
                used.map(|(host, memory)| (host.into(), Used { slots: 1, memory: memory << 20 }));
            place("small", true, &demand(&[], wanted << 20), &hosts, &used.into())
        };
        assert_eq!(placed(2, [("small", 2), ("large", 0)]), HostChoice::Here);
        assert_eq!(placed(3, [("small", 2), ("large", 6)]), HostChoice::On("large".into()));
        assert_eq!(placed(3, [("small", 2), ("large", 7)]), HostChoice::Anywhere);
        assert_eq!(placed(0, [("small", 9), ("large", 9)]), HostChoice::Here);
    }

    #[test]
    fn one_host_has_to_have_all_labels() {
        let hosts = [host("a", &["gpu"]), host("b", &["big", "fast"]), host(LOCAL, &[])];
        let check = |wanted: &[&str], hosts: &[Host]| require_host("x", &demand(wanted, 0), hosts);
        for wanted in [&["gpu"] as &[&str], &["fast", "big"]] {
            assert_eq!(check(wanted, &hosts), Ok(()));
        }
        let refused = check(&["gpu", "fast"], &hosts).unwrap_err();
        assert_eq!(refused.code, Code::ExecutorUnavailable);
        for expected in ["gpu, fast", "a has gpu", "b has big, fast", "local has none"] {
            assert!(refused.message.contains(expected), "{expected}: {refused}");
        }
        for expected in ["labels = [\"gpu\", \"fast\"]", "[host]", "[executors.x]"] {
            assert!(refused.hint.contains(expected), "{expected}: {}", refused.hint);
        }
        assert!(check(&["gpu"], &[]).is_err());
    }

    #[test]
    fn a_start_goes_to_a_host_with_the_labels_and_a_free_slot_or_waits_for_one() {
        let drains = Host { state: HostState::Draining, ..host("drains", &["gpu"]) };
        let lost = Host { lease_until: Some(at(101)), ..host("lost", &["gpu"]) };
        let gateway = Host { role: HostRole::Gateway, ..host("gateway", &["gpu"]) };
        let hosts =
            [drains, lost, gateway, host("a", &[]), host("b", &["gpu"]), host("c", &["gpu"])];
        let placed = |own: &str, is_free, wanted: &[&str], used: &[(&str, u64)]| {
            let used = used
                .iter()
                .map(|(host, slots)| ((*host).to_owned(), Used { slots: *slots, memory: 0 }));
            place(own, is_free, &demand(wanted, 0), &hosts, &used.collect())
        };
        let on = |host: &str| HostChoice::On(host.to_owned());
        assert_eq!(placed("a", true, &[], &[]), HostChoice::Here);
        assert_eq!(placed("a", false, &[], &[]), on("b"));
        assert_eq!(placed("a", true, &["gpu"], &[("b", 3), ("c", 2)]), on("c"));
        assert_eq!(placed("b", false, &["gpu"], &[("b", 8)]), on("c"));
        let full = [("a", 8), ("b", 8), ("c", 9)];
        assert_eq!(placed("b", false, &[], &full), HostChoice::Anywhere);
        assert_eq!(placed("drains", true, &[], &full), HostChoice::Anywhere);
        assert_eq!(placed("drains", true, &[], &[]), on("a"));
        // The host that it goes to looks the base commit up.
        assert_eq!(placed("gateway", true, &[], &full), on("a"));
        assert_eq!(placed("gateway", true, &["tpu"], &[]), HostChoice::Anywhere);
    }

    #[test]
    fn a_label_is_a_plain_word() {
        assert!(["gpu", "ubuntu-24.04", "a_b", &"x".repeat(64)].iter().all(|it| is_label(it)));
        assert!(!["", "a b", "ä", "a,b", "a\n", &"x".repeat(65)].iter().any(|it| is_label(it)));
    }
}
