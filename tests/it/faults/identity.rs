//! Whatever becomes of the clock, of pids, of the boot, of locks and of sockets.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{
    Attempt, EVENTS, PLAIN, Provost, eventually, is_root, native, processes, program, texts,
    wait_until,
};
use crate::lines::{NUMBERING, contiguous, numbering, whole};

const DAY: i64 = 24 * 60 * 60;

/// A clock of the day that the daemon, its shims and their executors have to
/// themselves: no other process's is touched.
struct Clock {
    shift: File,
    /// A copy of `/etc` in which the dynamic linker preloads the clock.
    etc: PathBuf,
}

impl Clock {
    fn new(provost: &Provost) -> Self {
        let shift = provost.path("shift");
        fs::write(&shift, [0; 8]).unwrap();
        let file = format!("-DSHIFT_FILE=\"{}\"", shift.display());
        let library = provost.path("clock.so");
        native::build("clock", &library, &["-shared", "-fPIC", &file]);
        let etc = provost.path("etc");
        let mut copy = program("cp");
        copy.args(["--archive", "/etc"]).arg(&etc).stderr(Stdio::null());
        copy.status().unwrap();
        fs::write(etc.join("ld.so.preload"), format!("{}\n", library.display())).unwrap();
        Self { shift: File::options().write(true).open(shift).unwrap(), etc }
    }

    /// Starts a daemon that lives by this clock, and all that it starts.
    fn start(&self, provost: &Provost) {
        let etc = self.etc.to_str().unwrap();
        let script = "mount --bind \"$0\" /etc && exec \"$@\"";
        provost.start_by(&["unshare", "--mount", "sh", "-c", script, etc]);
    }

    /// Sets it so far ahead of the machine's.
    fn set(&self, seconds: i64) {
        self.shift.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }
}

/// How far a time lies ahead of the machine's clock, in seconds.
fn ahead(time: &Value) -> i64 {
    let time = chrono::DateTime::parse_from_rfc3339(time.as_str().unwrap()).unwrap();
    (time.to_utc() - chrono::Utc::now()).num_seconds()
}

fn is_near(seconds: i64, wanted: i64) -> bool {
    (seconds - wanted).abs() < 600
}

