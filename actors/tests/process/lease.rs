//! Shims under a lease: what runs stands still when it is late, goes on when it is renewed, and is
//! killed when the host was given up.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::libc::SIGKILL;
use nix::sys::signal::Signal;
use provost_actors::event::Stream;
use provost_actors::limits::{Limits, OnLeaseLate};
use provost_actors::process::identity::Process;
use provost_actors::process::lease::{self, Lease};
use provost_actors::process::proc::{self, Stat};
use provost_actors::process::records::{self, Manifest, StdinSource};
use provost_actors::process::{Adopted, ShimEvent, Target};

use crate::kill::torture;
use crate::rescue::{alone, kill_shim, rescue, shim_of};
use crate::support::{Bench, ended, event, exited, held, lines, until};

const LONG: Duration = Duration::from_mins(10);
const TICKS: &str = "while :; do echo tick; sleep 0.02; done";

/// A bench whose host has a lease for long.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.shims.start_under(Lease::open(bench.root.path().join("lease")).unwrap());
    renew(&bench);
    bench
}

fn renew(bench: &Bench) {
    bench.shims.lease().unwrap().renewed(lease::now(), LONG).unwrap();
}

/// The lease was renewed last so long ago that it is late.
fn end_lease(bench: &Bench) {
    bench.shims.lease().unwrap().renewed(0, Duration::ZERO).unwrap();
}

/// Has the shim look at the lease now.
async fn look(bench: &Bench, dir: &std::path::Path) {
    bench.shims.adopt(dir).await.unwrap();
}

/// Whether it is stopped. A shell that was stopped in vfork(2) is in state D until its child, which is
/// stopped too, runs its command.
fn stands_still(process: Process) -> bool {
    let state = |pid| Stat::of(pid).map(|stat| stat.state);
    let stopped_child =
        || proc::children(process.pid).into_iter().any(|child| state(child) == Some(b'T'));
    let is_stopped = match state(process.pid) {
        Some(b'T') => true,
        Some(b'D') => stopped_child(),
        _ => false,
    };
    process.is_alive() && is_stopped
}

#[tokio::test]
async fn a_tree_of_every_kind_stands_still_while_the_lease_is_late_and_then_goes_on() {
    let bench = bench();
    let (dir, shim, tree) = torture(&bench).await;
    let stopped_itself = |process: &&Process| stands_still(**process);
    until("one has stopped itself", || tree.iter().any(|it| stands_still(*it))).await;
    let before: Vec<Process> = tree.iter().filter(stopped_itself).copied().collect();
    assert_eq!(before.len(), 1);
    end_lease(&bench);
    look(&bench, &dir).await;
    until("all stand still", || tree.iter().all(|it| stands_still(*it))).await;
    // One that is continued from outside is stopped again.
    for process in &tree {
        process.signal(nix::libc::SIGCONT);
    }
    until("all stand still again", || tree.iter().all(|it| stands_still(*it))).await;
    renew(&bench);
    let goes_on = |it: &Process| !stands_still(*it) && it.is_alive();
    until("all go on", || tree.iter().all(|it| goes_on(it) || before.contains(it))).await;
    drop(shim);
}

#[tokio::test]
async fn what_was_stopped_before_is_not_continued() {
    let bench = bench();
    let (dir, _shim) = bench.run("sh -c 'kill -STOP $$' & echo $!; wait").await;
    let child = Process::of(lines(&dir, 1).await[0].parse().unwrap()).unwrap();
    until("it has stopped itself", || stands_still(child)).await;
    end_lease(&bench);
    look(&bench, &dir).await;
    assert!(dir.join("frozen.json").exists());
    renew(&bench);
    until("the tree goes on", || !dir.join("frozen.json").exists()).await;
    assert!(stands_still(child));
}

#[tokio::test]
async fn a_shim_notices_by_itself_and_the_executor_goes_on_where_it_was() {
    let bench = bench();
    let lease = bench.shims.lease().unwrap();
    let (dir, manifest) = bench.script(TICKS);
    // It has begun within five sixths of that.
    lease.renewed(lease::now(), Duration::from_secs(6)).unwrap();
    let mut shim = bench.spawn(&dir, &manifest, None).await.unwrap();
    lines(&dir, 3).await;
    assert_eq!(event(&mut shim).await, ShimEvent::Frozen(true));
    let leader = shim.started.process();
    until("it stands still", || stands_still(leader)).await;
    let shim_of_it = shim_of(&shim.started);
    renew(&bench);
    assert_eq!(event(&mut shim).await, ShimEvent::Frozen(false));
    let seen = held(&dir, Stream::Stdout).len();
    until("it goes on", || held(&dir, Stream::Stdout).len() > seen).await;
    assert_eq!(shim_of(&shim.started), shim_of_it);
}

