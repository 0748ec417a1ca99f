//! A stop while nothing can be written: the processes end, the answer says what is
//! not on file, and it is written when there is room again.

use std::fs;

use serde_json::{Value, json};

use super::database::file;
use super::disk::{on_a_small_disk, open_gate, waits_for_the_disk};
use crate::harness::disk::SmallDisk;
use crate::harness::{Attempt, Board, PLAIN, Provost, processes, wait_until};

/// Stays, with a child in a session of its own.
const STAYS: &str = "(setsid sleep 1000 &); echo up; exec sleep 1000";
const QUICK: &str = "[daemon]\nstop_grace_ms = 1000";

/// A home on a small disk, with its agents told to begin at once.
fn on_a_full_disk() -> Option<(Provost, SmallDisk)> {
    let (provost, disk) = on_a_small_disk("size=24m", STAYS, QUICK)?;
    open_gate(&provost);
    Some((provost, disk))
}

fn up<'p>(board: &Board<'p>) -> Attempt<'p> {
    let attempt = board.start("agent", "stay");
    attempt.has_said("up");
    wait_until("its child is there", || attempt.processes().len() == 2);
    attempt
}

/// What every such answer says.
fn is_stopped(attempt: &Attempt, answer: &Value) {
    attempt.leaves_no_process();
    for (field, expected) in
        [("stopped", json!(true)), ("survivors", json!(0)), ("unrecorded", json!(true))]
    {
        assert_eq!(answer[field], expected, "{field}: {answer}");
    }
}

/// What the row says once it could be written.
fn is_recorded(attempt: &Attempt) {
    attempt.settled();
    // The row is written before its writer says that it waits no longer.
    let status = attempt.until("nothing waits", |status| status["waiting_on"].is_null());
    assert_eq!(status["state"], "failed", "{status}");
    let summary = status["failure_summary"].as_str().unwrap();
    assert!(summary.starts_with("stopped by stop_attempt"), "{summary}");
    let listed = attempt.said("process_end");
    assert!(listed.last().unwrap().starts_with("stopped: "), "{listed:?}");
}

#[test]
fn on_a_full_disk_a_stop_by_force_kills_and_is_recorded_when_there_is_room() {
    let Some((provost, disk)) = on_a_full_disk() else { return };
    let board = provost.board();
    let attempt = up(&board);
    disk.fill();
    let stop = json!({"attempt_id": attempt.id, "force": true, "request_id": "r"});
    let first = provost.answer("stop_attempt", &stop);
    is_stopped(&attempt, &first.value);
    let again = provost.answer("stop_attempt", &stop);
    assert_eq!((&again.text, again.is_deduplicated), (&first.text, true));
    waits_for_the_disk(&attempt);
    disk.free();
    is_recorded(&attempt);
    assert_eq!(provost.answer("stop_attempt", &stop).text, first.text);
    assert_eq!(board.start("fake", "say on").settled()["state"], "completed");
}

#[test]
fn on_a_full_disk_a_soft_stop_kills_and_the_next_daemon_records_it() {
    let Some((provost, disk)) = on_a_full_disk() else { return };
    let attempt = up(&provost.board());
    disk.fill();
    is_stopped(&attempt, &attempt.stop());
    provost.kill_and_start();
    // Nothing of it is left to be stopped.
    let again = attempt.stop();
    assert_eq!(again["survivors"], 0, "{again}");
    disk.free();
    is_recorded(&attempt);
}

#[test]
fn on_a_full_disk_a_shutdown_of_everything_leaves_no_process_behind() {
    let Some((provost, disk)) = on_a_full_disk() else { return };
    let board = provost.board();
    let attempts: Vec<Attempt> = (0..3).map(|_| up(&board)).collect();
    disk.fill();
    let done = provost.verb(["shutdown", "--stop-all"]);
    attempts.iter().for_each(Attempt::leaves_no_process);
    assert_eq!(done.code, 0, "{done:?}");
    for attempt in &attempts {
        let short = &attempt.id[attempt.id.len() - 8..];
        assert!(done.stdout.contains(&format!("{short} was stopped")), "{done:?}");
    }
    provost.ended();
    disk.free();
    provost.start();
    attempts.iter().for_each(is_recorded);
}

