//! Further turns in the same session: sent, queued, held, cancelled.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Attempt, EVENTS, PLAIN, Provost, processes, run_until, wait_until};

fn follow_up(attempt: &Attempt, action: &str, prompt: &str) -> Value {
    json!({"attempt_id": attempt.id, "action": action, "prompt": prompt})
}

/// Waits until so many turns have ended and nothing runs.
fn turns(attempt: &Attempt, count: u64) -> Value {
    attempt.until(&format!("{count} turns have ended"), |status| {
        let ends = attempt.normalized();
        let ends = ends.iter().filter(|entry| entry["kind"] == "process_end");
        status["phase"] == "settled" && ends.count() as u64 >= count
    })
}

fn prompts(attempt: &Attempt) -> Vec<String> {
    attempt.said("user_message")
}

#[test]
fn follow_up_by_attempt_id_goes_on_in_the_same_session_worktree_and_log() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = board.start("fake", "write kept.txt one\nsay first");
    let before = attempt.settled();
    let last = attempt.normalized().len();

    let answer = provost.call("follow_up", &follow_up(&attempt, "send", "run cat kept.txt"));
    assert_eq!(answer["session_id"], attempt.started["session_id"]);
    assert_eq!(
        answer["queue"],
        json!({"status": "started", "length": 0, "held": false, "messages": []})
    );
    let after = turns(&attempt, 2);
    assert_eq!(after["latest_execution_process_id"], answer["execution_process_id"]);
    assert_ne!(after["latest_execution_process_id"], before["latest_execution_process_id"]);
    assert_eq!(after["latest_session_id"], before["latest_session_id"]);
    assert_eq!(attempt.said("tool_result").last().unwrap(), "one");

    // The count of entries goes on, and each says whose it is.
    let entries = attempt.normalized();
    let indexes: Vec<u64> =
        entries.iter().map(|entry| entry["entry_index"].as_u64().unwrap()).collect();
    assert_eq!(indexes, (0..entries.len() as u64).collect::<Vec<_>>());
    let process = &answer["execution_process_id"];
    assert!(
        entries[last..]
            .iter()
            .all(|entry| entry["turn"] == 2 && &entry["execution_process_id"] == process)
    );
    assert!(entries[..last].iter().all(|entry| entry["turn"] == 1));
}

#[test]
fn follow_up_by_session_id() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say first");
    attempt.settled();
    let session = &attempt.started["session_id"];
    let sent = json!({"session_id": session, "action": "send", "prompt": "say second"});
    assert_eq!(provost.call("follow_up", &sent)["attempt_id"], attempt.id);
    turns(&attempt, 2);
    let queued = json!({"session_id": session, "action": "queue", "prompt": "say third"});
    // Nothing runs, so that it starts at once.
    assert_eq!(provost.call("follow_up", &queued)["queue"]["status"], "started");
    turns(&attempt, 3);
    assert_eq!(attempt.said("assistant_message"), ["first", "second", "third"]);
}

#[test]
fn what_is_queued_runs_in_order_one_at_a_time_however_turns_end() {
    let provost = Provost::running();
    let (order, gate) = (provost.path("order"), provost.path("gate"));
    let alone = |name: &str, end: &str| {
        let order = order.display();
        format!("run echo {name} begins >> {order}; sleep 0.05; echo {name} ends >> {order}\n{end}")
    };
    let attempt = provost.board().start("fake", &run_until(&gate));
    attempt.in_phase("running");
    let ends = ["exit 3", "say fine", "run kill -9 $PPID", "exit 0"];
    for (number, end) in ends.into_iter().enumerate() {
        let prompt = alone(&number.to_string(), end);
        let answer = provost.call("follow_up", &follow_up(&attempt, "queue", &prompt));
        assert_eq!(answer["queue"]["status"], "queued");
        assert_eq!(answer["queue"]["length"], number + 1);
        assert_eq!(answer["queue"]["messages"][number]["prompt"], prompt);
        assert_eq!(answer["execution_process_id"], Value::Null);
    }
    assert_eq!(attempt.status()["queued_follow_ups"], 4);
    fs::write(&gate, "").unwrap();
    let status = turns(&attempt, 5);
    assert_eq!((&status["queued_follow_ups"], &status["state"]), (&json!(0), &json!("completed")));
    let expected: Vec<String> =
        (0..4).flat_map(|n| [format!("{n} begins"), format!("{n} ends")]).collect();
    assert_eq!(fs::read_to_string(order).unwrap().lines().collect::<Vec<_>>(), expected);
}

