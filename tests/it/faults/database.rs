//! A database that is damaged, lost in part, or of another version. Executors
//! need none; so the daemon may refuse to start, and says what to do.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::harness::{Attempt, Board, Done, PLAIN, Provost, processes};

/// A home with an executor `agent` that waits for `gate` and exits with 3, and an
/// attempt at it that runs.
fn with_an_attempt(provost: &Provost) -> (Board<'_>, Attempt<'_>) {
    let board = provost.board();
    let attempt = board.start("agent", "wait");
    attempt.in_phase("running");
    (board, attempt)
}

fn home() -> Provost {
    let provost = Provost::new();
    let gate = provost.path("gate");
    let script = format!("until [ -e {} ]; do sleep 0.02; done; exit 3", gate.display());
    provost.executor("agent", PLAIN, &script).started()
}

pub fn file(provost: &Provost, end: &str) -> PathBuf {
    provost.home().join(format!("provost.db{end}"))
}

/// Changes a file where it is.
fn garble(path: &PathBuf, at: usize, with: &[u8]) -> Vec<u8> {
    let whole = fs::read(path).unwrap();
    let mut garbled = whole.clone();
    garbled[at..at + with.len()].copy_from_slice(with);
    fs::write(path, garbled).unwrap();
    whole
}

/// No daemon starts, whatever the caller does, and the error names the way out.
fn refuses(provost: &Provost, why: &str) -> Done {
    let done = provost.fails_to_start();
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.stderr.contains(why), "{done:?}");
    assert!(done.stderr.contains("executors run on"), "{done:?}");
    let listed = provost.verb(["ps"]);
    assert_eq!(listed.code, 3, "{listed:?}");
    assert!(listed.stderr.contains(why), "{listed:?}");
    done
}

fn ends_well(provost: &Provost, attempt: &Attempt) {
    fs::write(provost.path("gate"), "").unwrap();
    assert_eq!(attempt.settled()["exit_code"], 3);
}

#[test]
fn a_byte_flipped_in_the_write_ahead_log_is_seen_before_it_costs_a_commit() {
    let provost = home();
    let (board, attempt) = with_an_attempt(&provost);
    let tasks: Vec<String> = (0..20).map(|n| board.task(&n.to_string())).collect();
    let leader = attempt.leader();
    provost.kill();
    let log = file(&provost, "-wal");
    let len = fs::metadata(&log).unwrap().len();
    let whole = garble(&log, usize::try_from(len / 2).unwrap(), b"garbage");
    let garbled = fs::read(&log).unwrap();
    refuses(&provost, "provost.db-wal is damaged");
    let report = provost.verb(["doctor"]);
    assert_eq!(report.code, 1, "{report:?}");
    assert!(report.stdout.contains("write-ahead log is damaged"), "{report:?}");
    assert!(fs::read(&log).unwrap() == garbled, "left as it is");
    assert!(processes::parent(leader).is_some(), "the executor is alive");
    fs::write(&log, whole).unwrap();
    provost.start();
    for task in tasks {
        provost.call("get_task", &json!({"task_id": task}));
    }
    ends_well(&provost, &attempt);
}

#[test]
fn a_write_ahead_log_cut_short_costs_its_last_commits_and_no_process() {
    let provost = home();
    let (board, attempt) = with_an_attempt(&provost);
    board.task("last");
    let leader = attempt.leader();
    provost.kill();
    let log = fs::OpenOptions::new().write(true).open(file(&provost, "-wal")).unwrap();
    log.set_len(log.metadata().unwrap().len() - 100).unwrap();
    provost.start();
    assert_eq!(attempt.leader(), leader);
    ends_well(&provost, &attempt);
}

