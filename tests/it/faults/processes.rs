//! Whatever becomes of executors and of what they start.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Attempt, PLAIN, Provost, is_root, processes, wait_until};
use crate::lines::{NUMBERING, numbering, whole};

const QUICK: &str = "[daemon]\nstop_grace_ms = 400";

#[test]
fn an_executor_that_crashes_is_reported_with_its_signal() {
    let provost =
        Provost::new().executor("crash", PLAIN, "read signal; kill -$signal $$").started();
    let board = provost.board();
    for (name, number) in [("SEGV", 11), ("ABRT", 6), ("BUS", 7)] {
        let status = board.start("crash", &format!("{name}\n")).settled();
        assert_eq!((&status["state"], &status["exit_code"]), (&json!("failed"), &Value::Null));
        assert_eq!(status["exit_signal"], number);
        let summary = status["failure_summary"].as_str().unwrap();
        assert!(summary.contains(&format!("SIG{name} (signal {number})")), "{summary}");
    }
}

/// A memory cgroup (cgroups(7)), of whichever version the machine has.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// `None` where no controller is to be had.
    fn with_limit(name: &str, bytes: u64) -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let (parent, limit) = if root.join("memory").is_dir() {
            (root.join("memory"), "memory.limit_in_bytes")
        } else {
            // Only what the parent hands down is there (cgroups(7)).
            let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
            (root.to_owned(), "memory.max")
        };
        let group = Self(parent.join(name));
        fs::create_dir(&group.0).ok()?;
        fs::write(group.0.join(limit), bytes.to_string()).ok()?;
        // Else it swaps for a while first.
        let _ = fs::write(group.0.join("memory.swap.max"), "0");
        Some(group)
    }

    fn take_in(&self, pid: i32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        for _ in 0..1000 {
            if fs::remove_dir(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            std::thread::yield_now();
        }
        eprintln!("{} is left", self.0.display());
    }
}

#[test]
fn an_executor_killed_for_want_of_memory_is_reported_so_and_nothing_else_is_harmed() {
    if !is_root() {
        return;
    }
    let name = format!("provost-it-{}", std::process::id());
    let Some(group) = MemoryGroup::with_limit(&name, 24 << 20) else {
        eprintln!("not tested: no memory cgroup can be made here");
        return;
    };
    // `tail` keeps what has no line end in its memory.
    let script = "read gate; echo up; until [ -e $gate ]; do sleep 0.02; done; exec tail /dev/zero";
    let provost = Provost::new().executor("hungry", PLAIN, script).started();
    let board = provost.board();
    let gate = provost.path("gate");
    let attempt = board.start("hungry", &gate.to_string_lossy());
    attempt.has_said("up");
    let (daemon, shim) = (provost.pid(), attempt.shim());
    group.take_in(attempt.leader());
    fs::write(gate, "").unwrap();
    let status = attempt.settled();
    assert_eq!((&status["state"], &status["exit_signal"]), (&json!("failed"), &json!(9)));
    let summary = status["failure_summary"].as_str().unwrap();
    assert!(summary.contains("memory") && summary.contains("not by Provost"), "{summary}");
    assert_eq!(provost.pid(), daemon);
    assert!(processes::is_alive(daemon));
    wait_until("the shim ends in peace", || !processes::is_alive(shim));
    assert_eq!(board.start("fake", "say next").settled()["state"], "completed");
}

#[test]
fn one_that_closes_its_output_runs_until_it_ends() {
    let script =
        "read gate; echo up; exec >&- 2>&-; until [ -e $gate ]; do sleep 0.05; done; exit 7";
    let provost = Provost::new().executor("mute", PLAIN, script).started();
    let gate = provost.path("gate");
    let attempt = provost.board().start("mute", &gate.to_string_lossy());
    attempt.has_said("up");
    let shim = attempt.shim();
    provost.kill_and_start();
    assert_eq!(attempt.status()["phase"], "running");
    let before = processes::ticks(shim);
    // Some round trips later it still waits, and does nothing meanwhile.
    for _ in 0..200 {
        assert_eq!(attempt.status()["phase"], "running");
    }
    assert!(processes::ticks(shim) < before + 20, "the shim is busy with a closed pipe");
    fs::write(gate, "").unwrap();
    assert_eq!(attempt.settled()["exit_code"], 7);
    assert_eq!(attempt.lines("stdout"), ["up"]);
}

