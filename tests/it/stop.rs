//! `stop_attempt`: when it returns, nothing that the attempt started is alive.

use serde_json::{Value, json};

use crate::harness::{PLAIN, Provost, has_python, wait_until};

const QUICK: &str = "[daemon]\nstop_grace_ms = 400";

#[test]
fn an_executor_that_obeys_is_asked_once() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say up\nhang");
    attempt.has_said("up");
    let stopped = attempt.stop();
    let process = attempt.status()["latest_execution_process_id"].clone();
    assert_eq!(
        stopped,
        json!({"attempt_id": attempt.id, "worktree": attempt.started["worktree"],
            "execution_process_id": process, "stopped": true,
            "state": "failed", "phase": "settled", "forced": false, "signals": ["SIGINT"],
            "exit_code": null, "exit_signal": 2, "survivors": 0, "unrecorded": false})
    );
    attempt.leaves_no_process();
    let summary = attempt.status()["failure_summary"].clone();
    assert_eq!(summary, "stopped by stop_attempt with SIGINT: killed by SIGINT (signal 2)");
    assert_eq!(attempt.said("process_end"), ["stopped: killed by SIGINT (signal 2)"]);
}

#[test]
fn a_stubborn_executor_and_its_grandchild_in_another_session_die() {
    let provost = Provost::new().config(QUICK).started();
    let attempt = provost.board().start("fake", "ignore-term\nfork\nsay up\nhang");
    attempt.has_said("up");
    wait_until("the grandchild is there", || attempt.processes().len() == 2);
    let stopped = attempt.stop();
    attempt.leaves_no_process();
    assert_eq!(stopped["signals"], json!(["SIGINT", "SIGTERM", "SIGKILL"]));
    assert_eq!((&stopped["exit_signal"], &stopped["survivors"]), (&json!(9), &json!(0)));
    assert_eq!((&stopped["state"], &stopped["phase"]), (&json!("failed"), &json!("settled")));
}

#[test]
fn a_daemonized_grandchild_dies_with_the_executor() {
    let script = "( setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep 0.1; done' & ) &\n\
                  echo up; exec sleep 1000";
    let provost = Provost::new().config(QUICK).executor("forker", PLAIN, script).started();
    let attempt = provost.board().start("forker", "x");
    attempt.has_said("up");
    wait_until("all are there", || attempt.processes().len() >= 3);
    assert_eq!(attempt.stop()["survivors"], 0);
    attempt.leaves_no_process();
}

#[test]
fn a_tree_that_keeps_forking_dies() {
    let script = "echo up; while :; do (setsid sleep 1000 &) ; sleep 0.02; done";
    let provost = Provost::new().config(QUICK).executor("forker", PLAIN, script).started();
    let attempt = provost.board().start("forker", "x");
    wait_until("it has forked some", || attempt.processes().len() >= 20);
    assert_eq!(attempt.stop_by_force()["survivors"], 0);
    attempt.leaves_no_process();
}

#[test]
fn force_kills_at_once() {
    let provost = Provost::new().config("[daemon]\nstop_grace_ms = 600000").started();
    let attempt = provost.board().start("fake", "ignore-term\nfork\nsay up\nhang");
    attempt.has_said("up");
    let stopped = attempt.stop_by_force();
    attempt.leaves_no_process();
    assert_eq!((&stopped["forced"], &stopped["signals"]), (&json!(true), &json!(["SIGKILL"])));
    assert_eq!(stopped["exit_signal"], 9);
}

#[test]
fn force_hastens_a_stop_that_is_under_way() {
    let provost = Provost::new().config("[daemon]\nstop_grace_ms = 600000").started();
    let attempt = provost.board().start("fake", "ignore-term\nsay up\nhang");
    attempt.has_said("up");
    let mut patient = provost.connect();
    let soft = patient.begin("stop_attempt", &json!({"attempt_id": attempt.id}));
    attempt.in_phase("stopping");
    let forced = attempt.stop_by_force();
    let soft = patient.outcome(soft).unwrap().output();
    for stopped in [soft, forced] {
        assert_eq!((&stopped["stopped"], &stopped["survivors"]), (&json!(true), &json!(0)));
    }
    attempt.leaves_no_process();
}

#[test]
fn a_flood_does_not_keep_a_stop_from_being_answered() {
    let provost = Provost::new()
        .config("[daemon]\nstop_grace_ms = 400\n[logs]\nspool_max_bytes = 16777216")
        .executor("flood", PLAIN, "trap '' INT TERM; yes 'a line of a flood'")
        .started();
    let attempt = provost.board().start("flood", "x");
    attempt.until("it floods", |status| status["latest_entry_index"]["raw"].as_u64() > Some(1000));
    let stopped = attempt.stop();
    assert_eq!((&stopped["stopped"], &stopped["survivors"]), (&json!(true), &json!(0)));
    attempt.leaves_no_process();
}