#[test]
fn a_damaged_database_is_left_as_it_is_and_its_copy_put_back_works() {
    let provost = home();
    let (board, attempt) = with_an_attempt(&provost);
    for n in 0..50 {
        board.task(&format!("{n} {}", "x".repeat(200)));
    }
    let leader = attempt.leader();
    assert_eq!(provost.verb(["shutdown"]).code, 0);
    provost.ended();
    let database = file(&provost, "");
    for (at, with) in [(0, vec![0x5a; 100]), (4096 * 2, vec![0x5a; 4096 * 3])] {
        let whole = garble(&database, at, &with);
        let garbled = fs::read(&database).unwrap();
        refuses(&provost, "provost.db is damaged");
        assert!(fs::read(&database).unwrap() == garbled, "left as it is");
        assert!(processes::parent(leader).is_some(), "the executor is alive");
        fs::write(&database, whole).unwrap();
    }
    provost.start();
    ends_well(&provost, &attempt);
}

#[test]
fn a_board_that_lacks_attempts_of_the_home_is_not_taken_for_a_new_one() {
    let provost = home();
    let copy = |from: &str, to: &str| {
        for end in ["", "-wal", "-shm"] {
            let name = |of: &str| match of {
                "" => file(&provost, end),
                of => provost.path(&format!("{of}{end}")),
            };
            let _ = fs::remove_file(name(to));
            if name(from).exists() {
                fs::copy(name(from), name(to)).unwrap();
            }
        }
    };
    provost.kill();
    copy("", "older");
    provost.start();
    let (_, attempt) = with_an_attempt(&provost);
    let (leader, folder) = (attempt.leader(), attempt.dir());
    provost.kill();
    copy("", "kept");
    for board in ["none", "older"] {
        copy(board, "");
        let done = refuses(&provost, "lacks 1 attempts of which this home has files");
        assert!(done.stderr.contains(&attempt.id), "{done:?}");
        assert_eq!(file(&provost, "").exists(), board == "older", "none is made");
        assert!(folder.exists() && processes::parent(leader).is_some(), "nothing is touched");
    }
    copy("kept", "");
    provost.start();
    ends_well(&provost, &attempt);
}

#[test]
fn a_home_goes_on_without_the_attempts_that_are_moved_out_of_it() {
    let provost = home();
    let board = provost.board();
    board.start("fake", "say x").settled();
    provost.kill();
    let database = file(&provost, "");
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(file(&provost, end));
    }
    refuses(&provost, "or, to go on without these attempts, move their folders out of");
    let attempts = database.with_file_name("attempts");
    fs::rename(&attempts, provost.path("attempts")).unwrap();
    provost.start();
    Board::new(&provost, vec![provost.repo("other")]).start("fake", "say x").settled();
}

#[test]
fn a_database_of_a_newer_version_is_not_touched() {
    let provost = home();
    let (board, attempt) = with_an_attempt(&provost);
    let task = board.task("kept");
    provost.kill();
    provost.sql(&["INSERT INTO _sqlx_migrations (version, description, success, checksum,
                       execution_time) VALUES (9999, 'to come', 1, x'00', 0)"]);
    let before = fs::read(file(&provost, "")).unwrap();
    let done = provost.fails_to_start();
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.stderr.contains("newer version of Provost"), "{done:?}");
    assert!(fs::read(file(&provost, "")).unwrap() == before, "not touched");
    provost.sql(&["DELETE FROM _sqlx_migrations WHERE version = 9999"]);
    provost.start();
    provost.call("get_task", &json!({"task_id": task}));
    ends_well(&provost, &attempt);
}

#[test]
fn a_stale_shared_memory_file_of_the_database_is_rebuilt() {
    let provost = home();
    let (board, attempt) = with_an_attempt(&provost);
    let shared = file(&provost, "-shm");
    let early = fs::read(&shared).unwrap();
    let tasks: Vec<String> = (0..5).map(|n| board.task(&n.to_string())).collect();
    for stale in [early, vec![0xa5; 32_768]] {
        provost.kill();
        fs::write(&shared, stale).unwrap();
        provost.start();
        for task in &tasks {
            provost.call("get_task", &json!({"task_id": task}));
        }
    }
    ends_well(&provost, &attempt);
}