#[test]
fn a_clock_set_forward_and_back_moves_no_entry_and_no_attempt() {
    if !is_root() {
        return;
    }
    let provost = Provost::new().executor("numbering", PLAIN, NUMBERING);
    let clock = Clock::new(&provost);
    clock.start(&provost);
    let board = provost.board();
    let task = board.task("the same for all");
    let gate = provost.path("gate");
    let start = || board.start_at(&task, "numbering", &json!({"prompt": numbering(0, &gate)}));
    let first = start();
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut seen = Vec::new();
    for (round, shift) in [DAY, -DAY, DAY, 0, -DAY].into_iter().enumerate() {
        clock.set(shift);
        first.has_said(&format!("out {}", (round + 1) * 20));
        first.catch_up(&mut seen);
        let status = first.status();
        assert!(is_near(ahead(&status["last_activity_at"]), shift), "{shift}: {status}");
        attempts.push(start());
        if round % 2 == 1 {
            provost.kill();
            clock.start(&provost);
        }
    }
    // The shim has the clock as well.
    assert!(is_near(ahead(&seen.last().unwrap()["at"]), -DAY));
    fs::write(&gate, "").unwrap();
    first.settled();
    first.catch_up(&mut seen);
    assert_eq!(seen, first.raw());
    let of = |stream: &str| texts(seen.iter().filter(|entry| entry["stream"] == stream));
    whole(&of("stdout"), &of("stderr"));

    // Newest first, and each the latest in its time.
    let listed = provost.call("list_task_attempts", &json!({"task_id": task}));
    let listed: Vec<&str> = listed["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| attempt["attempt_id"].as_str().unwrap())
        .collect();
    let made: Vec<&str> =
        attempts.iter().rev().chain([&first]).map(|attempt| attempt.id.as_str()).collect();
    assert_eq!(listed, made);
    let board = provost.call("get_task", &json!({"task_id": task}));
    assert_eq!(board["task"]["latest_attempt_id"], made[0]);
    let ids: BTreeSet<&str> = made.iter().copied().collect();
    assert_eq!(ids.len(), made.len());
    assert!(ids.iter().rev().eq(&made), "ids have the order of their making");
    for attempt in &attempts {
        assert_eq!(attempt.settled()["state"], "completed");
    }
}

#[test]
fn a_clock_set_forward_and_back_ends_no_wait_no_grace_and_no_key() {
    const GRACE: Duration = Duration::from_millis(1500);
    if !is_root() {
        return;
    }
    let provost = Provost::new().config("[daemon]\nstop_grace_ms = 1500");
    let clock = Clock::new(&provost);
    clock.start(&provost);
    let board = provost.board();
    let attempt = board.start("fake", "ignore-term\nsay up\nhang");
    attempt.has_said("up");

    for shift in [DAY, -DAY] {
        let begun = Instant::now();
        let mut client = provost.connect();
        let wait = json!({"attempt_ids": [attempt.id], "timeout_ms": 1500});
        let waiting = client.begin("wait_for_attempts", &wait);
        clock.set(shift);
        let waited = client.outcome(waiting).unwrap().output();
        assert_eq!(waited["timed_out"], true);
        assert!(begun.elapsed() >= GRACE, "the wait ended early");
        clock.set(0);
    }

    let task = json!({"project_id": board.project_id, "title": "once", "request_id": "key"});
    let first = provost.answer("create_task", &task);
    for shift in [DAY, -DAY] {
        clock.set(shift);
        let again = provost.answer("create_task", &task);
        assert!(again.is_deduplicated);
        assert_eq!(again.text, first.text);
        provost.kill();
        clock.start(&provost);
        assert_eq!(provost.answer("create_task", &task).text, first.text);
    }

    let mut client = provost.connect();
    let begun = Instant::now();
    let stopping = client.begin("stop_attempt", &json!({"attempt_id": attempt.id}));
    attempt.in_phase("stopping");
    clock.set(DAY);
    let stopped = client.outcome(stopping).unwrap().output();
    assert!(begun.elapsed() >= GRACE, "it had its grace");
    assert_eq!(stopped["signals"], json!(["SIGINT", "SIGTERM", "SIGKILL"]));
    attempt.leaves_no_process();
}

#[test]
fn a_daemon_that_was_suspended_goes_on_where_it_was() {
    let provost = Provost::new().executor("numbering", PLAIN, NUMBERING).started();
    let gate = provost.path("gate");
    let attempt = provost.board().start("numbering", &numbering(0, &gate));
    attempt.has_said("out 5");
    let (leader, shim) = (attempt.leader(), attempt.shim());
    let mut bridge = provost.bridge();
    bridge.initialize();
    processes::signal(provost.pid(), Signal::SIGSTOP);
    let spool = || fs::metadata(attempt_spool(&provost, &attempt)).map_or(0, |meta| meta.len());
    let before = spool();
    wait_until("it writes on meanwhile", || spool() > before + 1000);
    let asked = bridge.begin("get_attempt_status", &json!({"attempt_id": attempt.id}));
    processes::signal(provost.pid(), Signal::SIGCONT);
    assert_eq!(bridge.outcome(asked).unwrap().output()["phase"], "running");
    assert_eq!((attempt.leader(), attempt.shim()), (leader, shim));
    fs::write(gate, "").unwrap();
    assert_eq!(attempt.settled()["state"], "completed");
    whole(&attempt.lines("stdout"), &attempt.lines("stderr"));
}

/// The first segment of the standard output of an attempt's only process; found
/// without asking the daemon.
fn attempt_spool(provost: &Provost, attempt: &Attempt) -> PathBuf {
    let process = attempt.started["execution_process_id"].as_str().unwrap();
    let dir = provost.home().join("attempts").join(&attempt.id).join(process);
    dir.join(format!("stdout-{:020}.log", 0))
}

/// A process that is no attempt's; killed in the end.
struct Impostor(Child);

impl Impostor {
    /// One that has this very pid.
    fn with_pid(provost: &Provost, pid: i32) -> Self {
        let tool = native::build("impostor", &provost.path("impostor"), &[]);
        let mut command = program(tool);
        let mut child = command.arg(pid.to_string()).stdout(Stdio::piped()).spawn().unwrap();
        let mut word = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut word).unwrap();
        assert_eq!(word, "here\n");
        Self(child)
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        // The tool ends with the one that it made.
        for pid in processes::children(self.0.id().cast_signed()) {
            processes::signal(pid, Signal::SIGKILL);
        }
        let _ = self.0.wait();
    }
}

