//! What holds for all hosts of a board together, and for each: memory and limits of executors, daemons of
//! other versions, and how long what is kept of settled attempts stays. Those on a board that hosts
//! share need a server, which `.ci/postgres COMMAND` gives them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::postgres::{database, rows, run};
use crate::harness::{Attempt, PLAIN, Provost, processes, run_until, wait_until};

/// A host on a board, with more lines of its table and of the executor `fake`.
fn host(url: &str, name: &str, more: &str, fake: &str) -> Provost {
    let engine = format!("[engine]\nurl = \"{url}\"\ndurability = \"single\"\n");
    let host =
        format!("[host]\nname = \"{name}\"\n{more}\n[executors.fake]\nprotocol = 'fake'\n{fake}\n");
    Provost::new().config(&(engine + &host))
}

/// A prompt that notes in a folder that it runs, and how many did when the gate was opened.
fn counted(running: &Path, gate: &Path) -> String {
    fs::create_dir_all(running).unwrap();
    format!(
        "run touch {0}/$PROVOST_PROCESS_ID; until [ -e {1} ]; do sleep 0.02; done; ls {0} | wc -l; \
         rm {0}/$PROVOST_PROCESS_ID",
        running.display(),
        gate.display()
    )
}

fn run_now(running: &Path, count: usize) {
    wait_until("as many run", || fs::read_dir(running).unwrap().count() == count);
}

/// All have completed, and no more than this ran at once.
fn never_beyond<'p>(attempts: impl IntoIterator<Item = &'p Attempt<'p>>, most: usize) {
    for attempt in attempts {
        assert_eq!(attempt.settled()["state"], "completed");
        let counted = attempt.said("tool_result")[0].trim().parse::<usize>().unwrap();
        assert!((1..=most).contains(&counted), "{counted} ran at once");
    }
}

