//! The copies of logs that outlive their host, on a board that several daemons share. They need a
//! server, which `.ci/postgres COMMAND` gives them.

use std::fs;

use serde_json::{Value, json};

use crate::harness::postgres::{database, rows, run};
use crate::harness::{Attempt, PLAIN, Provost, Web, processes, run_until, texts, wait_until};

/// A host on a board.
fn of_host(url: &str, name: &str) -> Provost {
    let host = format!("[host]\nname = \"{name}\"\n");
    Provost::new().config(&format!("[engine]\nurl = \"{url}\"\ndurability = \"single\"\n{host}"))
}

/// Number of the next entry of a channel's copy.
fn shipped(url: &str, attempt: &str, channel: &str) -> usize {
    let of = format!("attempt_id = '{attempt}' AND channel = '{channel}'");
    let sql = format!("SELECT CAST(next_entry AS text) FROM shipped_logs WHERE {of}");
    rows(url, &sql).first().map_or(0, |next| next.parse().unwrap())
}

/// Waits until the copy has what the log has now.
fn is_shipped(url: &str, attempt: &Attempt) {
    for (channel, entries) in [("normalized", attempt.normalized()), ("raw", attempt.raw())] {
        wait_until("the log is shipped", || shipped(url, &attempt.id, channel) >= entries.len());
    }
}

/// Each entry of a channel's copy is in one chunk.
fn is_whole(url: &str, attempt: &str, channel: &str) {
    let of = format!("attempt_id = '{attempt}' AND channel = '{channel}'");
    let sql = format!(
        "SELECT first_entry || ' ' || entries || ' ' || first_offset || ' ' || bytes
         FROM log_chunks WHERE {of} ORDER BY first_entry"
    );
    let (mut entry, mut offset) = (0, 0);
    for row in rows(url, &sql) {
        let numbers: Vec<u64> = row.split(' ').map(|it| it.parse().unwrap()).collect();
        assert_eq!((numbers[0], numbers[2]), (entry, offset), "{row}");
        (entry, offset) = (entry + numbers[1], offset + numbers[3]);
    }
    assert_eq!(entry, shipped(url, attempt, channel) as u64);
}

/// The host, its executors and its disk are gone, and its lease is over.
fn lose(url: &str, host: &Provost, name: &str) {
    host.kill();
    processes::kill_all_with("PROVOST_HOME", &host.home().to_string_lossy());
    processes::kill_all_below(host.home());
    fs::remove_dir_all(host.home()).unwrap();
    run(url, &format!("UPDATE hosts SET lease_until = 1 WHERE host_id = '{name}'"));
}

/// What the sweep of a lost host does with an attempt, and the claim of another one.
fn move_to(url: &str, attempt: &str, host: &str) {
    let of = format!("attempt_id = '{attempt}'");
    run(
        url,
        &format!(
            "UPDATE processes SET status = 'killed', ended_at = 1, closed = 1
             WHERE {of} AND ended_at IS NULL;
             UPDATE attempts SET host = '{host}', epoch = epoch + 1, phase = 'settled',
                                 state = 'failed' WHERE {of}"
        ),
    );
}

fn walked_back(attempt: &Attempt, channel: &str, limit: usize) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = attempt.page(channel, &json!({"limit": limit, "cursor": cursor}));
        all.splice(0..0, page["entries"].as_array().unwrap().iter().cloned());
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            return all;
        }
    }
}

