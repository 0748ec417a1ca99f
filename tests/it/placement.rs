//! Which host runs an attempt: one that was started where no slot is free, one whose host is lost,
//! and what each role of a daemon leaves to the others. They need a server, which `.ci/postgres
//! COMMAND` gives them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::postgres::{database, rows, run};
use crate::harness::{Attempt, Board, PLAIN, Provost, processes, run_until, wait_until};

/// A host on a board, with more lines of its table.
fn host(url: &str, name: &str, more: &str) -> Provost {
    let engine = format!("[engine]\nurl = \"{url}\"\ndurability = \"single\"\n");
    let host = format!("[host]\nname = \"{name}\"\nlease_secs = 3\n{more}");
    Provost::new().config(&(engine + &host))
}

const ONE_SLOT: &str = "[daemon]\nmax_running_attempts = 1";

/// A prompt that writes its beginning and its end into a file, and ends once there is another one.
fn noted(ledger: &Path, gate: &Path) -> String {
    let note = |what: &str| {
        format!("run echo {what} $PROVOST_ATTEMPT_ID $PROVOST_PROCESS_ID >> {}", ledger.display())
    };
    format!("{}\n{}\n{}", note("begins"), run_until(gate), note("ends"))
}

/// What the attempt's processes have written, each line without the ids; no process begins twice.
fn ledger(path: &Path, attempt: &Attempt) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(&attempt.id)).collect();
    let mut begun: Vec<&&str> = lines.iter().filter(|line| line.starts_with("begins")).collect();
    let all = begun.len();
    begun.sort_unstable();
    begun.dedup();
    assert_eq!(begun.len(), all, "{text}");
    lines.iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

fn begins(path: &Path, attempt: &Attempt) {
    wait_until("it has begun", || !ledger(path, attempt).is_empty());
}

/// Ends the machine of a host: its daemon and all that runs there, and with them its worktrees.
fn lose(host: &Provost, board: &Board) {
    host.kill();
    lose_killed(host, board);
}

/// The same where the daemon is killed already.
fn lose_killed(host: &Provost, board: &Board) {
    processes::kill_all_with("PROVOST_HOME", &host.home().to_string_lossy());
    processes::kill_all_below(host.home());
    let _ = fs::remove_dir_all(host.home().join("worktrees"));
    // Each host has a clone of its own; here they share one.
    board.repo().git(&["worktree", "prune", "--expire=now"]);
    for repo in fs::read_dir(board.repo().path.join(".git/worktrees")).into_iter().flatten() {
        let _ = fs::remove_dir_all(repo.unwrap().path());
    }
}

/// Waits until an attempt is on a host and runs.
fn runs_on(attempt: &Attempt, host: &str) -> Value {
    attempt.until(&format!("it runs on {host}"), |status| {
        status["host"] == host && status["phase"] == "running"
    })
}

/// Waits until the lease of a host was renewed a few times.
fn renews(url: &str, host: &str) {
    let renewed = || {
        let sql = format!("SELECT CAST(renewed_at AS text) FROM hosts WHERE host_id = '{host}'");
        rows(url, &sql).remove(0)
    };
    for _ in 0..3 {
        let before = renewed();
        wait_until("a lease is renewed", || renewed() != before);
    }
}

#[test]
fn an_attempt_of_a_host_that_is_lost_starts_over_on_another_one() {
    let Some(url) = database("placement_lost") else { return };
    let [a, b] = ["a", "b"].map(|name| host(&url, name, "").started());
    let (board, book, gate) = (a.board(), b.path("ledger"), b.path("gate"));
    let started = board.start("fake", &noted(&book, &gate));
    assert_eq!(runs_on(&started, "a")["state"], "running");
    begins(&book, &started);
    lose(&a, &board);
    let attempt = Attempt::new(&b, started.started.clone());
    let status = runs_on(&attempt, "b");
    assert_eq!(status["attempt_id"], json!(attempt.id));
    wait_until("it has begun again", || ledger(&book, &attempt) == ["begins", "begins"]);
    fs::write(&gate, "").unwrap();
    assert_eq!(attempt.settled()["state"], "completed");
    assert_eq!(ledger(&book, &attempt), ["begins", "begins", "ends"]);
    let turns =
        "SELECT turn || ' ' || status || ' ' || coalesce(failure_summary, '') FROM processes
                 WHERE run_reason = 'coding_agent' ORDER BY turn";
    assert_eq!(rows(&url, turns), ["1 killed host a was lost", "2 completed "]);
    let notices = attempt.said("system_message");
    assert!(
        notices.iter().any(|it| it.contains("the host of the turn before was lost")),
        "{notices:?}"
    );
    // The host that comes back has lost it.
    a.start();
    renews(&url, "a");
    assert_eq!(attempt.status()["host"], "b");
    assert_eq!(ledger(&book, &attempt), ["begins", "begins", "ends"]);
}