fn host_of(status: &Value) -> String {
    status["host"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn attempts_wait_for_memory_and_what_no_host_has_is_refused() {
    let provost = Provost::new()
        .executor("large", PLAIN, "echo large")
        .config("memory_mb = 1001")
        .executor("small", PLAIN, "echo small")
        .config("[executors.fake]\nprotocol = 'fake'\nmemory_mb = 500\n[host]\nmemory_mb = 1000")
        .started();
    let (board, running, gate) = (provost.board(), provost.path("running"), provost.path("gate"));
    let attempts: Vec<Attempt> =
        (0..5).map(|_| board.start("fake", &counted(&running, &gate))).collect();
    run_now(&running, 2);
    assert_eq!(attempts[4].status()["phase"], "queued");
    let listed = provost.verb(["hosts"]).stdout;
    assert!(listed.contains("1000/1000 MiB"), "{listed}");
    // What asks for none does not wait behind them.
    assert_eq!(board.start("small", "go").settled()["state"], "completed");
    let start = json!({"task_id": board.task("t"), "executor": "large"});
    let refused = provost.refusal("start_task_attempt", &start);
    assert_eq!(refused["code"], "executor_unavailable", "{refused}");
    for expected in ["1001 MiB", "has 1000 MiB"] {
        assert!(refused["message"].as_str().unwrap().contains(expected), "{refused}");
    }
    let hint = refused["hint"].as_str().unwrap();
    assert!(hint.contains("memory_mb of [executors.large]"), "{hint}");
    fs::write(&gate, "").unwrap();
    never_beyond(&attempts, 2);
}

#[test]
fn an_executor_runs_as_often_as_its_limit_allows() {
    let provost = Provost::new()
        .executor("other", PLAIN, "echo other")
        .config("[executors.fake]\nprotocol = 'fake'\nmax_running = 2")
        .started();
    let (board, running, gate) = (provost.board(), provost.path("running"), provost.path("gate"));
    let attempts: Vec<Attempt> =
        (0..5).map(|_| board.start("fake", &counted(&running, &gate))).collect();
    run_now(&running, 2);
    assert_eq!(board.start("other", "go").settled()["state"], "completed");
    assert_eq!(attempts[4].status()["phase"], "queued");
    fs::write(&gate, "").unwrap();
    never_beyond(&attempts, 2);
}

#[test]
fn each_host_takes_what_its_memory_holds() {
    let Some(url) = database("limits_memory") else { return };
    let hosts = ["a", "b"].map(|name| host(&url, name, "memory_mb = 1000", "memory_mb = 600"));
    let [a, b] = hosts.map(Provost::started);
    let (board, running, gate) = (a.board(), a.path("running"), a.path("gate"));
    let attempts: Vec<Attempt> =
        (0..5).map(|_| board.start("fake", &counted(&running, &gate))).collect();
    run_now(&running, 2);
    let mut on: Vec<String> = attempts.iter().map(|it| host_of(&it.status())).collect();
    on.sort_unstable();
    assert_eq!(on, ["", "", "", "a", "b"]);
    let listed = b.verb(["hosts"]).stdout;
    assert_eq!(listed.matches("600/1000 MiB").count(), 2, "{listed}");
    fs::write(&gate, "").unwrap();
    never_beyond(&attempts, 2);
}

#[test]
fn a_limit_of_an_executor_holds_over_all_hosts() {
    let Some(url) = database("limits_executor") else { return };
    let [a, b, c] = ["a", "b", "c"].map(|name| host(&url, name, "", "max_running = 2").started());
    let (board, running, gate) = (a.board(), a.path("running"), a.path("gate"));
    let rested = board.start("fake", "say one");
    rested.settled();
    let attempts: Vec<Attempt> = (0..6)
        .map(|n| {
            let arguments = json!({
                "task_id": board.task("t"), "executor": "fake", "prompt": counted(&running, &gate),
            });
            let by = [&a, &b, &c][n % 3];
            Attempt::new(by, by.call("start_task_attempt", &arguments))
        })
        .collect();
    run_now(&running, 2);
    // A follow-up waits on its host, for the attempts of others too.
    let more = json!({
        "attempt_id": rested.id, "action": "send", "prompt": counted(&running, &gate),
    });
    c.call("follow_up", &more);
    assert_eq!(rested.status()["phase"], "queued");
    let phases = attempts.iter().filter(|it| it.status()["phase"] == "running").count();
    assert_eq!(phases, 2);
    fs::write(&gate, "").unwrap();
    never_beyond(attempts.iter().chain([&rested]), 2);
}

/// Has a board be of a version that is yet to come.
fn from_the_future(url: &str) {
    run(
        url,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9001, 'of the future', true, '', 0)",
    );
}

#[test]
fn a_daemon_ends_when_the_board_gets_newer_and_an_older_one_does_not_start() {
    let Some(url) = database("limits_newer") else { return };
    let a = host(&url, "a", "lease_secs = 60", "").started();
    let (board, gate, alive) = (a.board(), a.path("gate"), a.path("alive"));
    let prompt = format!("run echo $PPID >> {}\n{}", alive.display(), run_until(&gate));
    let runs = board.start("fake", &prompt);
    wait_until("it runs", || fs::read_to_string(&alive).is_ok_and(|it| it.ends_with('\n')));
    let before = runs.status();
    from_the_future(&url);
    assert_eq!(a.ended(), Some(1));
    for expected in ["migration 9001", "Executors run on", "install that version"] {
        assert!(a.said().contains(expected), "{expected}: {}", a.said());
    }
    let b = host(&url, "b", "", "");
    for older in [&a, &b] {
        let refused = older.fails_to_start();
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.stderr.contains("newer version of Provost"), "{refused:?}");
    }
    assert_eq!(rows(&url, "SELECT host_id FROM hosts"), ["a"]);
    // A daemon that knows the migration takes up what runs.
    run(&url, "DELETE FROM _sqlx_migrations WHERE version = 9001");
    a.start();
    let status = runs.status();
    assert_eq!(status["latest_execution_process_id"], before["latest_execution_process_id"]);
    fs::write(&gate, "").unwrap();
    assert_eq!(runs.settled()["state"], "completed");
    assert_eq!(fs::read_to_string(&alive).unwrap().lines().count(), 1, "it was not started again");
}

