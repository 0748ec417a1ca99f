//! A daemon that has no file descriptor left.

use std::fs;

use nix::libc;
use serde_json::json;

use crate::harness::{PLAIN, Provost, wait_until};

/// Sets the soft limit of open files of a process.
fn limit(pid: i32, soft: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: prlimit(2) reads one struct or writes one.
    let done = unsafe {
        libc::prlimit(pid, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit) == 0 && {
            limit.rlim_cur = soft;
            libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut()) == 0
        }
    };
    assert!(done, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_daemon_short_of_descriptors_refuses_starts_and_keeps_what_runs() {
    let provost = Provost::running();
    let board = provost.board();
    let running: Vec<_> = (0..3).map(|_| board.start("fake", "say here\nhang")).collect();
    for attempt in &running {
        attempt.in_phase("running");
        attempt.has_said("here");
    }
    let task = board.task("no room");
    let pid = provost.pid();
    // What is open stays so; nothing more can be opened.
    limit(pid, 3);
    let start = json!({"task_id": task, "executor": "fake", "prompt": "say never"});
    let refusal = provost.refusal("start_task_attempt", &start);
    assert!(refusal["message"].as_str().unwrap().contains("Too many open files"), "{refusal}");
    assert_eq!(
        (&refusal["code"], &refusal["retryable"]),
        (&json!("daemon_unavailable"), &json!(true))
    );
    for attempt in &running {
        assert_eq!(attempt.status()["phase"], "running");
    }
    // No client connects, and the daemon does not use the CPU meanwhile.
    let complaints = || provost.said().matches("can't be accepted").count();
    let before = complaints();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| provost.connect().call("list_projects", &json!({})));
        wait_until("it can't accept", || complaints() > before + 2);
        assert!(complaints() < before + 1000, "it pauses");
        limit(pid, 1024);
        assert!(!waiting.join().unwrap().is_error);
    });
    let next = board.start_at(&task, "fake", &json!({"prompt": "say now"}));
    assert_eq!(next.settled()["state"], "completed");
    for attempt in &running {
        assert_eq!(attempt.stop()["stopped"], true);
        attempt.leaves_no_process();
    }
}

#[test]
fn executors_get_the_limit_of_open_files_that_the_daemon_was_started_with() {
    let provost = Provost::new().executor("agent", PLAIN, "ulimit -S -n");
    let limits = "ulimit -S -n 512; ulimit -H -n 4096";
    let done = Provost::done(provost.shell(&format!("{limits}; exec \"$PROVOST\" ps")));
    assert_eq!(done.code, 0, "{done:?}");
    provost.is_started();
    let attempt = provost.board().start("agent", "how many?");
    attempt.settled();
    assert_eq!(attempt.lines("stdout"), ["512"]);
    let limits = fs::read_to_string(format!("/proc/{}/limits", provost.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(line.split_whitespace().nth(3), Some("4096"), "the daemon raises its own");
}
