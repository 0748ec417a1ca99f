//! The lease of a host on a board that hosts share: what runs there stands still while the lease is late,
//! and ends when the host was given up. They need a server, which `.ci/postgres COMMAND` gives them.

use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::postgres::{Server, database, rows, run};
use crate::harness::processes::stands_still;
use crate::harness::{Attempt, PLAIN, Provost, processes, wait_until};

/// A host on a board with an executor that writes a ledger: the time of each of its steps, in
/// milliseconds since 1970. It ends when there is a gate.
struct Ticking {
    provost: Provost,
}

impl Ticking {
    fn new(url: &str, host: &str, lease_secs: u32, policies: &[&str]) -> Self {
        let mut provost = Provost::new();
        for policy in policies {
            let (ledger, gate) = (provost.path(policy), provost.path("gate"));
            let script = format!(
                "while [ ! -e {} ]; do date +%s%3N >> {}; sleep 0.02; done; echo over",
                gate.display(),
                ledger.display()
            );
            provost = provost.executor(&format!("{policy}s"), PLAIN, &script);
            provost = provost.config(&format!("on_lease_late = '{policy}'"));
        }
        let config = format!(
            "[engine]\nurl = \"{url}\"\ndurability = \"single\"\n[host]\nname = \"{host}\"\n\
             lease_secs = {lease_secs}\n"
        );
        Self { provost: provost.config(&config).started() }
    }

    /// An attempt for each of these policies, which ticks.
    fn start<const N: usize>(&self, policies: [&str; N]) -> [Attempt<'_>; N] {
        let board = self.provost.board();
        policies.map(|policy| {
            let attempt = board.start(&format!("{policy}s"), "tick");
            self.ticks_on(policy);
            attempt
        })
    }

    fn ledger(&self, policy: &str) -> Vec<i64> {
        ledger(&self.provost.path(policy))
    }

    fn ticks_on(&self, policy: &str) {
        let seen = self.ledger(policy).len();
        wait_until("it ticks", || self.ledger(policy).len() > seen + 3);
    }

    fn open_gate(&self) {
        fs::write(self.provost.path("gate"), "").unwrap();
    }
}

fn ledger(path: &Path) -> Vec<i64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn incarnation(url: &str) -> Vec<String> {
    rows(url, "SELECT CAST(incarnation AS text) FROM hosts WHERE fenced_at IS NULL")
}

#[test]
fn a_server_that_is_away_for_longer_than_the_lease_costs_no_restart() {
    let Some(server) = Server::new() else { return };
    let host = Ticking::new(&server.url(), "a", 3, &["freeze"]);
    // One that would give it up.
    let other = Ticking::new(&server.url(), "b", 3, &[]);
    let [attempt] = host.start(["freeze"]);
    let leader = attempt.leader();
    server.crash();
    wait_until("it stands still", || stands_still(leader));
    let seen = host.ledger("freeze").len();
    server.start();
    assert_eq!(host.ledger("freeze").len(), seen, "it stands still until the lease is renewed");
    wait_until("it goes on", || !stands_still(leader));
    host.ticks_on("freeze");
    assert_eq!(attempt.leader(), leader);
    host.open_gate();
    assert_eq!(attempt.settled()["state"], "completed");
    assert_eq!(incarnation(&server.url()), ["1", "1"]);
    drop(other);
    let said = attempt.said("system_message").join("\n");
    assert!(said.contains("stands still") && said.contains("goes on"), "{said}");
    assert_eq!(rows(&server.url(), "SELECT CAST(count(*) AS text) FROM processes"), ["1"]);
}

#[test]
fn the_executors_of_a_daemon_that_hangs_stand_still_before_their_host_counts_as_lost() {
    let Some(url) = database("lease_hangs") else { return };
    let host = Ticking::new(&url, "a", 6, &["freeze"]);
    let [attempt] = host.start(["freeze"]);
    let (leader, daemon) = (attempt.leader(), host.provost.pid());
    processes::signal(daemon, Signal::SIGSTOP);
    wait_until("it stands still", || stands_still(leader));
    let last = *host.ledger("freeze").last().unwrap();
    let lost = "SELECT CAST(lease_until + (lease_until - renewed_at) / 3 AS text) FROM hosts";
    let lost: i64 = rows(&url, lost)[0].parse().unwrap();
    assert!(last < lost, "it has run until {last}, and counts as lost from {lost} on");
    processes::signal(daemon, Signal::SIGCONT);
    wait_until("it goes on", || !stands_still(leader));
    host.ticks_on("freeze");
    host.open_gate();
    assert_eq!(attempt.settled()["state"], "completed");
    assert_eq!(incarnation(&url), ["1"]);
}