#[test]
fn send_while_a_turn_runs_is_turn_active_and_starts_nothing() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say up\nhang");
    attempt.has_said("up");
    let refusal = provost.refusal("follow_up", &follow_up(&attempt, "send", "say no"));
    assert_eq!((&refusal["code"], &refusal["retryable"]), (&json!("turn_active"), &json!(true)));
    let verb = provost.verb(["send", &attempt.id, "say no"]);
    assert_eq!(verb.code, 5, "{verb:?}");
    assert_eq!(attempt.status()["queued_follow_ups"], 0);
    attempt.stop();
    assert_eq!(prompts(&attempt), ["say up\nhang"]);
}

#[test]
fn a_stop_holds_the_queue_until_the_next_send_or_queue() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say up\nhang");
    attempt.has_said("up");
    provost.call("follow_up", &follow_up(&attempt, "queue", "say held"));
    assert_eq!(attempt.stop()["stopped"], true);
    let status = attempt.status();
    assert_eq!((&status["phase"], &status["queue_held"]), (&json!("settled"), &json!(true)));
    assert_eq!(status["queued_follow_ups"], 1);
    // Held over a restart, too.
    provost.kill_and_start();
    assert_eq!(attempt.status()["queued_follow_ups"], 1);
    attempt.leaves_no_process();

    let answer = provost.call("follow_up", &follow_up(&attempt, "send", "say sent"));
    assert_eq!(answer["queue"]["length"], 1);
    assert_eq!(answer["queue"]["held"], false);
    turns(&attempt, 3);
    assert_eq!(attempt.said("assistant_message"), ["up", "sent", "held"]);
}

#[test]
fn a_stop_answers_for_the_turn_that_it_stopped_though_the_next_has_begun() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "ignore-term\nsay up\nhang");
    attempt.has_said("up");
    let mut client = provost.connect();
    let stop = client.begin("stop_attempt", &json!({"attempt_id": attempt.id}));
    attempt.in_phase("stopping");
    provost.call("follow_up", &follow_up(&attempt, "queue", "say next\nhang"));
    let stopped = client.outcome(stop).unwrap().output();
    assert_eq!(stopped["stopped"], true);
    assert_eq!(stopped["execution_process_id"], attempt.started["execution_process_id"]);
    assert_eq!(stopped["exit_signal"], 9, "{stopped}");
    attempt.stop();
}

#[test]
fn a_queued_prompt_releases_what_a_stop_held_and_takes_its_place_behind() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say up\nhang");
    attempt.has_said("up");
    provost.call("follow_up", &follow_up(&attempt, "queue", "say one"));
    attempt.stop_by_force();
    let answer = provost.call("follow_up", &follow_up(&attempt, "queue", "say two"));
    assert_eq!(answer["queue"]["status"], "started");
    assert_eq!(answer["queue"]["length"], 1);
    turns(&attempt, 3);
    assert_eq!(attempt.said("assistant_message"), ["up", "one", "two"]);
}

#[test]
fn cancel_empties_the_queue_and_leaves_the_turn_alone() {
    let provost = Provost::running();
    let gate = provost.path("gate");
    let attempt = provost.board().start("fake", &run_until(&gate));
    attempt.in_phase("running");
    for prompt in ["say one", "say two"] {
        provost.call("follow_up", &follow_up(&attempt, "queue", prompt));
    }
    let cancel = json!({"attempt_id": attempt.id, "action": "cancel"});
    let empty = json!({"status": "empty", "length": 0, "held": false, "messages": []});
    assert_eq!(provost.call("follow_up", &cancel)["queue"], empty);
    assert_eq!(attempt.status()["state"], "running");
    fs::write(gate, "").unwrap();
    attempt.settled();
    assert_eq!(provost.call("follow_up", &cancel)["queue"], empty);
    assert_eq!(prompts(&attempt).len(), 1);
}