#[tokio::test]
async fn a_frozen_tree_can_be_stopped_and_what_is_asked_of_it_waits() {
    let bench = bench();
    let script = "trap 'echo caught; exit 33' INT; echo up; while :; do sleep 0.01; done";
    let (dir, mut shim) = bench.run(script).await;
    lines(&dir, 1).await;
    end_lease(&bench);
    look(&bench, &dir).await;
    assert_eq!(event(&mut shim).await, ShimEvent::Frozen(true));
    let leader = shim.started.process();
    shim.control.signal(Target::Leader, Signal::SIGINT).await.unwrap();
    shim.control.signal(Target::Tree, Signal::SIGTERM).await.unwrap();
    // A process that waits for a processor takes its SIGSTOP only when it gets one.
    until("it stands still", || stands_still(leader)).await;
    let report = shim.control.kill_tree().await.unwrap();
    assert!(report.survivors.is_empty(), "{report:?}");
    assert_eq!(ended(&dir, &mut shim).await.exit_signal, Some(SIGKILL));
    assert_eq!(held(&dir, Stream::Stdout), b"up\n");
}

#[tokio::test]
async fn a_shim_that_takes_over_a_frozen_tree_lets_it_go_on() {
    let _turn = alone().await;
    let bench = bench();
    let (dir, mut shim) =
        bench.run("echo up; while [ ! -e gate ]; do sleep 0.02; done; exit 7").await;
    lines(&dir, 1).await;
    end_lease(&bench);
    look(&bench, &dir).await;
    let leader = shim.started.process();
    until("it stands still", || stands_still(leader)).await;
    let first = shim_of(&shim.started);
    kill_shim(&mut shim, first).await;
    let mut shim = rescue(&bench, &dir, shim).await;
    until("it still stands still", || stands_still(leader)).await;
    renew(&bench);
    until("it goes on", || leader.is_alive() && !stands_still(leader)).await;
    fs::write(bench.root.path().join("gate"), "").unwrap();
    // No kill: orphans of other tests' shims may count as its own.
    assert_eq!(exited(&mut shim).await.exit_code, Some(7));
}

#[tokio::test]
async fn time_that_a_tree_stands_still_counts_for_no_limit_even_after_a_rescue() {
    let _turn = alone().await;
    let bench = bench();
    let (dir, manifest) = bench.script("echo up; read line; echo $line; sleep 0.1; exit 4");
    let limits = Limits { wall_secs: 4, ..Limits::default() };
    let mut shim = bench.spawn(&dir, &Manifest { limits, ..manifest }, None).await.unwrap();
    lines(&dir, 1).await;
    end_lease(&bench);
    look(&bench, &dir).await;
    let begun = lease::now();
    until("more than the limit is over", || lease::now() > begun + 5_000_000_000).await;
    renew(&bench);
    while event(&mut shim).await != ShimEvent::Frozen(false) {}
    let first = shim_of(&shim.started);
    kill_shim(&mut shim, first).await;
    let mut shim = rescue(&bench, &dir, shim).await;
    shim.control.write_stdin(b"on\n".to_vec()).await.unwrap();
    let record = exited(&mut shim).await;
    assert_eq!((record.exit_code, record.limit), (Some(4), None));
}

