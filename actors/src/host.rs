//! Hosts: the machines that attempts run on, each with a daemon that has registered it. Whether a
//! registration is granted, whether a host is alive, whether it can be removed, and whether one has
//! the labels that an executor asks for. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::Timestamp;
use crate::refusal::{Code, Refusal};

/// The host of a database that only one home can open.
pub const LOCAL: &str = "local";
/// Between two renewals of a lease.
pub const RENEW_EVERY: Duration = Duration::from_secs(5);
/// How long a lease lasts after its last renewal.
pub const LEASE: Duration = Duration::from_secs(30);
/// How long after its last renewal a host is suspect.
const SUSPECT_AFTER: Duration = Duration::from_secs(10);
/// Longest label, in characters.
const LABEL_MAX: usize = 64;

/// A host, as its daemon has registered it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Host {
    pub host_id: String,
    /// Counts its registrations.
    pub incarnation: u64,
    /// Hash of what its home holds.
    pub secret: String,
    pub labels: Vec<String>,
    /// Attempts that it runs at once.
    pub slots: u64,
    /// Of the machine, in bytes.
    pub memory: u64,
    pub version: String,
    pub state: HostState,
    pub registered_at: Timestamp,
    pub renewed_at: Timestamp,
    /// `None`: the lock of its home is the lease, and nothing is renewed.
    pub lease_until: Option<Timestamp>,
    /// When its attempts were given away; its next registration clears it.
    pub fenced_at: Option<Timestamp>,
}

/// What a daemon registers its host with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    pub host_id: String,
    /// Hash of what the home holds.
    pub secret: String,
    pub labels: Vec<String>,
    pub slots: u64,
    /// Of the machine, in bytes.
    pub memory: u64,
    pub version: String,
    /// `None`: the lock of the home is the lease.
    pub lease: Option<Duration>,
}

/// What a person wants of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostState {
    Active,
    /// Nothing new begins on it; what runs goes on to its end.
    Draining,
}

/// Whether a host's daemon is there, as far as its lease shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Liveness {
    Alive,
    /// Its last renewal is late.
    Suspect,
    /// Its lease is over.
    Lost,
}

/// A change of a host that a person asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostChange {
    Drain,
    Resume,
    Remove,
}

impl Host {
    pub fn liveness(&self, now: Timestamp) -> Liveness {
        match self.lease_until {
            Some(until) if until <= now => Liveness::Lost,
            Some(_) if now.since(self.renewed_at) >= SUSPECT_AFTER => Liveness::Suspect,
            _ => Liveness::Alive,
        }
    }

    /// Whether it has all these labels.
    pub fn has(&self, labels: &[String]) -> bool {
        labels.iter().all(|label| self.labels.contains(label))
    }

    /// Whether it can be forgotten, with so many attempts that are not settled.
    ///
    /// # Errors
    /// Its daemon may be there, or would miss its attempts.
    pub fn check_removal(&self, unsettled: u64, now: Timestamp) -> Result<(), Refusal> {
        let host = &self.host_id;
        let refused = |why: String| {
            Refusal::new(Code::InvalidState, format!("host {host} can't be removed: {why}"))
        };
        if self.liveness(now) != Liveness::Lost {
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

/// The incarnation that a registration gets.
///
/// # Errors
/// The host belongs to another home, and its lease is not over.
pub fn next_incarnation(
    known: Option<&Host>,
    registration: &Registration,
    now: Timestamp,
) -> Result<u64, Refusal> {
    let Some(known) = known else { return Ok(1) };
    // Who registers without a lease holds the lock of the home.
    let until = known.lease_until.filter(|until| *until > now && registration.lease.is_some());
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

/// Of the hosts that have all these labels, one whose daemon is there and that does not drain, if
/// there is such a one.
pub fn with_labels<'h>(wanted: &[String], hosts: &'h [Host], now: Timestamp) -> Option<&'h Host> {
    let is_away =
        |host: &Host| host.liveness(now) != Liveness::Alive || host.state == HostState::Draining;
    hosts.iter().filter(|host| host.has(wanted)).min_by_key(|host| is_away(host))
}

/// The refusal of what only another host's daemon can do: it alone has the worktrees, the log and
/// the processes.
pub fn elsewhere(what: &str, host: &str) -> Refusal {
    let message = format!("{what} is on host {host}, whose daemon alone can do this");
    Refusal::new(Code::Elsewhere, message)
        .hint(format!(
            "Ask the daemon of host {host}: run the command, or connect the client, there."
        ))
        .detail("host", host)
}

/// Whether a text can be a label of a host.
pub fn is_label(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=LABEL_MAX).contains(&text.len()) && text.chars().all(is_plain)
}

/// Whether a host has all the labels that an executor asks for.
///
/// # Errors
/// There is none; the refusal names the labels that the hosts have.
pub fn require_labels(executor: &str, wanted: &[String], hosts: &[Host]) -> Result<(), Refusal> {
    if hosts.iter().any(|host| host.has(wanted)) {
        return Ok(());
    }
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
    Err(Refusal::new(Code::ExecutorUnavailable, message)
        .hint(hint)
        .detail("path", "executor")
        .detail("labels", wanted.to_vec()))
}

fn listed(labels: &[String]) -> String {
    if labels.is_empty() { "none".to_owned() } else { labels.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            state: HostState::Active,
            registered_at: at(100),
            renewed_at: at(100),
            lease_until: (id != LOCAL).then(|| at(100).plus(LEASE)),
            fenced_at: None,
        }
    }