#[test]
fn the_log_of_a_lost_host_is_read_elsewhere_and_goes_on_where_its_attempt_is_moved() {
    let Some(url) = database("shipped_lost") else { return };
    let [a, b] = ["a", "b"].map(|name| of_host(&url, name).started());
    let gate = a.path("gate");
    let prompt = format!("say one\nsay two\n{}", run_until(&gate));
    let attempt = a.board().start("fake", &prompt);
    attempt.has_said("two");
    is_shipped(&url, &attempt);
    let (normalized, raw) = (attempt.normalized(), attempt.raw());
    let there = Attempt::new(&b, attempt.started.clone());
    let status = there.status();
    assert_eq!(status["latest_entry_index"]["normalized"], json!(normalized.len() - 1));
    assert!(status["last_activity_at"].is_string(), "{status}");
    assert_eq!(there.page("normalized", &json!({}))["lost_host"], Value::Null);

    lose(&url, &a, "a");
    assert_eq!(there.normalized(), normalized);
    assert_eq!(there.raw(), raw);
    for limit in [1, 2, 50] {
        assert_eq!(walked_back(&there, "normalized", limit), normalized, "in pages of {limit}");
        assert_eq!(walked_back(&there, "raw", limit), raw);
    }
    let page = there.page("normalized", &json!({"after_entry_index": 0, "limit": 1}));
    assert_eq!((&page["lost_host"], &page["has_more"]), (&json!("a"), &json!(true)), "{page}");
    assert_eq!(page["entries"], json!([normalized[1]]));
    let printed = b.verb(["logs", &attempt.id]);
    assert!(printed.code == 0 && printed.stdout.contains("two"), "{printed:?}");
    assert!(printed.stderr.contains("host a is lost"), "{printed:?}");
    let web = Web::of(&b);
    for path in ["", "/log", "/log?tab=normalized", "/turns/1/entries", "/processes"] {
        let page = web.get(&format!("/attempts/{}{path}", attempt.id));
        assert_eq!(page.status, 200, "{path}: {page:?}");
    }
    let page = web.get(&format!("/attempts/{}/log?tab=normalized", attempt.id));
    assert!(page.body.contains("two") && page.body.contains("Host a is lost"), "{page:?}");

    move_to(&url, &attempt.id, "b");
    let more = json!({"attempt_id": attempt.id, "action": "send", "prompt": "say three"});
    b.call("follow_up", &more);
    there.settled();
    let now = there.normalized();
    assert_eq!(now[..normalized.len()], normalized[..]);
    let indexes: Vec<i64> = now.iter().map(|it| it["entry_index"].as_i64().unwrap()).collect();
    assert!(indexes.iter().copied().eq(0..i64::try_from(now.len()).unwrap()), "{indexes:?}");
    let gap = |entry: &&Value| entry["text"].as_str().unwrap().contains("host a was lost");
    assert!(gap(&&now[normalized.len()]), "{now:?}");
    assert_eq!(now.iter().filter(gap).count(), 1);
    let later = there.after("normalized", i64::try_from(normalized.len()).unwrap() - 1);
    assert_eq!(later, now[normalized.len()..], "a cursor from before the loss");
    assert!(later.len() > 1, "{later:?}");
    // A raw cursor goes on, too.
    assert_eq!(there.raw()[..raw.len()], raw[..]);
    is_shipped(&url, &there);
    for channel in ["normalized", "raw"] {
        is_whole(&url, &attempt.id, channel);
    }
    b.kill_and_start();
    assert_eq!(there.normalized(), now);
}

#[test]
fn a_daemon_that_is_killed_after_shipping_ships_nothing_twice() {
    let Some(url) = database("shipped_killed") else { return };
    let a = of_host(&url, "a");
    a.start_to_die_at("shipment.committed");
    let gate = a.path("gate");
    let prompt = format!("say one\n{}\nsay two", run_until(&gate));
    let attempt = a.board().start("fake", &prompt);
    a.ended();
    a.start();
    fs::write(gate, "").unwrap();
    attempt.settled();
    is_shipped(&url, &attempt);
    let rounds = "SELECT CAST(count(*) AS text) FROM log_chunks WHERE channel = 'raw'";
    assert!(rows(&url, rounds)[0].parse::<u32>().unwrap() > 1);
    for channel in ["normalized", "raw"] {
        is_whole(&url, &attempt.id, channel);
    }
    assert_eq!(shipped(&url, &attempt.id, "normalized"), attempt.normalized().len());
}

#[test]
fn a_flood_is_shipped_in_time() {
    let Some(url) = database("shipped_flood") else { return };
    // It can't be compressed, and is more than one round takes.
    let flood = "head -c 4000000 /dev/urandom | base64 -w 76";
    let a = of_host(&url, "a").executor("flood", PLAIN, flood).started();
    let b = of_host(&url, "b").started();
    let attempt = a.board().start("flood", "x");
    attempt.settled();
    is_shipped(&url, &attempt);
    for channel in ["normalized", "raw"] {
        is_whole(&url, &attempt.id, channel);
    }
    let raw = attempt.raw();
    lose(&url, &a, "a");
    let there = Attempt::new(&b, attempt.started.clone());
    assert!(texts(&there.raw()) == texts(&raw), "the lines are the same");
}

#[test]
fn a_board_in_a_file_has_no_copies() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say one");
    attempt.settled();
    provost.kill_and_start();
    assert!(!attempt.normalized().is_empty());
    let count = "SELECT CAST((SELECT count(*) FROM shipped_logs)
                             + (SELECT count(*) FROM log_chunks) AS TEXT)";
    if std::env::var_os("PROVOST_TEST_ENGINE").is_none() {
        assert_eq!(provost.rows(count), ["0"]);
    }
}