#[test]
fn the_executors_own_session_id_is_passed_on_and_variants_change_by_turn() {
    let script = r#"echo "{\"kind\":\"session\",\"id\":\"own-$$\"}"
echo "{\"kind\":\"assistant_message\",\"text\":\"${PROVOST_EXECUTOR_SESSION_ID:-none} ${SPEED:-plain}\"}"
echo "{\"kind\":\"system_message\",\"text\":\"own-$$\"}""#;
    let provost = Provost::new()
        .executor("agent", EVENTS, script)
        .config("[executors.agent.variants.fast]\nenv = { SPEED = 'fast' }")
        .started();
    let attempt = provost.board().start("agent", "x");
    attempt.settled();
    let mut fast = follow_up(&attempt, "send", "x");
    fast["variant"] = json!("fast");
    provost.call("follow_up", &fast);
    assert_eq!(turns(&attempt, 2)["variant"], "fast");
    // Left out, it is that of the turn before.
    provost.call("follow_up", &follow_up(&attempt, "queue", "x"));
    assert_eq!(turns(&attempt, 3)["variant"], "fast");
    let own = attempt.said("system_message");
    let expected =
        ["none plain".to_owned(), format!("{} fast", own[0]), format!("{} fast", own[1])];
    assert_eq!(attempt.said("assistant_message"), expected);

    fast["variant"] = json!("fats");
    let refusal = provost.refusal("follow_up", &fast);
    assert_eq!(refusal["code"], "variant_not_found");
    assert!(refusal["hint"].as_str().unwrap().contains("fast"), "{refusal}");
}

#[test]
fn what_an_executor_said_of_its_session_last_of_all_is_known_to_the_next_turn() {
    let script = r#"until [ -e "$PROVOST_HOME/gate" ]; do sleep 0.02; done
echo "{\"kind\":\"assistant_message\",\"text\":\"${PROVOST_EXECUTOR_SESSION_ID:-none}\"}"
echo '{"kind":"session","id":"own"}'"#;
    let provost = Provost::new().executor("agent", EVENTS, script).started();
    let attempt = provost.board().start("agent", "x");
    attempt.in_phase("running");
    provost.call("follow_up", &follow_up(&attempt, "queue", "x"));
    let leader = attempt.leader();
    // All that it says is taken in at once, with its end.
    provost.kill();
    fs::write(provost.home().join("gate"), "").unwrap();
    wait_until("the executor has ended", || !processes::is_alive(leader));
    provost.start();
    turns(&attempt, 2);
    assert_eq!(attempt.said("assistant_message"), ["none", "own"]);
}

#[test]
fn while_an_attempt_waits_for_its_slot_prompts_can_be_queued_and_not_sent() {
    let provost = Provost::new().config("[daemon]\nmax_running_attempts = 1").started();
    let board = provost.board();
    let gate = provost.path("gate");
    let first = board.start("fake", &run_until(&gate));
    let waiting = board.start("fake", "say first");
    assert_eq!(waiting.started["phase"], "queued");
    let refusal = provost.refusal("follow_up", &follow_up(&waiting, "send", "say no"));
    assert_eq!(refusal["code"], "turn_active");
    let answer = provost.call("follow_up", &follow_up(&waiting, "queue", "say second"));
    assert_eq!(answer["queue"]["status"], "queued");
    fs::write(gate, "").unwrap();
    turns(&waiting, 2);
    assert_eq!(waiting.said("assistant_message"), ["first", "second"]);
    first.settled();
}

#[test]
fn a_follow_up_waits_for_a_slot_like_a_start_and_can_be_stopped_there() {
    let provost = Provost::new().config("[daemon]\nmax_running_attempts = 1").started();
    let board = provost.board();
    let attempt = board.start("fake", "say first");
    let done = attempt.settled();
    let gate = provost.path("gate");
    let busy = board.start("fake", &run_until(&gate));
    busy.in_phase("running");
    provost.call("follow_up", &follow_up(&attempt, "send", "say kept"));
    let status = attempt.status();
    assert_eq!((&status["phase"], &status["state"]), (&json!("queued"), &json!("idle")));
    assert_eq!(status["latest_execution_process_id"], done["latest_execution_process_id"]);
    let stopped = attempt.stop();
    assert_eq!((&stopped["stopped"], &stopped["phase"]), (&json!(true), &json!("settled")));
    assert_eq!(stopped["state"], "completed");
    // What never ran is no process to speak of.
    assert_eq!(attempt.stop()["execution_process_id"], Value::Null);
    // What was taken in to be run is not lost: it waits, held.
    let status = attempt.status();
    assert_eq!((&status["queued_follow_ups"], &status["queue_held"]), (&json!(1), &json!(true)));

    let answer = provost.call("follow_up", &follow_up(&attempt, "queue", "say more"));
    assert_eq!(answer["queue"]["messages"][0]["prompt"], "say more");
    // Nor does a restart lose its place.
    provost.kill_and_start();
    assert_eq!(attempt.status()["phase"], "queued");
    fs::write(gate, "").unwrap();
    turns(&attempt, 3);
    assert_eq!(attempt.said("assistant_message"), ["first", "kept", "more"]);
    assert_eq!(busy.settled()["state"], "completed");
}