#[test]
fn what_waits_on_a_host_that_is_lost_moves_and_what_is_stopped_there_ends() {
    let Some(url) = database("placement_queued") else { return };
    let a = host(&url, "a", ONE_SLOT).started();
    let (board, book, gate) = (a.board(), a.path("ledger"), a.path("gate"));
    let waits = board.start("fake", "say one");
    waits.settled();
    waits.saved(1);
    let runs = board.start("fake", &noted(&book, &gate));
    begins(&book, &runs);
    let more = json!({"attempt_id": waits.id, "action": "queue", "prompt": noted(&book, &gate)});
    a.call("follow_up", &more);
    assert_eq!(waits.in_phase("queued")["host"], "a");
    let b = host(&url, "b", ONE_SLOT).started();
    a.kill();
    run(&url, &format!("UPDATE attempts SET phase = 'stopping' WHERE attempt_id = '{}'", runs.id));
    lose_killed(&a, &board);
    let [waits, runs] = [waits, runs].map(|it| Attempt::new(&b, it.started));
    let ended = runs.settled();
    assert_eq!((&ended["state"], &ended["host"]), (&json!("failed"), &json!("a")));
    let why = ended["failure_summary"].as_str().unwrap();
    assert_eq!(why, "host a was lost while the attempt was being stopped");
    runs_on(&waits, "b");
    fs::write(&gate, "").unwrap();
    assert_eq!(waits.settled()["state"], "completed");
    assert_eq!(ledger(&book, &waits), ["begins", "ends"]);
    assert_eq!(ledger(&book, &runs), ["begins"]);
    assert_eq!(rows(&url, "SELECT CAST(max(turn) AS text) FROM processes"), ["2"]);
}

#[test]
fn no_host_counts_as_lost_until_each_had_the_time_to_renew_its_lease() {
    let Some(url) = database("placement_gap") else { return };
    let [a, b] = ["a", "b"].map(|name| host(&url, name, "").started());
    let (board, gate) = (a.board(), b.path("gate"));
    let attempt = board.start("fake", &run_until(&gate));
    runs_on(&attempt, "a");
    run(&url, "UPDATE cluster SET no_sweep_before = 9000000000000000");
    lose(&a, &board);
    run(&url, "UPDATE hosts SET lease_until = 1, renewed_at = 1 WHERE host_id = 'a'");
    renews(&url, "b");
    let attempt = Attempt::new(&b, attempt.started.clone());
    assert_eq!(attempt.status()["host"], "a");
    run(&url, "UPDATE cluster SET no_sweep_before = 0");
    runs_on(&attempt, "b");
    fs::write(&gate, "").unwrap();
    attempt.settled();
}

