//! Clients that ask for more than they read, and homes that are not ours to take.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use serde_json::json;

use crate::harness::{Provost, processes, wait_until};

/// Requests that a client sends without reading an answer, each for 512 KiB of quotation
/// marks: an answer of 3 MiB.
const REQUESTS: usize = 128;
const FILE_BYTES: usize = 512 * 1024;

/// What a connection may add to the daemon's memory, in KiB: 32 MiB of requests, 32 MiB of
/// answers, what the answers in the making take, and what the allocator keeps.
const MEMORY_MAX: u64 = 192 * 1024;

#[test]
fn a_client_that_does_not_read_costs_bounded_memory_and_still_gets_every_answer() {
    let provost = Provost::running();
    let board = provost.board();
    let prompt = "run yes '\"\"\"\"\"\"\"\"' | head -c 524288 > big\nsay done";
    let attempt = board.start("fake", prompt);
    attempt.settled();
    let repo = board.repo().path.file_name().unwrap().to_string_lossy().into_owned();
    let path = format!("{repo}/big");
    let read = json!({"attempt_id": attempt.id, "path": path, "max_bytes": FILE_BYTES});
    assert_eq!(
        provost.call("get_attempt_file", &read)["content"].as_str().unwrap().len(),
        FILE_BYTES
    );
    let before = processes::peak_memory(provost.pid());

    let stream = UnixStream::connect(provost.home().join("run/daemon.sock")).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let hello = json!({"provost": "hello", "v": 1, "role": "all", "client": "bridge"});
    writeln!(writer, "{hello}").unwrap();
    let writing = std::thread::spawn(move || {
        for id in 1..=REQUESTS {
            let params = json!({"name": "get_attempt_file", "arguments": read});
            let call =
                json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
            writeln!(writer, "{call}").unwrap();
        }
    });
    // All others are served meanwhile; so many calls are well behind those above.
    for _ in 0..100 {
        attempt.status();
    }
    let mut lines = BufReader::new(stream).lines();
    assert!(lines.next().unwrap().unwrap().contains("hello"));
    let answers = lines.take(REQUESTS).map(Result::unwrap);
    assert_eq!(answers.filter(|line| line.len() > 2 * FILE_BYTES).count(), REQUESTS);
    writing.join().unwrap();
    let grown = processes::peak_memory(provost.pid()) - before;
    assert!(grown < MEMORY_MAX, "the daemon's memory grew by {grown} KiB");
}

#[test]
fn a_folder_that_holds_other_files_does_not_become_a_home() {
    let provost = Provost::new();
    let shared = provost.path("shared");
    fs::create_dir(&shared).unwrap();
    fs::write(shared.join("notes"), "").unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    let ran = provost.command(&["ps"]).env("PROVOST_HOME", &shared).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(3), "{said}");
    assert!(said.contains("notes") && said.contains("PROVOST_HOME"), "{said}");
    assert_eq!(fs::metadata(&shared).unwrap().permissions().mode() & 0o7777, 0o1777);
    assert_eq!(fs::read_dir(&shared).unwrap().count(), 1);
}

#[test]
fn the_database_is_readable_to_its_owner_alone() {
    let provost = Provost::running();
    for name in ["provost.db", "provost.db-wal", "provost.db-shm"] {
        let mode = fs::metadata(provost.home().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn the_log_of_a_daemon_in_the_background_is_bounded() {
    let provost = Provost::new();
    // The verb starts the daemon, whose log is then beyond the limit.
    let log = provost.home().join("daemon.log");
    fs::File::create(&log).unwrap().set_len(20 << 20).unwrap();
    assert!(provost.command(&["ps"]).output().unwrap().status.success());
    wait_until("the log is rotated", || {
        provost.home().join("daemon.log.1").exists()
            && fs::metadata(&log).is_ok_and(|log| log.len() < 1 << 20)
    });
    assert!(provost.command(&["shutdown"]).output().unwrap().status.success());
    wait_until("the new log is written", || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("ending"))
    });
}