#[test]
fn an_attempt_that_was_taken_out_of_the_queue_is_begun_by_a_follow_up() {
    let provost = Provost::new().config("[daemon]\nmax_running_attempts = 1").started();
    let board = provost.board();
    let busy = board.start("fake", "say up\nhang");
    busy.has_said("up");
    let attempt = board.start("fake", "say dropped");
    let stopped = attempt.stop();
    assert_eq!((&stopped["phase"], &stopped["state"]), (&json!("idle"), &json!("idle")));
    busy.stop();
    provost.call("follow_up", &follow_up(&attempt, "send", "say first\nwrite a.txt b"));
    assert_eq!(turns(&attempt, 1)["state"], "completed");
    assert_eq!(prompts(&attempt), ["say first\nwrite a.txt b"]);
    assert!(attempt.normalized().iter().all(|entry| entry["turn"] == 1));
}

#[test]
fn queued_follow_ups_outlive_the_daemon_and_each_runs_once() {
    let provost = Provost::running();
    let (gate, order) = (provost.path("gate"), provost.path("order"));
    let attempt = provost.board().start("fake", &run_until(&gate));
    attempt.in_phase("running");
    for number in 0..6 {
        let prompt = format!("run echo {number} >> {}", order.display());
        provost.call("follow_up", &follow_up(&attempt, "queue", &prompt));
    }
    provost.kill_and_start();
    fs::write(gate, "").unwrap();
    for least in 2..5 {
        wait_until("some have run", || {
            fs::read_to_string(&order).unwrap_or_default().lines().count() >= least
        });
        provost.kill_and_start();
    }
    turns(&attempt, 7);
    assert_eq!(fs::read_to_string(order).unwrap(), "0\n1\n2\n3\n4\n5\n");
}

#[test]
fn a_retried_follow_up_has_one_effect_and_one_answer() {
    let provost = Provost::running();
    let gate = provost.path("gate");
    let attempt = provost.board().start("fake", "say first");
    attempt.settled();
    let mut send = follow_up(&attempt, "send", &run_until(&gate));
    send["request_id"] = json!("send");
    let mut queue = follow_up(&attempt, "queue", "say third");
    queue["request_id"] = json!("queue");
    for call in [&send, &queue] {
        let first = provost.answer("follow_up", call);
        assert_eq!(provost.answer("follow_up", call).text, first.text);
        provost.kill_and_start();
        let again = provost.answer("follow_up", call);
        assert_eq!(again.text, first.text);
        assert!(again.is_deduplicated);
    }
    // By the session's id it comes to the same.
    let mut by_session = send.clone();
    by_session.as_object_mut().unwrap().remove("attempt_id");
    by_session["session_id"] = attempt.started["session_id"].clone();
    assert!(provost.answer("follow_up", &by_session).is_deduplicated);
    send["prompt"] = json!("say another");
    assert_eq!(provost.refusal("follow_up", &send)["code"], "idempotency_conflict");
    fs::write(gate, "").unwrap();
    turns(&attempt, 3);
    assert_eq!(prompts(&attempt).len(), 3);
}

#[test]
fn of_many_sends_at_once_one_runs_and_the_others_are_refused() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say first");
    attempt.settled();
    let mut client = provost.connect();
    let ids: Vec<u64> = (0..20)
        .map(|n| client.begin("follow_up", &follow_up(&attempt, "send", &format!("say {n}\nhang"))))
        .collect();
    let answers: Vec<_> = ids.into_iter().map(|id| client.outcome(id).unwrap()).collect();
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| !answer.is_error);
    assert_eq!((won.len(), lost.len()), (1, 19));
    assert!(lost.into_iter().all(|answer| answer.refusal()["code"] == "turn_active"));
    attempt.until("it runs", |status| status["phase"] == "running");
    attempt.stop();
    assert_eq!(prompts(&attempt).len(), 2);
}

#[test]
fn what_an_earlier_turn_left_behind_lives_through_the_next_and_not_through_a_stop() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "fork\nsay first");
    attempt.settled();
    let left = attempt.processes();
    assert!(!left.is_empty());
    provost.call("follow_up", &follow_up(&attempt, "send", "say up\nfork\nhang"));
    attempt.has_said("up");
    assert!(left.iter().all(|pid| processes::is_alive(*pid)));
    // A new daemon takes up both turns.
    provost.kill_and_start();
    assert!(left.iter().all(|pid| processes::is_alive(*pid)));
    let stopped = attempt.stop();
    assert_eq!((&stopped["stopped"], &stopped["survivors"]), (&json!(true), &json!(0)));
    attempt.leaves_no_process();
    assert_eq!(attempt.status()["state"], "failed");
}