#[tokio::test]
async fn a_late_lease_kills_what_is_to_be_killed_and_leaves_what_is_to_run_on() {
    let bench = bench();
    let with = |on_lease_late| {
        let (dir, manifest) = bench.script(TICKS);
        (dir, Manifest { on_lease_late, ..manifest })
    };
    let (killed_in, manifest) = with(OnLeaseLate::Kill);
    let mut killed = bench.spawn(&killed_in, &manifest, None).await.unwrap();
    let (left_in, manifest) = with(OnLeaseLate::RunOn);
    let mut left = bench.spawn(&left_in, &manifest, None).await.unwrap();
    end_lease(&bench);
    for dir in [&killed_in, &left_in] {
        look(&bench, dir).await;
    }
    let record = ended(&killed_in, &mut killed).await;
    assert_eq!(record.exit_signal, Some(SIGKILL));
    assert!(record.limit.unwrap().contains("on_lease_late"));
    let seen = held(&left_in, Stream::Stdout).len();
    until("it runs on", || held(&left_in, Stream::Stdout).len() > seen).await;
    // A host that was given up keeps nothing.
    bench.shims.lease().unwrap().fence().unwrap();
    look(&bench, &left_in).await;
    let record = ended(&left_in, &mut left).await;
    assert!(record.limit.unwrap().contains("given up"));
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test starts a shim by itself")]
async fn nothing_is_started_before_the_lease_is_good() {
    let bench = bench();
    end_lease(&bench);
    let (dir, manifest) = bench.script("echo ran");
    let begun = async {
        tokio::select! {
            started = bench.spawn(&dir, &manifest, None) => panic!("{started:?}"),
            () = tokio::time::sleep(Duration::from_millis(300)) => {}
        }
    };
    begun.await;
    assert!(!dir.exists(), "it waits");
    // A shim that is on its way when the lease ends refuses.
    let late = bench.shims.lease().unwrap().under();
    let manifest = Manifest { lease: Some(late), stdin: StdinSource::Empty, ..manifest };
    fs::create_dir(&dir).unwrap();
    records::write_durably(&dir, Manifest::FILE, &manifest).unwrap();
    let mut shim = Command::new(env!("CARGO_BIN_EXE_provost-test-shim"));
    shim.arg("__shim").current_dir(&dir).stdin(Stdio::null());
    let said = String::from_utf8(shim.output().unwrap().stdout).unwrap();
    assert!(said.starts_with("err the lease of this host is late"), "{said}");
    assert!(held(&dir, Stream::Stdout).is_empty());
}

#[tokio::test]
async fn what_runs_in_a_deleted_folder_is_killed_although_it_has_no_marker() {
    let _turn = alone().await;
    let bench = bench();
    let (_, manifest) = bench.script("exec env -i sleep 600");
    let dir = bench.root.path().join(bench.attempt.to_string());
    let dir = dir.join(manifest.process_id.to_string());
    let shim = bench.spawn(&dir, &manifest, None).await.unwrap();
    let leader = shim.started.process();
    until("it has no marker", || proc::environ(leader.pid).is_empty()).await;
    let shim_of_it = shim_of(&shim.started);
    fs::remove_dir_all(&dir).unwrap();
    bench.shims.end_stale(&dir).await.unwrap();
    assert!(!leader.is_alive() && !shim_of_it.is_alive());
}

#[tokio::test]
async fn what_another_host_has_is_killed_with_and_without_its_shim() {
    let _turn = alone().await;
    let bench = bench();
    let home = bench.root.path().to_owned();
    let folder = |manifest: &Manifest| {
        home.join("attempts").join(bench.attempt.to_string()).join(manifest.process_id.to_string())
    };
    let mut shims = Vec::new();
    for _ in 0..3 {
        let (_, manifest) = bench.script(TICKS);
        let dir = folder(&manifest);
        shims.push((dir.clone(), bench.spawn(&dir, &manifest, None).await.unwrap()));
    }
    let alive = bench.shims.alive_below(&[home.join("attempts")]).await.unwrap();
    assert_eq!(alive.len(), 3, "{alive:?}");
    let leaders: Vec<Process> = shims.iter().map(|(_, shim)| shim.started.process()).collect();
    // One has lost its shim, and one its shim hangs.
    let first = shim_of(&shims[0].1.started);
    kill_shim(&mut shims[0].1, first).await;
    assert!(shim_of(&shims[1].1.started).signal(nix::libc::SIGSTOP));
    for dir in &alive {
        bench.shims.end_stale(dir).await.unwrap();
    }
    assert!(leaders.iter().all(|leader| !leader.is_alive()));
    for (dir, _) in shims {
        until("it has a record", || dir.join("exit.json").exists()).await;
        assert!(matches!(bench.shims.adopt(&dir).await.unwrap(), Adopted::Ended(_)));
    }
}