#[test]
fn what_finds_no_free_slot_is_taken_by_the_first_host_that_has_one_and_does_not_drain() {
    let Some(url) = database("placement_full") else { return };
    let [a, b] = ["a", "b"].map(|name| host(&url, name, ONE_SLOT).started());
    let c = host(&url, "c", ONE_SLOT).started();
    assert_eq!(c.verb(["host", "drain", "c"]).code, 0);
    let board = a.board();
    let [one, two] = ["one", "two"].map(|name| a.path(name));
    let first = board.start("fake", &run_until(&one));
    let second = board.start("fake", &run_until(&two));
    runs_on(&first, "a");
    runs_on(&second, "b");
    let third = board.start("fake", &format!("say third\n{}", run_until(&one)));
    assert!(third.started["execution_process_id"].is_null(), "{}", third.started);
    let waiting = third.status();
    assert_eq!(waiting["phase"], "queued", "{waiting}");
    assert!(waiting["host"].is_null() && waiting["waiting_on"] == "a running slot", "{waiting}");
    assert!(waiting["next_action"].as_str().unwrap().contains("a host with a free"), "{waiting}");
    let page = a.call("tail_attempt_logs", &json!({"attempt_id": third.id}));
    assert_eq!(page["entries"], json!([]), "{page}");
    assert!(b.verb(["ps"]).stdout.contains("queued"));
    for host in ["a", "b", "c"] {
        renews(&url, host);
    }
    assert!(third.status()["host"].is_null());
    fs::write(&two, "").unwrap();
    runs_on(&third, "b");
    fs::write(&one, "").unwrap();
    for attempt in [&first, &second, &third] {
        assert_eq!(attempt.settled()["state"], "completed");
    }
    let on_c = rows(&url, "SELECT attempt_id FROM attempts WHERE host = 'c'");
    assert!(on_c.is_empty(), "{on_c:?}");
}

#[test]
fn what_asks_for_labels_waits_for_a_host_that_has_them() {
    let Some(url) = database("placement_labels") else { return };
    let with = |name: &str, more: &str| {
        let big = "until [ -e \"$PROVOST_PROMPT\" ]; do sleep 0.02; done";
        let host = host(&url, name, &format!("{more}\n{ONE_SLOT}")).executor("big", PLAIN, big);
        host.config("labels = ['gpu']").started()
    };
    let (a, b) = (with("a", ""), with("b", "labels = ['gpu', 'fast']"));
    let board = a.board();
    let [one, two] = ["one", "two"].map(|name| a.path(name));
    let first = board.start("big", &one.to_string_lossy());
    runs_on(&first, "b");
    let second = board.start("big", &two.to_string_lossy());
    assert!(second.status()["host"].is_null());
    // The other host has a slot, and not the label.
    renews(&url, "a");
    assert!(second.status()["host"].is_null());
    // A call at that host takes it to none where it can't run, and a refused one to no host at all.
    let more = |action: &str| {
        let prompt = two.to_string_lossy();
        json!({"attempt_id": second.id, "action": action, "prompt": prompt})
    };
    let refused = a.refusal("follow_up", &more("send"));
    assert_eq!(refused["code"], "attempt_running", "{refused}");
    let merge = json!({"attempt_id": second.id, "action": "merge"});
    assert_eq!(a.refusal("finish_attempt", &merge)["code"], "attempt_running");
    assert!(second.status()["host"].is_null());
    assert_eq!(a.call("follow_up", &more("queue"))["queue"]["status"], "queued");
    assert_eq!(second.status()["host"], "b");
    let third = board.start("big", &two.to_string_lossy());
    assert!(third.status()["host"].is_null());
    assert_eq!(a.call("stop_attempt", &json!({"attempt_id": third.id}))["phase"], "idle");
    fs::write(&one, "").unwrap();
    runs_on(&second, "b");
    fs::write(&two, "").unwrap();
    assert_eq!(second.settled()["state"], "completed");
    drop(b);
}