#[test]
fn the_executors_of_a_killed_daemon_stand_still_until_the_next_one_has_the_lease() {
    let Some(url) = database("lease_killed") else { return };
    let host = Ticking::new(&url, "a", 3, &["freeze"]);
    let [attempt] = host.start(["freeze"]);
    let leader = attempt.leader();
    host.provost.kill();
    wait_until("it stands still", || stands_still(leader));
    host.provost.start();
    wait_until("it goes on", || !stands_still(leader));
    assert_eq!(attempt.leader(), leader);
    host.ticks_on("freeze");
    // A stop of what stands still again works.
    processes::signal(host.provost.pid(), Signal::SIGSTOP);
    wait_until("it stands still", || stands_still(leader));
    processes::signal(host.provost.pid(), Signal::SIGCONT);
    attempt.stop();
    attempt.settled();
    attempt.leaves_no_process();
}

#[test]
fn a_daemon_whose_host_was_given_up_kills_what_runs_and_starts_over() {
    let Some(url) = database("lease_fenced") else { return };
    let host = Ticking::new(&url, "a", 6, &["freeze", "run_on"]);
    let [one, other] = host.start(["freeze", "run_on"]);
    let (daemon, leaders) = (host.provost.pid(), [one.leader(), other.leader()]);
    assert_eq!(incarnation(&url), ["1"]);
    run(&url, "UPDATE hosts SET fenced_at = 1");
    wait_until("it is registered again", || incarnation(&url) == ["2"]);
    assert!(!leaders.iter().any(|leader| processes::is_alive(*leader)));
    assert_eq!(host.provost.pid(), daemon, "a service manager sees the same process");
    host.provost.is_started();
    // Its connections are new.
    host.provost.connect().call("list_projects", &json!({}));
    wait_until("the attempts have ended", || {
        rows(&url, "SELECT phase FROM attempts") == ["settled", "settled"]
    });
    let ended = rows(&url, "SELECT state FROM attempts");
    assert_eq!(ended, ["failed", "failed"]);
}

#[test]
fn a_daemon_ends_what_another_host_has_before_it_registers_and_adopts_the_rest() {
    let Some(url) = database("lease_strangers") else { return };
    let host = Ticking::new(&url, "a", 30, &["freeze", "run_on"]);
    let [own, other] = host.start(["freeze", "run_on"]);
    let (own_leader, other_leader) = (own.leader(), other.leader());
    host.provost.kill();
    let moved = format!("UPDATE attempts SET host = 'b' WHERE attempt_id = '{}'", other.id);
    run(&url, &moved);
    host.provost.start();
    assert!(!processes::is_alive(other_leader));
    other.leaves_no_process();
    assert_eq!(own.leader(), own_leader);
    host.ticks_on("freeze");
    let phase = format!("SELECT phase FROM attempts WHERE attempt_id = '{}'", other.id);
    assert_eq!(rows(&url, &phase), ["running"], "its row is the other host's");

    host.provost.kill();
    run(&url, "UPDATE hosts SET fenced_at = 1");
    host.provost.start();
    assert!(!processes::is_alive(own_leader));
    assert_eq!(incarnation(&url), ["3"]);
}

#[test]
fn an_executor_can_be_killed_or_run_on_when_the_lease_is_late() {
    let Some(url) = database("lease_policies") else { return };
    let host = Ticking::new(&url, "a", 3, &["kill", "run_on"]);
    let [killed, left] = host.start(["kill", "run_on"]);
    let (killed_leader, left_leader) = (killed.leader(), left.leader());
    let daemon = host.provost.pid();
    processes::signal(daemon, Signal::SIGSTOP);
    wait_until("one is killed", || !processes::is_alive(killed_leader));
    host.ticks_on("run_on");
    processes::signal(daemon, Signal::SIGCONT);
    let status = killed.settled();
    assert_eq!(status["state"], "failed", "{status}");
    let said = killed.normalized();
    assert!(said.iter().any(|it| it.to_string().contains("on_lease_late")), "{said:?}");
    host.open_gate();
    assert_eq!(left.settled()["state"], "completed");
    assert!(!processes::is_alive(left_leader));
}

#[test]
fn a_daemon_that_ends_with_nothing_running_says_so_and_keeps_what_it_has_as_long_as_its_lease() {
    let Some(url) = database("lease_given_up") else { return };
    let a = Ticking::new(&url, "a", 600, &["freeze"]);
    let b = Ticking::new(&url, "b", 600, &[]);
    assert_eq!(a.provost.verb(["shutdown"]).code, 0);
    let listed = b.provost.verb(["hosts", "--json"]).json();
    let liveness: Vec<&str> = listed["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["liveness"].as_str().unwrap())
        .collect();
    assert_eq!(liveness, ["ended", "alive"], "{listed}");
    a.provost.ended();
    a.provost.start();
    let [attempt] = a.start(["freeze"]);
    let leader = attempt.leader();
    assert_eq!(a.provost.verb(["shutdown"]).code, 0);
    a.provost.ended();
    let ended = "SELECT CAST(ended_at IS NOT NULL AS text) FROM hosts";
    assert_eq!(rows(&url, ended), ["false", "false"], "what runs on keeps the lease");
    assert!(processes::is_alive(leader));
    a.provost.start();
    a.open_gate();
    attempt.settled();
}
