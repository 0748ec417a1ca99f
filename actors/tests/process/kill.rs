//! Whole trees, however they try to get away.

use std::os::unix::process::ExitStatusExt;

use nix::sys::signal::Signal;
use provost_actors::event::Stream;
use provost_actors::process::identity::Process;
use provost_actors::process::proc;
use provost_actors::process::{ShimEvent, Target};

use crate::support::{Bench, TIMEOUT, ended, event, exited, held, lines, until};

/// Starts children of every kind; each prints its pid. The leader stays.
const TORTURE: &str = r#"
import os, signal, subprocess, sys, time

def tell():
    os.write(1, b"%d\n" % os.getpid())

def wait():
    while True:
        time.sleep(600)

def child(*steps):
    if os.fork() == 0:
        for step in steps:
            step()
        tell()
        wait()

def fork_again():
    if os.fork():
        os._exit(0)

def deaf():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

def stopped():
    tell()
    os.kill(os.getpid(), signal.SIGSTOP)

def no_environment():
    os.execve(sys.executable, [sys.executable, "-c",
        "import os, time; os.write(1, b'%d\\n' % os.getpid()); time.sleep(600)"], {})

deaf()
child()
child(os.setsid)
child(lambda: os.setpgid(0, 0))
child(os.setsid, fork_again)
child(deaf)
child(stopped)
child(os.setsid, fork_again, no_environment)
child(os.setsid, fork_again, deaf, os.setsid)
tell()
wait()
"#;
const TORTURED: usize = 9;

pub async fn torture(
    bench: &Bench,
) -> (std::path::PathBuf, provost_actors::process::Shim, Vec<Process>) {
    let (dir, mut manifest) = bench.script("");
    manifest.program = "/usr/bin/env".into();
    manifest.args = vec!["python3".into(), "-c".into(), TORTURE.into()];
    let shim = bench.spawn(&dir, &manifest, None).await.unwrap();
    let lines = lines(&dir, TORTURED).await;
    let tree = lines.iter().map(|line| Process::of(line.parse().unwrap()).unwrap()).collect();
    (dir, shim, tree)
}

#[tokio::test]
async fn no_process_gets_away_by_session_group_fork_signal_or_environment() {
    let bench = Bench::new();
    let (dir, mut shim, tree) = torture(&bench).await;
    let report = shim.control.kill_tree().await.unwrap();
    assert!(report.survivors.is_empty(), "{report:?}");
    assert!(report.signalled >= TORTURED, "{report:?}");
    assert!(tree.iter().all(|process| !process.is_alive()));
    assert_eq!(ended(&dir, &mut shim).await.exit_signal, Some(9));
    let again = shim.control.kill_tree().await;
    assert!(again.is_err(), "the shim has ended");
}

#[tokio::test]
async fn what_forks_faster_than_it_is_looked_at_dies_too() {
    let bench = Bench::new();
    let hydra = "import os, signal, time\n\
                 signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n\
                 os.write(1, b'up\\n')\n\
                 while True:\n\
                 \x20   if os.fork(): os._exit(0)\n\
                 \x20   os.setsid()\n\
                 \x20   time.sleep(0.0003)\n";
    let (dir, mut manifest) = bench.script("");
    manifest.program = "/usr/bin/env".into();
    manifest.args = vec!["python3".into(), "-c".into(), hydra.into()];
    let mut shim = bench.spawn(&dir, &manifest, None).await.unwrap();
    lines(&dir, 1).await;
    // The first head is off; the others go on.
    assert_eq!(exited(&mut shim).await.exit_code, Some(0));
    let report = shim.control.kill_tree().await.unwrap();
    assert!(report.survivors.is_empty(), "{report:?}");
    assert_eq!(event(&mut shim).await, ShimEvent::Closed);
}

#[tokio::test]
async fn a_flood_does_not_stand_before_a_kill() {
    let bench = Bench::new();
    let (dir, mut shim) = bench.run("yes & yes >&2 & yes").await;
    for _ in 0..50 {
        tokio::time::timeout(TIMEOUT, shim.lengths.changed()).await.unwrap().unwrap();
    }
    let report = shim.control.kill_tree().await.unwrap();
    assert!(report.survivors.is_empty(), "{report:?}");
    ended(&dir, &mut shim).await;
}

#[tokio::test]
async fn a_stopped_leader_gets_to_handle_a_soft_signal() {
    let bench = Bench::new();
    let script = "trap 'echo caught; exit 33' INT; echo ready; kill -STOP $$; \
                  while :; do sleep 0.01; done";
    let (dir, mut shim) = bench.run(script).await;
    lines(&dir, 1).await;
    let leader = shim.started.pid;
    until("it is stopped", || proc::Stat::of(leader).is_some_and(|stat| stat.state == b'T')).await;
    assert!(shim.control.signal(Target::Leader, Signal::SIGINT).await.unwrap() > 0);
    assert_eq!(ended(&dir, &mut shim).await.exit_code, Some(33));
    assert!(held(&dir, Stream::Stdout).ends_with(b"caught\n"));
}

#[tokio::test]
async fn a_soft_signal_to_the_tree_reaches_other_sessions() {
    let bench = Bench::new();
    let script = "setsid sh -c 'trap \"echo bye; exit\" TERM; echo up; \
                  while :; do sleep 0.01; done' & wait; wait";
    let (dir, mut shim) = bench.run(script).await;
    lines(&dir, 1).await;
    assert!(shim.control.signal(Target::Tree, Signal::SIGTERM).await.unwrap() >= 2);
    let record = ended(&dir, &mut shim).await;
    assert_eq!(record.exit_signal, Some(15));
    assert!(held(&dir, Stream::Stdout).ends_with(b"bye\n"));
}

#[tokio::test]
async fn another_process_of_the_same_attempt_lives_on() {
    let bench = Bench::new();
    let (_, server) = bench.run("cat").await;
    let (_, shim) = bench.run("cat").await;
    shim.control.kill_tree().await.unwrap();
    let server_process = Process::of(server.started.pid).unwrap();
    server.control.ping().await.unwrap();
    assert!(server_process.is_alive());
    server.control.kill_tree().await.unwrap();
}

#[tokio::test]
async fn a_fork_bomb_under_a_limit_is_put_out() {
    // Only another user's limit counts, and only the superuser can become one.
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let bench = Bench::new();
    let bomb = "import os, resource\n\
                os.setgid(61234); os.setuid(61234)\n\
                resource.setrlimit(resource.RLIMIT_NPROC, (200, 200))\n\
                os.write(1, b'up\\n')\n\
                while True:\n\
                \x20   try: os.fork()\n\
                \x20   except OSError: pass\n";
    let (dir, mut manifest) = bench.script("");
    manifest.program = "/usr/bin/env".into();
    manifest.args = vec!["python3".into(), "-c".into(), bomb.into()];
    let mut shim = bench.spawn(&dir, &manifest, None).await.unwrap();
    lines(&dir, 1).await;
    let report = shim.control.kill_tree().await.unwrap();
    assert!(report.survivors.is_empty(), "{report:?}");
    let record = ended(&dir, &mut shim).await;
    assert_eq!(record.exit_signal, Some(std::process::ExitStatus::from_raw(9).signal().unwrap()));
}