#[test]
fn another_process_with_the_pid_of_a_dead_executor_is_never_signalled() {
    if !is_root() {
        return;
    }
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say up\nhang");
    attempt.has_said("up");
    let (leader, shim) = (attempt.leader(), attempt.shim());
    provost.kill();
    processes::kill_hard(shim);
    processes::kill_hard(leader);
    wait_until("its pid is free", || processes::state(leader).is_none());
    let impostor = Impostor::with_pid(&provost, leader);
    provost.start();
    let status = attempt.settled();
    assert_eq!((&status["state"], &status["exit_code"]), (&json!("failed"), &Value::Null));
    let summary = status["failure_summary"].as_str().unwrap();
    assert!(summary.contains("died while it ran"), "{summary}");
    assert_eq!(attempt.stop_by_force()["survivors"], 0);
    provost.kill_and_start();
    attempt.stop_by_force();
    assert_eq!(processes::state(leader), Some('S'), "the stranger lives, and is not stopped");
    drop(impostor);
}

/// Tells its session, and with which session it is to go on.
const RESUMING: &str = r#"
echo '{"kind":"session","id":"conversation-1"}'
echo "{\"kind\":\"assistant_message\",\"text\":\"resumes <$PROVOST_EXECUTOR_SESSION_ID>\"}"
read prompt
[ "$prompt" = stay ] && exec sleep 1000
exit 0
"#;

#[test]
fn after_a_reboot_nothing_is_called_completed_and_a_follow_up_resumes_the_session() {
    if !is_root() {
        return;
    }
    let provost = Provost::new().executor("agent", EVENTS, RESUMING).started();
    let attempt = provost.board().start("agent", "stay\n");
    attempt.has_said("resumes <>");
    let (shim, leader) = (attempt.shim(), attempt.leader());
    provost.kill();
    processes::kill_hard(shim);
    processes::kill_hard(leader);
    // Pids begin anew with a boot: someone may have this one at that very tick.
    let started = attempt_spool(&provost, &attempt).with_file_name("started.json");
    let innocent = Innocent::new();
    let mut record: Value = serde_json::from_slice(&fs::read(&started).unwrap()).unwrap();
    record["pid"] = innocent.pid().into();
    record["start_time"] = innocent.start_time().into();
    fs::write(&started, record.to_string()).unwrap();

    let boot = provost.path("boot_id");
    fs::write(&boot, "6b4f1a52-8f6b-4a53-9a1c-000000000000\n").unwrap();
    let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
    provost.start_by(&["unshare", "--mount", "sh", "-c", script, boot.to_str().unwrap()]);
    let status = attempt.settled();
    assert_eq!((&status["state"], &status["exit_code"]), (&json!("failed"), &Value::Null));
    assert!(!status["failure_summary"].as_str().unwrap().is_empty());
    assert!(processes::is_alive(innocent.pid()), "one of another boot is signalled");
    let more = json!({"action": "send", "attempt_id": attempt.id, "prompt": "go on\n"});
    provost.call("follow_up", &more);
    assert_eq!(attempt.settled()["state"], "completed");
    assert_eq!(attempt.said("assistant_message"), ["resumes <>", "resumes <conversation-1>"]);
}