#[test]
fn one_that_never_reads_its_prompt_or_closes_its_input_ends_as_it_would() {
    let provost = Provost::new()
        .executor("deaf", PLAIN, "echo deaf; exit 3")
        .executor("closed", PLAIN, "exec <&-; echo closed")
        .started();
    let board = provost.board();
    // More than a pipe holds.
    let prompt = "x".repeat(900_000);
    let (deaf, closed) = (board.start("deaf", &prompt), board.start("closed", &prompt));
    assert_eq!(deaf.settled()["exit_code"], 3);
    assert_eq!(closed.settled()["exit_code"], 0);
    assert_eq!([deaf.lines("stdout"), closed.lines("stdout")], [["deaf"], ["closed"]]);
}

#[test]
fn a_stopped_executor_handles_the_stop_and_a_forced_one_ends_it_as_well() {
    let script = "trap 'echo handled; exit 33' INT; echo up; while :; do sleep 0.05; done";
    let provost = Provost::new().executor("polite", PLAIN, script).started();
    let board = provost.board();
    let frozen = || {
        let attempt = board.start("polite", "x");
        attempt.has_said("up");
        let leader = attempt.leader();
        processes::signal(leader, Signal::SIGSTOP);
        wait_until("it is stopped", || processes::state(leader) == Some('T'));
        attempt
    };
    let attempt = frozen();
    let stopped = attempt.stop();
    assert_eq!((&stopped["exit_code"], &stopped["signals"]), (&json!(33), &json!(["SIGINT"])));
    attempt.has_said("handled");
    let attempt = frozen();
    let stopped = attempt.stop_by_force();
    assert_eq!((&stopped["exit_signal"], &stopped["survivors"]), (&json!(9), &json!(0)));
    attempt.leaves_no_process();
}

fn freeze_shim(attempt: &Attempt) -> i32 {
    let shim = attempt.shim();
    processes::signal(shim, Signal::SIGSTOP);
    wait_until("the shim is stopped", || processes::state(shim) == Some('T'));
    shim
}

#[test]
fn a_stopped_shim_is_let_go_on_by_a_stop_and_by_the_next_daemon() {
    let provost = Provost::new().config(QUICK).executor("numbering", PLAIN, NUMBERING).started();
    let board = provost.board();
    let gate = provost.path("gate");
    let attempts = [(); 3].map(|()| board.start("numbering", &numbering(0, &gate)));
    let [mute, other, stopped] = &attempts;
    for attempt in &attempts {
        attempt.has_said("out 5");
    }
    freeze_shim(stopped);
    assert_eq!(stopped.stop()["survivors"], 0);
    stopped.leaves_no_process();
    freeze_shim(mute);
    let leaders = (mute.leader(), other.leader());
    provost.kill_and_start();
    other.has_said("out 20");
    mute.has_said("out 20");
    assert_eq!((mute.leader(), other.leader()), leaders);
    fs::write(gate, "").unwrap();
    for attempt in [mute, other] {
        assert_eq!(attempt.settled()["state"], "completed");
        whole(&attempt.lines("stdout"), &attempt.lines("stderr"));
    }
}

#[test]
fn a_storm_of_orphans_leaves_no_zombie() {
    const ORPHANS: usize = 2000;
    let script = format!(
        "storm() {{ i=0; while [ $i -lt {ORPHANS} ]; do (true &) ; i=$((i+1)); done; }}\n\
         read gate; storm; echo first; until [ -e $gate ]; do sleep 0.02; done; storm\n\
         echo second; while :; do sleep 0.05; done"
    );
    let provost = Provost::new().config(QUICK).executor("storm", PLAIN, &script).started();
    let gate = provost.path("gate");
    let attempt = provost.board().start("storm", &gate.to_string_lossy());
    let all_are_reaped = |shim: i32| {
        wait_until("all are reaped", || {
            processes::zombies_of(shim) + processes::zombies_of(provost.pid()) == 0
        });
    };
    attempt.has_said("first");
    all_are_reaped(attempt.shim());
    // Without its shim the orphans come to the daemon.
    processes::kill_hard(attempt.shim());
    fs::write(gate, "").unwrap();
    attempt.has_said("second");
    all_are_reaped(attempt.shim());
    assert_eq!(attempt.stop_by_force()["survivors"], 0);
    attempt.leaves_no_process();
}