#[test]
fn a_stopped_child_is_ended_as_well() {
    let provost = Provost::new().config(QUICK).started();
    let attempt = provost.board().start("fake", "say up\nrun kill -STOP $PPID; sleep 1000");
    attempt.has_said("kill -STOP");
    assert_eq!(attempt.stop()["survivors"], 0);
    attempt.leaves_no_process();
}

#[test]
fn a_queued_attempt_is_taken_out_of_the_queue_and_never_starts() {
    let provost = Provost::new().config("[daemon]\nmax_running_attempts = 1").started();
    let board = provost.board();
    let running = board.start("fake", "say up\nhang");
    let queued = board.start("fake", "say never");
    assert_eq!(queued.started["phase"], "queued");
    let stopped = queued.stop();
    for (field, expected) in [
        ("stopped", json!(true)),
        ("state", json!("idle")),
        ("phase", json!("idle")),
        ("execution_process_id", Value::Null),
        ("signals", json!([])),
    ] {
        assert_eq!(stopped[field], expected, "{field}");
    }
    running.stop();
    // Whatever is still in the queue runs before what is started now settles.
    assert_eq!(board.start("fake", "say next").settled()["state"], "completed");
    let status = queued.status();
    assert_eq!((&status["state"], &status["phase"]), (&json!("idle"), &json!("idle")));
    provost.kill_and_start();
    assert_eq!(board.start("fake", "say next").settled()["state"], "completed");
    assert_eq!(queued.status()["phase"], "idle");
    assert_eq!(queued.raw(), Vec::<Value>::new());
}

#[test]
fn where_nothing_runs_there_is_nothing_to_stop() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "exit 4");
    attempt.settled();
    for _ in 0..2 {
        let stopped = attempt.stop();
        assert_eq!((&stopped["stopped"], &stopped["signals"]), (&json!(false), &json!([])));
        assert_eq!((&stopped["state"], &stopped["exit_code"]), (&json!("failed"), &json!(4)));
    }
}

#[test]
fn what_a_finished_attempt_left_behind_is_killed() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "fork\nsay done");
    assert_eq!(attempt.settled()["state"], "completed");
    assert_eq!(attempt.processes().len(), 1);
    let stopped = attempt.stop();
    attempt.leaves_no_process();
    assert_eq!((&stopped["stopped"], &stopped["survivors"]), (&json!(false), &json!(0)));
    assert_eq!(attempt.status()["state"], "completed");
}

#[test]
fn what_a_finished_attempt_left_behind_is_killed_after_a_restart_too() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "fork\nsay done");
    attempt.settled();
    provost.kill_and_start();
    assert_eq!(attempt.processes().len(), 1);
    assert_eq!(attempt.stop()["stopped"], false);
    attempt.leaves_no_process();
}

#[test]
fn an_agent_behind_a_wrapper_that_ends_at_once_has_its_grace() {
    let agent = "trap 'sleep 0.3; echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done";
    let wrapper =
        format!("setsid sh -c \"{agent}\" & trap 'exit 0' INT; while :; do sleep 0.05; done");
    let provost = Provost::new().executor("wrapped", PLAIN, &wrapper).started();
    let attempt = provost.board().start("wrapped", "x");
    attempt.has_said("up");
    let stopped = attempt.stop();
    assert_eq!(
        (&stopped["signals"], &stopped["survivors"]),
        (&json!(["SIGINT", "SIGTERM"]), &json!(0))
    );
    attempt.leaves_no_process();
    attempt.has_said("saved");
}

#[test]
fn stops_at_once_all_end_the_same_attempt() {
    let provost = Provost::new().config(QUICK).started();
    let attempt = provost.board().start("fake", "ignore-term\nfork\nsay up\nhang");
    attempt.has_said("up");
    let stop = json!({"attempt_id": attempt.id});
    let mut clients: Vec<_> = (0..8).map(|_| provost.connect()).collect();
    let ids: Vec<u64> =
        clients.iter_mut().map(|client| client.begin("stop_attempt", &stop)).collect();
    for (client, id) in clients.iter_mut().zip(ids) {
        let stopped = client.outcome(id).unwrap().output();
        assert_eq!((&stopped["survivors"], &stopped["phase"]), (&json!(0), &json!("settled")));
        attempt.leaves_no_process();
    }
    assert_eq!(attempt.stop()["stopped"], false);
}

#[test]
fn a_stop_with_a_request_id_is_answered_with_the_same_bytes() {
    let provost = Provost::new().config(QUICK).started();
    let attempt = provost.board().start("fake", "ignore-term\nsay up\nhang");
    attempt.has_said("up");
    let stop = json!({"attempt_id": attempt.id, "request_id": "r"});
    let (mut one, mut other) = (provost.connect(), provost.connect());
    let first = one.begin("stop_attempt", &stop);
    attempt.in_phase("stopping");
    let other_payload = json!({"attempt_id": attempt.id, "force": true, "request_id": "r"});
    assert_eq!(provost.refusal("stop_attempt", &other_payload)["code"], "idempotency_conflict");
    let joined = other.call("stop_attempt", &stop);
    let first = one.outcome(first).unwrap();
    let later = provost.answer("stop_attempt", &stop);
    assert_eq!(first.value["stopped"], true);
    assert_eq!([&joined.text, &later.text], [&first.text, &first.text]);
    assert!(joined.is_deduplicated && later.is_deduplicated && !first.is_deduplicated);
    assert_eq!(provost.refusal("stop_attempt", &other_payload)["code"], "idempotency_conflict");
}