#[test]
fn a_turn_that_can_not_start_is_over_and_the_next_one_has_its_turn() {
    let provost = Provost::new().executor("agent", PLAIN, "cat").started();
    let attempt = provost.board().start("agent", "first");
    attempt.settled();
    let program = provost.path("agent");
    let kept = fs::read(&program).unwrap();
    fs::write(&program, "#!/nowhere/sh\n").unwrap();
    provost.call("follow_up", &follow_up(&attempt, "send", "second"));
    let failed = attempt.until("it has failed", |status| status["state"] == "failed");
    assert!(!failed["failure_summary"].as_str().unwrap().is_empty());
    fs::write(&program, kept).unwrap();
    provost.call("follow_up", &follow_up(&attempt, "send", "third"));
    let status = attempt.until("it has completed", |status| status["state"] == "completed");
    assert_eq!(status["failure_summary"], Value::Null);
    assert_eq!(attempt.said("assistant_message"), ["first", "third"]);
}

#[test]
fn a_session_whose_executor_is_gone_says_what_to_fix() {
    let provost = Provost::new().executor("agent", PLAIN, "cat").started();
    let attempt = provost.board().start("agent", "first");
    attempt.settled();
    let program = provost.path("agent");
    fs::rename(&program, provost.path("elsewhere")).unwrap();
    let send = follow_up(&attempt, "send", "second");
    let refusal = provost.refusal("follow_up", &send);
    assert_eq!(refusal["code"], "executor_unavailable");
    assert!(refusal["hint"].as_str().unwrap().starts_with("Fix "), "{refusal}");
    provost.kill();
    fs::write(provost.home().join("config.toml"), "").unwrap();
    provost.start();
    assert_eq!(provost.refusal("follow_up", &send)["code"], "executor_not_found");
    // What needs no executor works all the same.
    let cancel = json!({"attempt_id": attempt.id, "action": "cancel"});
    assert_eq!(provost.call("follow_up", &cancel)["queue"]["status"], "empty");
}

#[test]
fn follow_ups_of_what_is_not_there_say_so() {
    let provost = Provost::running();
    let board = provost.board();
    let task = board.task("gone");
    let attempt = board.start_at(&task, "fake", &json!({"prompt": "say x"}));
    attempt.settled();
    provost.call("delete_task", &json!({"task_id": task}));
    let refusal = provost.refusal("follow_up", &follow_up(&attempt, "send", "say y"));
    assert_eq!(refusal["code"], "task_not_found");
    let unknown = json!({"session_id": attempt.id, "action": "send", "prompt": "x"});
    let refusal = provost.refusal("follow_up", &unknown);
    assert_eq!(refusal["code"], "session_not_found");
    assert_eq!(refusal["details"]["id_is"], "attempt_id");
}

#[test]
fn an_owner_whose_outcome_the_row_can_not_take_makes_room_for_the_next_owner() {
    let provost = Provost::running();
    let gate = provost.path("gate");
    let attempt = provost.board().start("fake", &run_until(&gate));
    attempt.in_phase("running");
    // As if another owner had the attempt now.
    provost.sql(&["UPDATE attempts SET epoch = epoch + 1"]);
    fs::write(&gate, "").unwrap();
    let next = follow_up(&attempt, "queue", "say second");
    wait_until("an owner takes a follow-up", || !provost.answer("follow_up", &next).is_error);
    let status = turns(&attempt, 2);
    assert_eq!((&status["state"], &status["queued_follow_ups"]), (&json!("completed"), &json!(0)));
    assert_eq!(attempt.said("assistant_message"), ["second"]);
}

#[test]
fn a_turn_that_no_process_was_begun_for_is_in_the_log_with_its_prompt_and_why() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say first");
    attempt.settled();
    // As if a person went on with the session by hand.
    let lock = provost.home().join(format!("attempts/{}/by-hand.lock", attempt.id));
    let held = fs::File::create(lock).unwrap();
    held.lock().unwrap();
    provost.call("follow_up", &follow_up(&attempt, "send", "say second"));
    assert_eq!(turns(&attempt, 2)["state"], "failed");
    assert_eq!(prompts(&attempt), ["say first", "say second"]);
    let errors = attempt.said("error_message");
    assert!(errors.len() == 1 && errors[0].contains("provost resume"), "{errors:?}");
}