#[test]
fn hosts_of_other_versions_are_named() {
    let Some(url) = database("limits_versions") else { return };
    let a = host(&url, "a", "", "").started();
    run(&url, "UPDATE hosts SET version = '0.0.1' WHERE host_id = 'a'");
    let b = host(&url, "b", "", "").started();
    assert!(b.said().contains("a has 0.0.1"), "{}", b.said());
    let listed = b.verb(["hosts"]).stdout;
    assert_eq!(listed.matches("(other)").count(), 1, "{listed}");
    assert!(listed.contains("0.0.1 (other)"), "{listed}");
    drop(a);
}

/// What happened on the board was long ago.
fn long_ago(url: &str) {
    run(
        url,
        "UPDATE attempts SET updated_at = 1; UPDATE shipped_logs SET shipped_at = 1;
         UPDATE base_bundles SET made_at = 1; UPDATE bundle_parts SET made_at = 1",
    );
}

fn chunks(url: &str) -> Vec<String> {
    rows(url, "SELECT channel || ' ' || count(*) FROM log_chunks GROUP BY channel ORDER BY channel")
}

#[test]
fn old_copies_of_logs_are_cut_down_and_say_so() {
    let Some(url) = database("limits_retention") else { return };
    let [a, b] = ["a", "b"].map(|name| host(&url, name, "", "").started());
    let attempt = a.board().start("fake", "say one");
    attempt.settled();
    for turn in [2, 3] {
        let shipped = chunks(&url);
        let more = json!({
            "attempt_id": attempt.id, "action": "send", "prompt": format!("say turn {turn}"),
        });
        a.call("follow_up", &more);
        attempt.saved(turn);
        wait_until("the turn is shipped", || chunks(&url) != shipped);
    }
    let (normalized, raw) = (attempt.normalized(), attempt.raw());
    let next = |channel: &str| {
        let of = format!("channel = '{channel}'");
        let sql = format!("SELECT CAST(next_entry AS text) FROM shipped_logs WHERE {of}");
        rows(&url, &sql)[0].parse::<usize>().unwrap()
    };
    wait_until("all is shipped", || {
        (next("normalized"), next("raw")) == (normalized.len(), raw.len())
    });
    a.kill();
    processes::kill_all_below(a.home());
    // What is not old stays.
    b.kill_and_start();
    let many = chunks(&url);
    assert!(many.iter().all(|it| !it.ends_with(" 1")), "{many:?}");
    long_ago(&url);
    b.kill_and_start();
    wait_until("the copies are cut down", || chunks(&url) == ["normalized 1", "raw 1"]);
    // The work is still to be merged.
    assert_eq!(rows(&url, "SELECT count(sha256) || '' FROM turn_bundles"), ["1"]);
    assert_eq!(rows(&url, "SELECT count(*) || '' FROM base_bundles"), ["1"]);

    run(&url, "UPDATE hosts SET lease_until = 1 WHERE host_id = 'a'");
    let there = Attempt::new(&b, attempt.started.clone());
    for (channel, all) in [("normalized", &normalized), ("raw", &raw)] {
        for place in [json!({}), json!({"after_entry_index": -1}), json!({"cursor": 1})] {
            let page = there.page(channel, &place);
            assert_eq!(page["history_truncated"], true, "{place}: {page}");
            assert_eq!(page["latest_entry_index"], json!(all.len() - 1), "{place}: {page}");
        }
        let oldest = there.page(channel, &json!({}))["oldest_entry_index"].as_u64().unwrap();
        let oldest = usize::try_from(oldest).unwrap();
        assert!(oldest > 0);
        assert_eq!(there.after(channel, -1), all[oldest..]);
    }
    let printed = b.verb(["logs", &attempt.id]);
    assert!(printed.code == 0 && !printed.stdout.is_empty(), "{printed:?}");

    // Once it is merged or given up, nothing of it is needed.
    run(&url, "UPDATE tasks SET status = 'done'");
    long_ago(&url);
    b.kill_and_start();
    wait_until("the bundles are removed", || {
        let sql = "SELECT (SELECT count(*) FROM base_bundles) + (SELECT count(*) FROM bundle_parts)
                          + (SELECT count(sha256) FROM turn_bundles) || ''";
        rows(&url, sql) == ["0"]
    });
}
