//! What is answered from memory, or from files that were kept open, is what the files say.

use serde_json::{Value, json};

use crate::harness::{Attempt, PLAIN, Provost, processes, wait_until};

/// More than memory holds of a log, in lines of both streams.
const LINES: usize = 6000;

/// An attempt that has written so many lines, and runs on.
fn talkative() -> Provost {
    let script = format!("seq -f 'line %.0f' {LINES}; echo the last; sleep 1000");
    Provost::new().executor("talkative", PLAIN, &script).started()
}

/// Pages of both channels: of the newest entries, and of those in the middle.
fn pages(attempt: &Attempt) -> Vec<Value> {
    let places = [
        json!({"limit": 20}),
        json!({"limit": 20, "cursor": LINES - 10}),
        json!({"limit": 20, "after_entry_index": LINES - 30}),
        json!({"limit": 20, "after_entry_index": 10}),
        json!({"limit": 20, "after_entry_index": LINES / 2}),
        json!({"limit": 20, "after_entry_index": LINES / 2 + 600}),
    ];
    let page = |channel: &'static str| {
        places.iter().map(move |place| {
            let mut page = attempt.page(channel, place);
            json!([page["entries"].take(), page["has_more"], page["next_cursor"]])
        })
    };
    page("normalized").chain(page("raw")).collect()
}

#[test]
fn pages_are_the_same_from_memory_from_kept_files_and_by_the_next_daemon() {
    let provost = talkative();
    let attempt = provost.board().start("talkative", "x");
    attempt.has_said("the last");
    let first = pages(&attempt);
    assert_eq!(pages(&attempt), first, "read once more");
    provost.kill_and_start();
    assert_eq!(pages(&attempt), first, "read by the next daemon");
    attempt.stop_by_force();
}

#[test]
fn readers_of_a_log_leave_no_more_files_open_than_one_of_them() {
    let provost = talkative();
    let attempt = provost.board().start("talkative", "x");
    attempt.has_said("the last");
    pages(&attempt);
    let open = processes::open_files(provost.pid());
    for _ in 0..5 {
        pages(&attempt);
    }
    wait_until("no more files are open", || processes::open_files(provost.pid()) <= open);
    attempt.stop_by_force();
}
