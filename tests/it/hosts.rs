//! Hosts: registered at each start, drained and let go on, removed; and the labels that executors
//! ask for.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::harness::{Attempt, PLAIN, Provost, run_until};

/// The only host of a home.
fn local(provost: &Provost) -> Value {
    let mut listed = provost.verb(["hosts", "--json"]).json();
    assert_eq!(listed["hosts"].as_array().unwrap().len(), 1, "{listed}");
    listed["hosts"][0].take()
}

fn queue(provost: &Provost, attempt: &Attempt, prompt: &str) {
    let queued = json!({"attempt_id": attempt.id, "action": "queue", "prompt": prompt});
    provost.call("follow_up", &queued);
}

/// Waits until it is queued because of its host.
fn is_held(attempt: &Attempt) -> Value {
    attempt.until("it waits for its host", |status| {
        status["phase"] == "queued" && status["waiting_on"] == "host"
    })
}

fn ps(provost: &Provost) -> String {
    provost.verb(["ps"]).stdout
}

#[test]
fn each_daemon_registers_its_host_once_more() {
    let provost = Provost::new().config("[daemon]\nmax_running_attempts = 3").started();
    let first = local(&provost);
    for (field, value) in [
        ("host", json!("local")),
        ("state", json!("active")),
        ("liveness", json!("alive")),
        ("labels", json!([])),
        ("slots", json!(3)),
        ("slots_used", json!(0)),
        ("lease_until", json!(null)),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
    ] {
        assert_eq!(first[field], value, "{field}: {first}");
    }
    assert!(first["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 28), "{first}");
    let file = provost.home().join("host-secret");
    let secret = fs::read_to_string(&file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let kept = provost.rows("SELECT secret FROM host_homes");
    assert!(!secret.trim().is_empty() && !kept[0].contains(secret.trim()), "{kept:?}");

    let attempt = provost.board().start("fake", &run_until(&provost.path("gate")));
    assert_eq!(attempt.in_phase("running")["host"], "local");
    provost.kill_and_start();
    let next = local(&provost);
    assert!(next["incarnation"].as_u64() > first["incarnation"].as_u64(), "{next}");
    assert_eq!(next["slots_used"], 1);
    assert_eq!(fs::read_to_string(&file).unwrap(), secret);
    let shown = provost.verb(["hosts"]).stdout;
    assert!(shown.contains("1/3") && shown.contains("active"), "{shown}");
    fs::write(provost.path("gate"), "").unwrap();
    attempt.settled();
}

#[test]
fn nothing_new_begins_on_a_host_that_drains_until_it_is_resumed() {
    let provost = Provost::running();
    let (board, gate) = (provost.board(), provost.path("gate"));
    let running = board.start("fake", &run_until(&gate));
    let idle = board.start("fake", "say first");
    idle.settled();
    running.in_phase("running");
    queue(&provost, &running, "say after the drain");
    let drained = provost.verb(["host", "drain", "local", "--json"]).json();
    assert_eq!(drained["hosts"][0]["state"], "draining", "{drained}");
    let new = board.start("fake", "say hello");
    queue(&provost, &idle, "say second");
    assert!(new.started["execution_process_id"].is_null(), "{}", new.started);
    let held = is_held(&new);
    let next = held["next_action"].as_str().unwrap();
    assert!(next.contains("`provost host resume local`"), "{next}");
    is_held(&idle);
    let shown = ps(&provost);
    assert_eq!(shown.matches("queued, its host drains").count(), 2, "{shown}");
    assert!(!shown.contains("HOST"), "{shown}");
    let shown = provost.verb(["status", &new.id]).stdout;
    assert!(shown.contains("provost host resume local"), "{shown}");

    // What runs goes on, over a restart too; its follow-up has to wait then.
    provost.kill_and_start();
    assert_eq!(local(&provost)["state"], "draining");
    assert_eq!(running.status()["phase"], "running");
    fs::write(&gate, "").unwrap();
    is_held(&running);
    running.saved(1);
    provost.kill_and_start();
    for attempt in [&running, &idle, &new] {
        is_held(attempt);
        attempt.leaves_no_process();
    }
    assert_eq!(local(&provost)["slots_used"], 0);

    let resumed = provost.verb(["host", "resume", "local", "--json"]).json();
    assert_eq!(resumed["hosts"][0]["state"], "active", "{resumed}");
    for (attempt, last) in [(&running, "after the drain"), (&idle, "second"), (&new, "hello")] {
        assert_eq!(attempt.settled()["state"], "completed");
        assert_eq!(attempt.said("assistant_message").last().unwrap(), last);
    }
    running.saved(2);
}

#[test]
fn a_wait_for_any_change_is_woken_by_a_drain() {
    let provost = Provost::new().config("[daemon]\nmax_running_attempts = 1").started();
    let (board, gate) = (provost.board(), provost.path("gate"));
    let running = board.start("fake", &run_until(&gate));
    let queued = board.start("fake", "say hello");
    assert_eq!(queued.in_phase("queued")["waiting_on"], "a running slot");
    let ids = json!([queued.id]);
    let wait = |after: Value| {
        let wait = json!({"attempt_ids": ids, "until": "any_change", "timeout_ms": 60_000,
            "after": after});
        provost.call("wait_for_attempts", &wait)
    };
    let token = provost.call("wait_for_attempts", &json!({"attempt_ids": ids, "timeout_ms": 1}));
    assert_eq!(provost.verb(["host", "drain", "local"]).code, 0);
    let woken = wait(token["after"].clone());
    assert_eq!(woken["timed_out"], false, "{woken}");
    is_held(&queued);
    assert_eq!(provost.verb(["host", "resume", "local"]).code, 0);
    fs::write(&gate, "").unwrap();
    for attempt in [running, queued] {
        assert_eq!(attempt.settled()["state"], "completed");
    }
}

#[test]
fn a_host_that_is_there_is_not_removed_and_one_that_is_lost_is() {
    let provost = Provost::running();
    let board = provost.board();
    board.start("fake", "say hello").settled();
    let refused = provost.verb(["host", "remove", "local"]);
    assert_eq!(refused.code, 5, "{refused:?}");
    assert!(refused.stderr.contains("its daemon is there"), "{refused:?}");
    let refused = provost.verb(["host", "drain", "elsewhere"]);
    assert!(refused.code == 4 && refused.stderr.contains("provost hosts"), "{refused:?}");
    provost.sql(&[
        "INSERT INTO hosts (host_id, incarnation, labels, slots, memory,
            version, state, registered_at, renewed_at, lease_until) VALUES
        ('elsewhere', 4, '[\"gpu\"]', 8, 1073741824, '0', 'active', 1, 1, 2)",
        "INSERT INTO host_homes VALUES ('elsewhere', 'x')",
    ]);
    // The daemon reads again what was committed beside it after a commit of its own.
    board.task("t");
    let listed = provost.verb(["hosts"]).stdout;
    assert!(listed.contains("active, lost") && listed.contains("gpu"), "{listed}");
    // With more than one host, it says which.
    let shown = ps(&provost);
    assert!(shown.contains("HOST") && shown.contains("local"), "{shown}");
    let removed = provost.verb(["host", "remove", "elsewhere", "--json"]).json();
    assert_eq!(removed["hosts"].as_array().unwrap().len(), 1, "{removed}");
    assert!(!ps(&provost).contains("HOST"));
}

#[test]
fn an_executor_starts_only_where_a_host_has_its_labels() {
    let labelled = |labels: &str| {
        let provost = Provost::new().executor("cuda", PLAIN, "echo computed");
        provost.config("labels = ['gpu', 'big']").config(labels).started()
    };
    let provost = labelled("[host]\nlabels = ['big']");
    let board = provost.board();
    let start = json!({"task_id": board.task("t"), "executor": "cuda"});
    let refused = provost.refusal("start_task_attempt", &start);
    assert_eq!(refused["code"], "executor_unavailable", "{refused}");
    for expected in ["gpu, big", "local has big"] {
        assert!(refused["message"].as_str().unwrap().contains(expected), "{refused}");
    }
    let hint = refused["hint"].as_str().unwrap();
    assert!(hint.contains("[host]") && hint.contains("[executors.cuda]"), "{hint}");
    let refused = provost.verb(["run", "compute", "--executor", "cuda"]);
    assert!(refused.code == 1 && refused.stderr.contains("local has big"), "{refused:?}");
    // Nothing was made for it: there is the task above.
    let tasks = provost.verb(["task", "list", "--json"]).json();
    assert_eq!(tasks["tasks"].as_array().unwrap().len(), 1, "{tasks}");

    let provost = labelled("[host]\nlabels = ['big', 'gpu']");
    let attempt = provost.board().start("cuda", "compute");
    assert_eq!(attempt.settled()["state"], "completed");
}

#[test]
fn only_the_command_line_of_a_person_changes_a_host() {
    let provost = Provost::new().executor("sh", PLAIN, "exec sh -c \"$(cat)\" 2>&1").started();
    let program = provost.program().display();
    let script = format!("'{program}' host drain local; '{program}' hosts");
    let attempt = provost.board().start("sh", &script);
    attempt.settled();
    let said = attempt.lines("stdout").join("\n");
    for method in ["provost/change_host", "provost/hosts"] {
        assert!(said.contains(&format!("{method} is not permitted")), "{said}");
    }
    assert_eq!(local(&provost)["state"], "active");
    // Neither is it a tool, nor a method of other clients.
    let params = json!({"host": "local", "change": "drain"});
    let mut bridge = provost.bridge();
    bridge.initialize();
    let refused = bridge.ask("provost/change_host", &params);
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    assert_eq!(local(&provost)["state"], "active");
}