#[test]
fn an_attempt_stopped_as_soon_as_it_is_started_leaves_no_process() {
    let provost = Provost::new().config(QUICK).started();
    let board = provost.board();
    for _ in 0..8 {
        let attempt = board.start("fake", "ignore-term\nfork\nhang");
        let stopped = attempt.stop();
        attempt.leaves_no_process();
        assert_eq!((&stopped["stopped"], &stopped["survivors"]), (&json!(true), &json!(0)));
        assert_eq!(attempt.settled()["state"], "failed");
    }
}

#[test]
fn an_executor_that_ends_well_when_asked_to_stop_has_completed() {
    let script = "trap 'echo saved; exit 0' INT; echo up; while :; do sleep 0.05; done";
    let provost = Provost::new().executor("polite", PLAIN, script).started();
    let attempt = provost.board().start("polite", "x");
    attempt.has_said("up");
    let stopped = attempt.stop();
    assert_eq!((&stopped["state"], &stopped["exit_code"]), (&json!("completed"), &json!(0)));
    assert_eq!(attempt.lines("stdout"), ["up", "saved"]);
    assert_eq!(attempt.status()["failure_summary"], json!(null));
    let entries = json!(attempt.normalized()).to_string();
    assert!(entries.contains("stopped: exit code 0"), "{entries}");
}

/// It connects to the shim that supervises it, as only a daemon should.
#[test]
fn a_process_that_is_connected_to_its_own_shim_dies_with_the_others() {
    const CONNECTS: &str = "import os, socket, time\n\
        os.chdir(os.path.join(os.environ['PROVOST_HOME'], 'attempts', \
            os.environ['PROVOST_ATTEMPT_ID'], os.environ['PROVOST_PROCESS_ID']))\n\
        link = socket.socket(socket.AF_UNIX)\n\
        link.connect('sock')\n\
        print('connected', flush=True)\n\
        time.sleep(1000)";
    if !has_python() {
        return;
    }
    let provost = Provost::new().config(QUICK);
    let program = provost.path("connects.py");
    std::fs::write(&program, CONNECTS).unwrap();
    let script = format!(
        "setsid python3 {0} & until [ -e \"$PROVOST_HOME/gate\" ]; do sleep 0.02; done; echo over",
        program.display()
    );
    let provost = provost.executor("agent", PLAIN, &script).started();
    let board = provost.board();
    let attempt = board.start("agent", "x");
    attempt.has_said("connected");
    assert_eq!(attempt.stop()["survivors"], 0);
    attempt.leaves_no_process();
    // The same of what a finished turn has left behind.
    std::fs::write(provost.home().join("gate"), "").unwrap();
    let attempt = board.start("agent", "x");
    attempt.has_said("connected");
    attempt.settled();
    assert_eq!(attempt.processes().len(), 1);
    assert_eq!(attempt.stop()["survivors"], 0);
    attempt.leaves_no_process();
}

/// The agent's own word is an answer to the stop, not an end of its turn.
#[test]
fn an_agent_that_answers_a_stop_with_the_end_of_its_turn_was_stopped() {
    const AGENT: &str = r#"
import json, sys
def say(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
prompt = None
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        say(id=message["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
    elif method == "session/new":
        say(id=message["id"], result={"sessionId": "s"})
    elif method == "session/prompt":
        prompt = message["id"]
        say(method="session/update", params={"sessionId": "s", "update": {
            "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "up"}}})
    elif method == "session/cancel":
        say(id=prompt, result={"stopReason": "end_turn"})
"#;
    if !has_python() {
        return;
    }
    let provost = Provost::new();
    let program = provost.path("agent.py");
    std::fs::write(&program, AGENT).unwrap();
    let script = format!("exec python3 {}", program.display());
    let provost = provost.executor("agent", "acp", &script).started();
    let attempt = provost.board().start("agent", "work");
    attempt.has_said("agent_message_chunk");
    let stopped = attempt.stop();
    assert_eq!(stopped["signals"][0], "interrupt", "{stopped}");
    assert_eq!(stopped["state"], "failed", "{stopped}");
    let summary = attempt.status()["failure_summary"].clone();
    assert!(summary.as_str().unwrap().starts_with("stopped by stop_attempt"), "{summary}");
}

#[test]
fn an_executor_that_dies_of_the_interrupt_is_never_a_survivor() {
    let provost = Provost::running();
    let board = provost.board();
    for _ in 0..10 {
        let attempt = board.start("fake", "say up\nhang");
        attempt.has_said("up");
        let stopped = attempt.stop();
        assert_eq!((&stopped["survivors"], &stopped["signals"]), (&json!(0), &json!(["SIGINT"])));
    }
}