/// Ways out of a process group, a session, an environment, a terminal and a signal.
/// Each leaves one process or more, whose working folder is the worktree.
const ESCAPES: &[(&str, &str)] = &[
    ("setsid", "setsid sleep 1000 &"),
    ("nohup", "nohup sleep 1000 >/dev/null 2>&1 &"),
    ("double fork", "( ( sleep 1000 & ) & )"),
    ("double fork and setsid", "( ( setsid sleep 1000 & ) & )"),
    ("no environment", "( env -i setsid /bin/sleep 1000 & )"),
    (
        "another terminal",
        "( setsid script -qec 'sleep 1000' /dev/null </dev/null >/dev/null 2>&1 & )",
    ),
    (
        "ignores everything",
        "( setsid sh -c 'trap \"\" HUP INT TERM QUIT USR1 USR2 PIPE; while :; do sleep 0.1; done' & )",
    ),
    (
        "hydra",
        "cat >hydra <<'END'\ntrap 'setsid sh hydra & setsid sh hydra &' INT TERM HUP\n\
         while :; do sleep 0.1; done\nEND\nsetsid sh hydra &",
    ),
];

/// Those of the attempt by their working folder too: an environment can be shaken off.
fn of(attempt: &Attempt, worktree: &Path) -> Vec<i32> {
    let mut found = attempt.processes();
    found.extend(processes::working_in(worktree));
    found.sort_unstable();
    found.dedup();
    found
}

fn escapees_are_gone(prepare: impl Fn(&Provost, &Attempt)) {
    let script = ESCAPES.iter().fold("trap '' INT TERM\n".to_owned(), |script, (name, escape)| {
        format!("{script}{escape}\necho '{name}'\n")
    });
    let script = format!("{script}echo \"in $PWD\"\nwhile :; do sleep 0.1; done");
    let provost = Provost::new().config(QUICK).executor("escape", PLAIN, &script).started();
    let attempt = provost.board().start("escape", "x");
    attempt.has_said("in /");
    let lines = attempt.lines("stdout");
    let worktree = PathBuf::from(lines.last().unwrap().strip_prefix("in ").unwrap());
    wait_until("all are out", || of(&attempt, &worktree).len() > ESCAPES.len());
    prepare(&provost, &attempt);
    let stopped = attempt.stop();
    assert_eq!((&stopped["stopped"], &stopped["survivors"]), (&json!(true), &json!(0)));
    attempt.leaves_no_process();
    // The daemon's own git works there for a moment: the snapshot after the turn.
    wait_until("nor one without an environment", || of(&attempt, &worktree).is_empty());
}

#[test]
fn whatever_escaped_is_gone_after_a_stop() {
    escapees_are_gone(|_, _| {});
}

#[test]
fn whatever_escaped_is_gone_after_a_stop_when_the_shim_was_killed_first() {
    escapees_are_gone(|_, attempt| processes::kill_hard(attempt.shim()));
}

#[test]
fn whatever_escaped_is_gone_after_a_stop_by_another_daemon() {
    escapees_are_gone(|provost, attempt| {
        processes::kill_hard(attempt.shim());
        assert!(processes::is_alive(attempt.shim()), "another shim goes on");
        provost.kill_and_start();
    });
}

#[test]
fn fifty_daemons_one_after_another_leave_nothing_behind() {
    let provost = Provost::new().executor("numbering", PLAIN, NUMBERING).started();
    let board = provost.board();
    let gate = provost.path("gate");
    let attempts = [(); 4].map(|()| board.start("numbering", &numbering(0, &gate)));
    for attempt in &attempts {
        attempt.has_said("out 5");
    }
    let people = || attempts.each_ref().map(|attempt| (attempt.leader(), attempt.shim()));
    let files = |dir: &str| fs::read_dir(provost.home().join(dir)).unwrap().count();
    let folders = || ["", "run", "attempts", "worktrees"].map(files);
    let settled = || {
        // One status of each, so that all have been taken up.
        for attempt in &attempts {
            attempt.in_phase("running");
        }
        processes::open_files(provost.pid())
    };
    provost.kill_and_start();
    let (before, mut most) = ((people(), folders()), settled());
    for attempt in &attempts {
        attempt.has_said("out 20");
    }
    most = most.max(settled());
    for _ in 0..50 {
        provost.kill_and_start();
    }
    for attempt in &attempts {
        attempt.has_said("out 40");
    }
    assert_eq!((people(), folders()), before);
    wait_until("no more files are open than after the first", || settled() <= most + 2);
    fs::write(gate, "").unwrap();
    for attempt in &attempts {
        assert_eq!(attempt.settled()["state"], "completed");
        whole(&attempt.lines("stdout"), &attempt.lines("stderr"));
    }
    // Shims work in their process's folder.
    let shims = || processes::working_below(&provost.home().join("attempts"));
    wait_until("no shim is left", || shims().is_empty());
}