/// A process of the test's own.
struct Innocent(Child);

impl Innocent {
    fn new() -> Self {
        Self(program("sleep").arg("1000").spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }

    /// Clock ticks after boot (proc_pid_stat(5), field 22).
    fn start_time(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.split_ascii_whitespace().nth(19).unwrap().parse().unwrap()
    }
}

impl Drop for Innocent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn of_ten_daemons_started_at_once_one_holds_the_home() {
    let provost = Provost::new();
    let mut daemons: Vec<Child> = (0..10)
        .map(|_| {
            let mut daemon = provost.command(&["daemon"]);
            daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            daemon.spawn().unwrap()
        })
        .collect();
    provost.is_started();
    wait_until("nine have left", || {
        daemons.iter_mut().filter_map(|daemon| daemon.try_wait().unwrap()).count() == 9
    });
    let holder = provost.pid();
    for mut daemon in daemons {
        if daemon.id().cast_signed() == holder {
            assert_eq!(daemon.try_wait().unwrap(), None);
            daemon.kill().unwrap();
            daemon.wait().unwrap();
            continue;
        }
        let left = daemon.wait_with_output().unwrap();
        assert_eq!(left.status.code(), Some(3));
        let said = String::from_utf8_lossy(&left.stderr);
        assert!(said.contains(&format!("pid {holder}")), "{said}");
    }
}

#[test]
fn a_stale_lock_and_a_stale_socket_are_in_nobodys_way() {
    let provost = Provost::running();
    let (lock, socket) =
        (provost.home().join("run/daemon.lock"), provost.home().join("run/daemon.sock"));
    // Left by a SIGKILL.
    provost.kill();
    assert!(lock.exists() && socket.exists());
    // Nothing listens there: a verb starts a daemon.
    assert_eq!(provost.verb(["ps"]).code, 0);
    provost.is_started();
    for nonsense in [&b""[..], b"nonsense\xff\0", b"999999999999\n", b"1\n"] {
        provost.kill();
        fs::write(&lock, nonsense).unwrap();
        provost.start();
        provost.call("list_projects", &json!({}));
    }
    // Not even a socket.
    provost.kill();
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "a file").unwrap();
    provost.start();
    // The socket of another process, which listens: the daemon replaces it.
    provost.kill();
    fs::remove_file(&socket).unwrap();
    let _other = UnixListener::bind(&socket).unwrap();
    let theirs = fs::metadata(&socket).unwrap().ino();
    let mut daemon = provost.command(&["daemon"]).stderr(Stdio::null()).spawn().unwrap();
    wait_until("it is the daemon's", || {
        fs::metadata(&socket).is_ok_and(|meta| meta.ino() != theirs)
    });
    provost.is_started();
    provost.call("list_projects", &json!({}));
    provost.kill();
    daemon.wait().unwrap();
}

#[test]
fn a_program_replaced_or_deleted_under_a_running_daemon_changes_nothing_for_it() {
    let provost = Provost::new().copied().executor("count", PLAIN, "seq -f 'line %.0f' 10");
    provost.start();
    let board = provost.board();
    let ends = |executor: &str| {
        let attempt = board.start(executor, "say hi");
        assert_eq!(attempt.settled()["state"], "completed");
        attempt
    };
    let running = board.start("fake", "say up\nhang");
    running.has_said("up");
    let other = provost.path("other");
    fs::write(&other, "#!/bin/sh\necho not the same program; exit 99\n").unwrap();
    fs::rename(other, provost.program()).unwrap();
    ends("fake");
    assert_eq!(contiguous(&ends("count").lines("stdout"), "line"), 10);
    fs::remove_file(provost.program()).unwrap();
    ends("fake");
    // A shim that has died is replaced as well.
    processes::kill_hard(running.shim());
    eventually("another shim goes on", || processes::working_in(&running.dir()).first().copied());
    assert_eq!(running.stop()["survivors"], 0);
    running.leaves_no_process();
}
