//! Executors that go beyond what they are allowed.

use std::fs;

use nix::sys::resource::{Resource, getrlimit};
use serde_json::{Value, json};

use crate::harness::{Attempt, PLAIN, Provost, is_root, processes, wait_until};

/// Some four thousand processes, each of which waits for its own two.
const BOMB: &str = r#"
bomb() { if [ "$1" -gt 0 ]; then bomb $(($1 - 1)) & bomb $(($1 - 1)) & wait; else sleep 1000; fi; }
bomb 11
"#;

/// Provost with one executor, a script with limits of its own.
fn limited(script: &str, limits: &str) -> Provost {
    Provost::new()
        .executor("agent", PLAIN, script)
        .config("[executors.agent.limits]")
        .config(limits)
        .config("[daemon]\nstop_grace_ms = 300")
}

/// Waits for the end of one that goes beyond a limit.
fn ended_for(attempt: &Attempt<'_>, limit: &str) -> Value {
    let status = attempt.settled();
    assert_eq!(status["state"], "failed", "{status}");
    let summary = status["failure_summary"].as_str().unwrap();
    assert!(summary.contains(limit), "{summary}");
    wait_until("all of it is dead", || attempt.processes().is_empty());
    status
}

#[test]
fn a_turn_over_its_time_is_ended_with_all_it_started() {
    let provost =
        limited("trap '' TERM; setsid sleep 1000 & sleep 1000", "wall_secs = 1").started();
    let attempt = provost.board().start("agent", "x");
    let status = ended_for(&attempt, "longer than its limit of 1 s (wall_secs)");
    let held = json!([{"limit": "wall_secs", "value": 1, "hold": "watched", "reason": null}]);
    assert_eq!(status["limits"], held);
    assert!(attempt.said("process_end")[0].contains("wall_secs"), "its log tells as well");
}

#[test]
fn the_turn_after_one_that_was_ended_for_its_limit_finds_no_process() {
    let script = "(trap '' TERM; setsid sleep 1000 </dev/null >/dev/null 2>&1) & sleep 1000";
    let provost = Provost::new()
        .executor("agent", PLAIN, script)
        // It would have a minute yet.
        .config("[executors.agent.limits]\nwall_secs = 1\n[daemon]\nstop_grace_ms = 60000")
        .started();
    let attempt = provost.board().start("agent", "x");
    attempt.settled();
    attempt.leaves_no_process();
}

#[test]
fn what_a_turn_leaves_behind_has_its_limits_of_memory_and_processes() {
    let hungry = "head -c 1G /dev/zero | tail -n 1 | wc -c";
    let script =
        format!("setsid sh -c '{hungry}; sleep 1000' </dev/null >/dev/null 2>&1 & echo bye");
    let provost = limited(&script, "memory_bytes = 100000000").started();
    let attempt = provost.board().start("agent", "x");
    assert_eq!(attempt.settled()["state"], "completed");
    wait_until("it is ended", || attempt.processes().is_empty());
}

#[test]
fn the_time_of_a_turn_is_up_whether_or_not_there_is_a_daemon() {
    let provost = limited("echo up; sleep 1000", "wall_secs = 2").started();
    let attempt = provost.board().start("agent", "x");
    attempt.has_said("up");
    let leader = attempt.leader();
    processes::kill_hard(attempt.shim());
    wait_until("another shim goes on", || processes::is_alive(attempt.shim()));
    provost.kill();
    wait_until("its time is up", || !processes::is_alive(leader));
    provost.start();
    ended_for(&attempt, "wall_secs");
}

#[test]
fn a_limit_is_of_one_turn_and_the_next_one_starts_over() {
    let script =
        r#"if [ -e "$HOME/first" ]; then echo fine; else touch "$HOME/first"; sleep 1000; fi"#;
    let provost = limited(script, "wall_secs = 1").started();
    let attempt = provost.board().start("agent", "x");
    let queue = json!({"action": "queue", "attempt_id": attempt.id, "prompt": "y"});
    provost.call("follow_up", &queue);
    let status = attempt.settled();
    assert_eq!(status["state"], "completed", "{status}");
    assert_eq!(attempt.lines("stdout"), ["fine"]);
}

