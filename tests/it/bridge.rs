//! `provost mcp`: a bridge that starts the daemon and outlives it.

use std::collections::HashSet;
use std::fs;

use serde_json::{Value, json};

use crate::harness::{Attempt, Client, PLAIN, Provost, wait_until};

#[test]
fn both_eras_of_the_protocol_are_spoken() {
    let provost = Provost::running();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = provost.bridge();
        let params = json!({"protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let result = client.ask("initialize", &params)["result"].clone();
        assert_eq!(result["protocolVersion"], version);
        assert_eq!(result["serverInfo"]["name"], "provost");
        assert!(result["instructions"].as_str().unwrap().contains("start_task_attempt"));
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client.call("list_projects", &json!({})).output();
    }
    // The era without a handshake: each request says who asks.
    let mut client = provost.bridge();
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let discovered = client.ask("server/discover", &json!({"_meta": meta}));
    let versions = discovered["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{discovered}");
    let call = json!({"name": "list_projects", "arguments": {}, "_meta": meta});
    let answer = client.ask("tools/call", &call);
    assert_eq!(answer["result"]["structuredContent"]["projects"], json!([]), "{answer}");
}

#[test]
fn malformed_lines_are_answered_and_do_no_harm() {
    let provost = Provost::running();
    let mut client = provost.bridge();
    client.initialize();
    for (line, code) in [
        (b"{".as_slice(), -32700),
        (b"\"text\"\xff", -32700),
        (b"[]", -32600),
        (b"{\"jsonrpc\":\"1.0\",\"id\":null}", -32600),
    ] {
        client.send_bytes(line);
        let answer = client.next().unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(code)));
    }
    // Half a character costs no call.
    client.send_bytes(
        b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\",\"params\":{\"x\":\"\\ud800\"}}",
    );
    assert_eq!(client.answer(5).unwrap()["result"], json!({}));
    // What can't be read is answered under its id.
    client.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"ping\",\"params\":{");
    assert_eq!(client.answer(6).unwrap()["error"]["code"], -32700);
    let answer = client.ask("no/such/method", &json!({}));
    assert_eq!(answer["error"]["code"], -32601);
    let answer = client.ask("tools/call", &json!({"name": "list_project", "arguments": {}}));
    assert_eq!(answer["error"]["code"], -32602);
    assert!(answer["error"]["message"].as_str().unwrap().contains("list_projects"));
    let long = format!("{{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"{}\"}}", "x".repeat(17 << 20));
    client.send_bytes(long.as_bytes());
    assert_eq!(client.answer(77).unwrap()["error"]["code"], -32600);
    client.send_bytes(b"");
    client.call("list_projects", &json!({})).output();
}

#[test]
fn two_bridges_at_once_start_one_daemon() {
    let provost = Provost::new();
    let mut clients: Vec<Client> = (0..4).map(|_| provost.bridge()).collect();
    let ids: Vec<u64> = clients
        .iter_mut()
        .map(|client| client.begin("create_project", &json!({"name": "x", "repos": []})))
        .collect();
    for (client, id) in clients.iter_mut().zip(ids) {
        client.outcome(id).unwrap().refusal();
    }
    let daemons = provost.processes().into_iter().filter(|pid| is_daemon(*pid)).count();
    assert_eq!(daemons, 1);
}

fn is_daemon(pid: i32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).any(|argument| argument == b"daemon")
}

#[test]
fn a_client_that_closes_its_side_gets_its_answers_and_the_bridge_ends() {
    let provost = Provost::running();
    let mut client = provost.bridge();
    client.initialize();
    let ids: Vec<u64> = (0..5).map(|_| client.begin("list_projects", &json!({}))).collect();
    client.close_input();
    for id in ids {
        client.outcome(id).unwrap().output();
    }
    assert!(client.next().is_none(), "nothing more comes");
}

#[test]
fn calls_in_flight_are_answered_after_the_daemon_was_killed() {
    let provost = Provost::running();
    let board = provost.board();
    let mut client = provost.bridge();
    client.initialize();
    for _ in 0..3 {
        let tasks: Vec<String> = (0..5).map(|_| board.task("x")).collect();
        // Without request ids: that nothing is done twice is the bridge's affair.
        let ids: Vec<u64> = tasks
            .iter()
            .map(|task| {
                let start = json!({"task_id": task, "executor": "fake", "prompt": "say hi"});
                client.begin("start_task_attempt", &start)
            })
            .collect();
        provost.kill();
        // The bridge, which has something to ask, starts the next one.
        provost.is_started();
        for (id, task) in ids.into_iter().zip(tasks) {
            let started = client.outcome(id).unwrap().output();
            Attempt::new(&provost, started).settled();
            let listed = provost.call("list_task_attempts", &json!({"task_id": task}));
            assert_eq!(listed["attempts"].as_array().unwrap().len(), 1, "one attempt");
        }
    }
    assert_eq!(board.repo().attempt_branches().len(), 15);
}

#[test]
fn the_session_goes_on_with_a_daemon_that_the_bridge_itself_starts() {
    let provost = Provost::running();
    let mut client = provost.bridge();
    client.initialize();
    client.call("list_projects", &json!({})).output();
    provost.kill();
    client.call("list_projects", &json!({})).output();
    assert_eq!(provost.processes().into_iter().filter(|pid| is_daemon(*pid)).count(), 1);
}

#[test]
fn a_stop_in_flight_outlives_the_daemon() {
    let provost = Provost::new().config("[daemon]\nstop_grace_ms = 1500").started();
    let attempt = provost.board().start("fake", "ignore-term\nsay up\nhang");
    attempt.has_said("up");
    let mut client = provost.bridge();
    client.initialize();
    let stop = client.begin("stop_attempt", &json!({"attempt_id": attempt.id}));
    attempt.in_phase("stopping");
    // The bridge starts the next one.
    provost.kill();
    assert_eq!(client.outcome(stop).unwrap().output()["survivors"], 0);
    attempt.leaves_no_process();
}

#[test]
fn answers_come_as_they_are_ready_and_not_in_the_order_of_the_requests() {
    let provost = Provost::new()
        .config("[daemon]\nstop_grace_ms = 2000")
        .executor("stubborn", PLAIN, "trap '' INT TERM; echo up; while :; do sleep 0.05; done")
        .started();
    let attempt = provost.board().start("stubborn", "x");
    attempt.has_said("up");
    let mut client = provost.bridge();
    client.initialize();
    let slow = client.begin("stop_attempt", &json!({"attempt_id": attempt.id}));
    let quick: HashSet<u64> = (0..50).map(|_| client.begin("list_projects", &json!({}))).collect();
    let mut first = HashSet::new();
    wait_until("the quick ones are answered first", || {
        let answer = client.next().unwrap();
        assert_ne!(answer["id"], slow);
        first.insert(answer["id"].as_u64().unwrap());
        first == quick
    });
    assert_eq!(client.outcome(slow).unwrap().output()["stopped"], true);
}