#[test]
fn what_no_host_has_is_stopped_and_followed_up_from_any() {
    let Some(url) = database("placement_stopped") else { return };
    let [a, b] = ["a", "b"].map(|name| host(&url, name, ONE_SLOT).started());
    let (board, book, gate) = (a.board(), a.path("ledger"), a.path("gate"));
    let running = [0, 1].map(|_| board.start("fake", &run_until(&gate)));
    runs_on(&running[0], "a");
    runs_on(&running[1], "b");
    let [one, two, three] = [0, 1, 2].map(|_| board.start("fake", &noted(&book, &gate)));
    assert!(three.status()["host"].is_null());
    for (host, attempt) in [(&a, &one), (&b, &two)] {
        let stopped = host.call("stop_attempt", &json!({"attempt_id": attempt.id}));
        assert_eq!(stopped["phase"], "idle", "{stopped}");
        assert_eq!(attempt.status()["queued_follow_ups"], 0);
    }
    let more = json!({"attempt_id": three.id, "action": "queue", "prompt": "say more"});
    let queued = b.call("follow_up", &more);
    assert_eq!(queued["queue"]["status"], "queued", "{queued}");
    fs::write(&gate, "").unwrap();
    wait_until("both turns have ended", || {
        let sql = format!(
            "SELECT status FROM processes WHERE attempt_id = '{}' AND ended_at IS NOT NULL",
            three.id
        );
        rows(&url, &sql).len() == 2
    });
    assert_eq!(ledger(&book, &three), ["begins", "ends"]);
    for attempt in [&one, &two] {
        assert_eq!(attempt.status()["phase"], "idle");
        assert!(ledger(&book, attempt).is_empty());
    }
}

