//! `provost daemon` and `config`: one daemon for a home, and its settings.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Provost, processes, wait_until};

#[test]
fn a_second_daemon_names_the_first_and_touches_nothing() {
    let provost = Provost::running();
    let before = files(provost.home());
    let second = provost.verb(["daemon"]);
    assert_eq!(second.code, 3);
    assert!(second.stderr.contains(&provost.pid().to_string()), "{}", second.stderr);
    assert_eq!(files(provost.home()), before);
    provost.call("list_projects", &json!({}));
}

/// Every file of a folder with its length, but the database's own.
fn files(dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let meta = entry.metadata().unwrap();
        if meta.is_dir() {
            found.extend(files(&entry.path()));
        } else if !entry.file_name().to_string_lossy().starts_with("provost.db") {
            found.push((entry.path(), meta.len()));
        }
    }
    found.sort();
    found
}

#[test]
fn two_homes_do_not_see_each_other() {
    let (one, other) = (Provost::running(), Provost::running());
    let attempt = one.board().start("fake", "say up\nhang");
    attempt.has_said("up");
    let target = json!({"attempt_id": attempt.id});
    assert_eq!(other.refusal("stop_attempt", &target)["code"], "attempt_not_found");
    other.kill_and_start();
    assert_eq!(other.verb(["shutdown", "--stop-all"]).code, 0);
    assert_eq!(attempt.status()["phase"], "running");
}

#[test]
fn the_home_is_closed_to_others() {
    let provost = Provost::running();
    let mode = |path: &str| {
        let meta = fs::metadata(provost.home().join(path)).unwrap();
        meta.permissions().mode() & 0o777
    };
    for folder in ["", "run", "attempts", "worktrees"] {
        assert_eq!(mode(folder), 0o700, "{folder}");
    }
    assert_eq!(mode("run/daemon.sock"), 0o600);
    assert_eq!(mode("run/daemon.lock"), 0o600);
}

/// Where the socket of a home too deep for `sun_path` lies: all versions of the
/// program must find each other there.
struct ShortFolder(PathBuf);

impl ShortFolder {
    fn of(home: &Path) -> Self {
        let run = home.join("run");
        let hash = run
            .as_os_str()
            .as_encoded_bytes()
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
        let user = nix::unistd::geteuid();
        Self(PathBuf::from(format!("/tmp/provost-{user}-{hash:016x}")))
    }
}

impl Drop for ShortFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_home_with_a_long_path_works() {
    let provost = Provost::in_folder(&"d".repeat(150));
    let short = ShortFolder::of(provost.home());
    let repo = provost.repo("app");
    assert_eq!(provost.verb(["init", repo.path.to_str().unwrap()]).code, 0);
    let followed = provost.verb(["run", "say from afar", "--follow", "--executor", "fake"]);
    assert_eq!(followed.code, 0, "{followed:?}");
    assert!(followed.stdout.contains("from afar"));
    assert!(short.0.join("daemon.sock").exists());
    assert_eq!(provost.verb(["shutdown"]).code, 0);
}

#[test]
fn an_unknown_key_names_the_nearest_and_starts_nothing() {
    let provost = Provost::new().config("[daemon]\nmax_runing_attempts = 3");
    for verb in [["daemon", "--json"], ["config", "show"]] {
        let done = provost.verb(verb);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.stderr.contains("daemon.max_running_attempts"), "{}", done.stderr);
        assert!(done.stderr.contains("config.toml:2"), "{}", done.stderr);
    }
    // A verb that would start a daemon in the background says the same.
    let done = provost.verb(["ps"]);
    assert_eq!(done.code, 3);
    assert!(done.stderr.contains("daemon.max_running_attempts"), "{}", done.stderr);
    assert_eq!(provost.processes(), Vec::<i32>::new());
}

#[test]
fn every_value_is_shown_with_its_origin() {
    let provost = Provost::new()
        .config("[daemon]\nstop_grace_ms = 7")
        .variable("PROVOST_LOGS_RING_ENTRIES", "11")
        .variable("VK_IDEMPOTENCY_COMPLETED_TTL_SECS", "13");
    let shown = provost.verb(["config", "show", "--json"]).json();
    let find = |key: &str| -> (Value, String) {
        let values = shown["values"].as_array().unwrap();
        let value = values.iter().find(|value| value["key"] == key).unwrap();
        (value["value"].clone(), value["origin"].as_str().unwrap().to_owned())
    };
    let file = format!("{}:2", provost.home().join("config.toml").display());
    assert_eq!(find("daemon.stop_grace_ms"), (json!(7), file));
    assert_eq!(find("daemon.max_running_attempts"), (json!(8), "default".into()));
    assert_eq!(find("logs.ring_entries"), (json!(11), "PROVOST_LOGS_RING_ENTRIES".into()));
    let ttl = find("idempotency.completed_ttl_secs");
    assert_eq!(ttl, (json!(13), "VK_IDEMPOTENCY_COMPLETED_TTL_SECS".into()));
    let people = provost.verb(["config", "show"]);
    assert!(people.stdout.contains("daemon.stop_grace_ms"), "{people:?}");
}

#[test]
fn shutdown_leaves_executors_running_unless_all_are_to_stop() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say up\nhang");
    attempt.has_said("up");
    let leader = attempt.leader();
    let pid = provost.pid();
    let expected = json!({"pid": pid, "ended": true, "alive": [], "unrecorded": []});
    assert_eq!(provost.verb(["shutdown", "--json"]).json(), expected);
    assert_eq!(provost.ended(), Some(0));
    assert!(processes::is_alive(leader));
    provost.start();
    assert_eq!(attempt.status()["phase"], "running");
    assert_eq!(provost.verb(["shutdown", "--stop-all"]).code, 0);
    assert_eq!(provost.ended(), Some(0));
    attempt.leaves_no_process();
    assert_eq!(provost.verb(["shutdown"]).code, 3, "no daemon runs any more");
    provost.start();
    assert_eq!(attempt.settled()["state"], "failed");
}

#[test]
fn the_daemon_writes_to_standard_error_alone_of_which_call_and_attempt_it_speaks() {
    let provost = Provost::new().variable("PROVOST_LOG", "debug").started();
    let board = provost.board();
    let attempt = board.start("fake", "say hi");
    attempt.settled();
    assert_eq!(provost.verb(["shutdown"]).code, 0);
    assert_eq!(provost.ended(), Some(0));
    assert_eq!(fs::read_to_string(provost.path("stdout")).unwrap(), "");
    let said = provost.said();
    let of_call = r#"tool="start_task_attempt""#;
    for part in ["ready", of_call, "call{number=", &format!("attempt{{id={}}}", attempt.id)] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// Its threads die one after the other, and the last one holds the lock.
#[test]
fn a_daemon_that_is_started_while_the_old_one_is_being_killed_takes_its_place() {
    let provost = Provost::running();
    for _ in 0..15 {
        provost.connect();
        let old = provost.pid();
        processes::signal(old, Signal::SIGKILL);
        let mut next = provost.command(&["daemon"]).stderr(Stdio::null()).spawn().unwrap();
        wait_until("the next one holds the home", || {
            assert_eq!(next.try_wait().unwrap(), None, "it found the lock held");
            // It is empty for a moment.
            let holder = fs::read_to_string(provost.home().join("run/daemon.lock"));
            holder.is_ok_and(|holder| holder.trim() == next.id().to_string())
        });
        provost.is_started();
        next.kill().unwrap();
        next.wait().unwrap();
        provost.kill_and_start();
    }
}