#[test]
fn a_stop_does_not_wait_for_a_program_that_holds_the_database() {
    let provost = Provost::new().config(QUICK).executor("agent", PLAIN, STAYS).started();
    let board = provost.board();
    let attempts: Vec<Attempt> = (0..3).map(|_| up(&board)).collect();
    let [soft, forced, waiting] = attempts.as_slice() else { panic!() };
    let lock = provost.lock_database();
    is_stopped(soft, &soft.stop());
    is_stopped(forced, &forced.stop_by_force());
    assert_eq!(waiting.processes().len(), 2, "no call stopped this one");
    drop(lock);
    for attempt in [soft, forced] {
        is_recorded(attempt);
    }
    let send = json!({"attempt_id": soft.id, "action": "send", "prompt": "again"});
    provost.call("follow_up", &send);
    wait_until("it runs again", || soft.processes().len() == 2);
    assert_eq!(soft.stop()["unrecorded"], false);
}

#[test]
fn a_shutdown_of_everything_does_not_wait_for_a_program_that_holds_the_database() {
    let provost = Provost::new().config(QUICK).executor("agent", PLAIN, STAYS).started();
    let attempt = up(&provost.board());
    let lock = provost.lock_database();
    let done = provost.verb(["shutdown", "--stop-all"]);
    attempt.leaves_no_process();
    assert_eq!(done.code, 0, "{done:?}");
    provost.ended();
    drop(lock);
    provost.start();
    is_recorded(&attempt);
}

#[test]
fn a_queued_attempt_is_stopped_while_nothing_can_be_written() {
    let config = format!("{QUICK}\nmax_running_attempts = 1");
    let provost = Provost::new().config(&config).executor("agent", PLAIN, STAYS).started();
    let board = provost.board();
    let running = up(&board);
    let queued = board.start("agent", "never");
    assert_eq!(queued.started["phase"], "queued");
    let lock = provost.lock_database();
    is_stopped(&queued, &queued.stop());
    is_stopped(&running, &running.stop());
    drop(lock);
    queued.in_phase("idle");
    is_recorded(&running);
    assert_eq!(queued.raw(), Vec::<Value>::new());
}

#[test]
fn a_stop_works_without_a_database_and_says_that_it_is_not_on_file() {
    let provost = Provost::new().config(QUICK).executor("agent", PLAIN, STAYS).started();
    let board = provost.board();
    let (soft, forced) = (up(&board), up(&board));
    for end in ["", "-wal", "-shm"] {
        fs::rename(file(&provost, end), provost.path(&format!("kept{end}"))).unwrap();
    }
    is_stopped(&soft, &soft.stop());
    is_stopped(&forced, &forced.stop_by_force());
    let task = json!({"project_id": board.project_id, "title": "lost"});
    let refusal = provost.refusal("create_task", &task);
    assert_eq!(refusal["code"], "db_unavailable", "{refusal}");
    for end in ["", "-wal", "-shm"] {
        fs::rename(provost.path(&format!("kept{end}")), file(&provost, end)).unwrap();
    }
    is_recorded(&soft);
    is_recorded(&forced);
}

/// The shim that is killed is replaced, also where nothing can be written.
#[test]
fn a_stop_on_a_full_disk_outlives_the_death_of_the_shim() {
    let Some((provost, disk)) = on_a_full_disk() else { return };
    let attempt = up(&provost.board());
    disk.fill();
    processes::kill_hard(attempt.shim());
    let stopped = attempt.stop_by_force();
    attempt.leaves_no_process();
    assert_eq!(stopped["survivors"], 0, "{stopped}");
    disk.free();
    assert_eq!(attempt.settled()["state"], "failed");
}