/// The calls of a client that name an attempt, with what each needs beside it.
const CALLS: &[(&str, &str)] = &[
    ("get_attempt_status", "{}"),
    ("tail_attempt_logs", "{}"),
    ("tail_session_messages", "{}"),
    ("get_attempt_changes", "{}"),
    ("get_attempt_file", r#"{"path": "made.txt"}"#),
    ("get_attempt_patch", "{}"),
    ("list_inbox", "{}"),
    ("comment_on_changes", r#"{"action": "list"}"#),
    ("comment_on_changes", r#"{"action": "add", "path": "made.txt", "line": 1, "text": "why?"}"#),
    ("finish_attempt", r#"{"action": "commit"}"#),
    ("finish_attempt", r#"{"action": "merge"}"#),
    ("finish_attempt", r#"{"action": "push"}"#),
    ("finish_attempt", r#"{"action": "create_pr"}"#),
    ("finish_attempt", r#"{"action": "discard"}"#),
    ("follow_up", r#"{"action": "send", "prompt": "say more"}"#),
    ("follow_up", r#"{"action": "cancel"}"#),
    ("follow_up", r#"{"action": "queue", "prompt": "say more"}"#),
    ("stop_attempt", "{}"),
    ("stop_attempt", r#"{"force": true}"#),
];

/// The verbs of a person that name an attempt, each with what it needs after it.
const VERBS: &[&[&str]] = &[
    &["status"],
    &["logs"],
    &["logs", "--raw"],
    &["diff"],
    &["diff", "--stat"],
    &["path"],
    &["shell", "--", "true"],
    &["preview"],
    &["review", "list"],
    &["merge"],
    &["commit"],
    &["rm"],
    &["retry"],
    &["queue", "say more"],
    &["stop"],
];

#[test]
fn every_call_is_answered_for_an_attempt_that_waits_on_no_host() {
    let Some(url) = database("placement_unplaced") else { return };
    let role = |name, role: &str| host(&url, name, &format!("role = '{role}'\n{ONE_SLOT}"));
    let hosts = [role("a", "all"), role("front", "gateway")].map(Provost::started);
    let (board, gate) = (hosts[0].board(), hosts[0].path("gate"));
    let running = board.start("fake", &run_until(&gate));
    runs_on(&running, "a");
    let listed = hosts[0].connect().ask("tools/list", &json!({}))["result"]["tools"].clone();
    for tool in listed.as_array().unwrap() {
        let is_of_one = !tool["inputSchema"]["properties"]["attempt_id"].is_null();
        let name = tool["name"].as_str().unwrap();
        let is_called = CALLS.iter().any(|(called, _)| *called == name);
        assert!(is_called || !is_of_one || name == "get_context", "{name} is not called here");
    }
    let is_known = |refusal: &Value, what: &str| {
        let (code, hint) = (&refusal["code"], refusal["hint"].as_str().unwrap_or_default());
        assert!(code.is_string() && code != "internal" && !hint.is_empty(), "{what}: {refusal}");
    };
    for host in &hosts {
        for (tool, more) in CALLS {
            let waits = board.start("fake", "write made.txt text");
            assert!(waits.status()["host"].is_null());
            let mut arguments: Value = serde_json::from_str(more).unwrap();
            arguments["attempt_id"] = json!(waits.id);
            let answer = host.answer(tool, &arguments);
            if answer.is_error {
                is_known(&answer.refusal(), &format!("{tool} {more}"));
                // What is refused has left it as it was.
                let status = waits.status();
                assert!(status["host"].is_null() && status["phase"] == "queued", "{status}");
            }
            hosts[0].call("stop_attempt", &json!({"attempt_id": waits.id}));
        }
        for verb in VERBS {
            let waits = board.start("fake", "write made.txt text");
            let (name, more) = verb.split_at(usize::from(verb[0] == "review") + 1);
            let args: Vec<&str> = [name, &[&waits.id], more, &["--json"]].concat();
            // What follows `--` is the command of a shell.
            let args = if verb.contains(&"--") { &args[..args.len() - 1] } else { &args[..] };
            let mut command = host.command(args);
            command.stdin(std::process::Stdio::null());
            let done = Provost::done(command);
            if done.code != 0 && args.last() == Some(&"--json") {
                let refusal = serde_json::from_str(&done.stderr).unwrap_or(Value::Null);
                is_known(&refusal, &format!("{verb:?}: {done:?}"));
            }
            assert!(!done.stderr.contains("fault in Provost"), "{verb:?}: {done:?}");
            hosts[0].call("stop_attempt", &json!({"attempt_id": waits.id}));
        }
    }
    fs::write(&gate, "").unwrap();
    running.settled();
}

#[test]
fn a_gateway_and_its_workers_run_more_attempts_than_there_are_slots() {
    let Some(url) = database("placement_roles") else { return };
    let role = |name, role: &str| host(&url, name, &format!("role = '{role}'\n{ONE_SLOT}"));
    let gateway = role("front", "gateway").started();
    let [one, two] = ["one", "two"].map(|name| role(name, "worker").started());
    let (board, book, gate) = (gateway.board(), gateway.path("ledger"), gateway.path("gate"));
    let attempts: Vec<Attempt> =
        (0..6).map(|_| board.start("fake", &noted(&book, &gate))).collect();
    runs_on(&attempts[0], "one");
    runs_on(&attempts[1], "two");
    assert!(attempts[5].status()["host"].is_null());
    let stopped = gateway.call("stop_attempt", &json!({"attempt_id": attempts[5].id}));
    assert_eq!(stopped["phase"], "idle", "{stopped}");
    fs::write(&gate, "").unwrap();
    for attempt in &attempts[..5] {
        assert_eq!(attempt.settled()["state"], "completed");
        assert_eq!(ledger(&book, attempt), ["begins", "ends"]);
    }
    let mut hosts = rows(&url, "SELECT DISTINCT host FROM attempts");
    hosts.sort_unstable();
    assert_eq!(hosts, ["one", "two"]);
    let listed = gateway.verb(["hosts"]).stdout;
    assert!(listed.contains("gateway") && listed.contains("worker"), "{listed}");

    // A client of a worker is sent to the gateway; the commands work there too.
    let mut client = one.bridge();
    client.initialize();
    let refusal = client.call("list_projects", &json!({})).refusal();
    assert_eq!(refusal["code"], "not_permitted", "{refusal}");
    assert!(refusal["message"].as_str().unwrap().contains("ost one is a worker"), "{refusal}");
    assert!(two.verb(["ps", "--all"]).stdout.contains("fake"));
    let page = one.verb(["open"]);
    assert!(page.code != 0 && page.stderr.contains("is a worker"), "{page:?}");
}

#[test]
fn a_role_takes_a_board_that_hosts_share() {
    let refused = Provost::new().config("[host]\nrole = 'gateway'").fails_to_start();
    assert_eq!(refused.code, 1, "{refused:?}");
    for expected in ["a gateway shares its board", "[engine] url is not set", "remove role"] {
        assert!(refused.stderr.contains(expected), "{expected}: {refused:?}");
    }
}