#[test]
fn what_a_turn_left_behind_outlives_its_limits_also_under_another_shim() {
    let script = "n=0; ( while :; do n=$((n + 1)); echo \"tick $n\"; sleep 0.05; done & )";
    let provost = limited(script, "wall_secs = 2").started();
    let attempt = provost.board().start("agent", "x");
    let status = attempt.settled();
    assert_eq!(status["state"], "completed", "{status}");
    processes::kill_hard(attempt.shim());
    // Under another shim, twice its time later.
    attempt.has_said("tick 80");
    attempt.stop();
    attempt.leaves_no_process();
}

#[test]
fn one_that_neither_writes_nor_computes_is_ended_and_one_that_does_is_not() {
    let provost = limited("echo up; sleep 1000", "idle_secs = 1")
        .executor("writer", PLAIN, "for i in $(seq 40); do echo $i; sleep 0.1; done")
        .executor(
            "thinker",
            PLAIN,
            "i=0; end=$(($(date +%s) + 4)); while [ $(date +%s) -lt $end ]; do i=$((i + 1)); done",
        )
        .config("[limits]\nidle_secs = 2")
        .started();
    let board = provost.board();
    let idle = board.start("agent", "x");
    let busy = [board.start("writer", "x"), board.start("thinker", "x")];
    ended_for(&idle, "did nothing for its limit of 1 s (idle_secs)");
    for attempt in busy {
        let status = attempt.settled();
        assert_eq!(status["state"], "completed", "{status}");
    }
}

#[test]
fn one_that_takes_too_much_memory_is_ended() {
    // tail keeps all of a line that does not end.
    let provost = limited("head -c 1G /dev/zero | tail -n 1 | wc -c", "memory_bytes = 100000000");
    let provost = provost.started();
    let attempt = provost.board().start("agent", "x");
    let status = ended_for(&attempt, "more memory than its limit of 100000000 bytes");
    assert_eq!(status["limits"][0]["limit"], "memory_bytes");
    assert_ne!(status["limits"][0]["hold"], "no", "{status}");
}

#[test]
fn a_fork_bomb_is_ended_and_everyone_else_is_served_meanwhile() {
    let provost = limited(BOMB, "processes = 50").started();
    let board = provost.board();
    let quiet = board.start("fake", "say quiet\nhang");
    let attempt = board.start("agent", "x");
    quiet.has_said("quiet");
    ended_for(&attempt, "more processes than its limit of 50");
    assert_eq!(quiet.status()["phase"], "running");
    quiet.stop();
}

#[test]
fn a_fork_bomb_of_a_user_without_privileges_meets_the_kernel() {
    if !is_root() {
        return;
    }
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let provost = limited(BOMB, &format!("processes = 50\nopen_files = {}", hard + 1));
    let board = provost.repo("app");
    let provost = provost.unprivileged().started();
    let board = crate::harness::Board::new(&provost, vec![board]);
    let attempt = board.start("agent", "x");
    let status = ended_for(&attempt, "more processes than its limit of 50");
    let limits = status["limits"].as_array().unwrap();
    let hold = |name: &str| limits.iter().find(|limit| limit["limit"] == name).unwrap().clone();
    assert_eq!(hold("processes")["hold"], "kernel", "{status}");
    assert_eq!(hold("open_files")["hold"], "no", "{status}");
    assert!(hold("open_files")["reason"].as_str().unwrap().contains("hard limit"), "{status}");
}

#[test]
fn files_and_niceness_are_set_by_executor_over_those_of_all() {
    let own = niceness();
    let provost = limited("ulimit -n; cut -d' ' -f19 /proc/self/stat", "nice = 3")
        .config("[limits]\nopen_files = 77\nnice = 9")
        .started();
    let attempt = provost.board().start("agent", "x");
    let status = attempt.settled();
    assert_eq!(attempt.lines("stdout"), ["77".to_owned(), (own + 3).min(19).to_string()]);
    let holds = status["limits"].as_array().unwrap().iter().map(|limit| limit["hold"].clone());
    assert_eq!(holds.collect::<Vec<_>>(), ["kernel", "kernel"]);
}

fn niceness() -> i32 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().parse().unwrap()
}

#[test]
fn limits_that_make_no_sense_are_refused_with_their_place() {
    for (limits, named) in [
        ("nice = 20", "executors.agent.limits.nice"),
        ("wall_seconds = 1", "executors.agent.limits.wall_secs"),
        ("memory_bytes = \"1G\"", "executors.agent.limits.memory_bytes"),
    ] {
        let done = limited("true", limits).verb(["config", "show"]);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.stderr.contains(named), "{done:?}");
    }
}