    fn from(secret: &str, lease: Option<Duration>) -> Registration {
        let Host { host_id, labels, slots, memory, version, .. } = host("a", &[]);
        Registration { host_id, secret: secret.into(), labels, slots, memory, version, lease }
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
        // A home with a lock of its own needs no other proof.
        assert_eq!(next_incarnation(Some(&host(LOCAL, &[])), &from("other", None), at(0)), Ok(8));
    }

    #[test]
    fn a_host_that_does_not_renew_is_suspect_and_then_lost() {
        let known = host("a", &[]);
        let seen = [100, 109, 110, 129, 130, 9999].map(|now| known.liveness(at(now)));
        let (alive, suspect, lost) = (Liveness::Alive, Liveness::Suspect, Liveness::Lost);
        assert_eq!(seen, [alive, alive, suspect, suspect, lost, lost]);
        assert_eq!(host(LOCAL, &[]).liveness(at(9999)), alive);
    }

    #[test]
    fn only_a_lost_host_without_work_is_removed() {
        let known = host("a", &[]);
        for now in [101, 120] {
            let refused = known.check_removal(0, at(now)).unwrap_err();
            assert!(refused.message.contains("its daemon is there"), "{refused}");
        }
        let refused = known.check_removal(2, at(130)).unwrap_err();
        assert!(refused.message.contains("2 of its attempts are not settled"), "{refused}");
        assert_eq!(known.check_removal(0, at(130)), Ok(()));
        assert!(host(LOCAL, &[]).check_removal(0, at(9999)).is_err());
    }

    #[test]
    fn one_host_has_to_have_all_labels() {
        let hosts = [host("a", &["gpu"]), host("b", &["big", "fast"]), host(LOCAL, &[])];
        let check = |wanted: &[&str], hosts: &[Host]| {
            let wanted: Vec<String> = wanted.iter().map(|it| (*it).into()).collect();
            require_labels("x", &wanted, hosts)
        };
        for wanted in [&["gpu"] as &[&str], &["fast", "big"]] {
            assert_eq!(check(wanted, &hosts), Ok(()));
        }
        let refused = check(&["gpu", "fast"], &hosts).unwrap_err();
        assert_eq!(refused.code, Code::ExecutorUnavailable);
        for told in ["gpu, fast", "a has gpu", "b has big, fast", "local has none"] {
            assert!(refused.message.contains(told), "{told}: {refused}");
        }
        for told in ["labels = [\"gpu\", \"fast\"]", "[host]", "[executors.x]"] {
            assert!(refused.hint.contains(told), "{told}: {}", refused.hint);
        }
        assert!(check(&["gpu"], &[]).is_err());
    }

    #[test]
    fn a_start_goes_to_a_host_with_the_labels_that_takes_it() {
        let drains = Host { state: HostState::Draining, ..host("a", &["gpu"]) };
        let lost = Host { lease_until: Some(at(1)), ..host("b", &["gpu"]) };
        let hosts = [drains, lost, host("c", &["big", "gpu"]), host("d", &["gpu"])];
        let chosen = |wanted: &[&str], hosts: &[Host]| {
            let wanted: Vec<String> = wanted.iter().map(|it| (*it).into()).collect();
            with_labels(&wanted, hosts, at(101)).map(|it| it.host_id.clone())
        };
        assert_eq!(chosen(&["gpu"], &hosts).as_deref(), Some("c"));
        assert_eq!(chosen(&["gpu"], &hosts[..2]).as_deref(), Some("a"));
        assert_eq!(chosen(&["tpu"], &hosts), None);
    }

    #[test]
    fn a_label_is_a_plain_word() {
        assert!(["gpu", "ubuntu-24.04", "a_b", &"x".repeat(64)].iter().all(|it| is_label(it)));
        assert!(!["", "a b", "ä", "a,b", "a\n", &"x".repeat(65)].iter().any(|it| is_label(it)));
    }
}
