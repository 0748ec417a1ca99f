//! Shims that die: alone, with the daemon, with the leader gone before.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::libc::SIGKILL;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use provost_actors::event::Stream;
use provost_actors::process::Adopted;
use provost_actors::process::identity::Process;
use provost_actors::process::proc::{self, Stat};
use provost_actors::process::records::{ExitRecord, Started};
use provost_actors::process::{LOST, become_subreaper};
use provost_actors::process::{Shim, ShimEvent};
use tokio::sync::{Mutex, MutexGuard};

use crate::kill::torture;
use crate::spool::{SmallDisk, ended_after_stalls, numbered};
use crate::support::{Bench, covered, ended, event, exited, held, lines, spooled, until};

/// Orphans without a marker go to whichever rescue comes first, and all tests
/// here are one process: so one at a time.
pub async fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    become_subreaper().unwrap();
    TURN.lock().await
}

pub fn shim_of(started: &Started) -> Process {
    let parent = Stat::of(started.pid).unwrap().ppid;
    Process::of(parent).unwrap()
}

/// Kills the shim and waits until the connection tells.
pub async fn kill_shim(shim: &mut Shim, process: Process) {
    process.signal(SIGKILL);
    while event(shim).await != ShimEvent::Closed {}
}

pub async fn rescue(bench: &Bench, dir: &Path, shim: Shim) -> Shim {
    match bench.shims.rescue(dir, shim.control).await.unwrap() {
        Adopted::Live(shim) => shim,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_shim_killed_in_a_flood_costs_no_byte_and_no_exit_code() {
    let _turn = alone().await;
    let mut expected = Vec::new();
    for number in 1..=3_000_000 {
        writeln!(expected, "{number}").unwrap();
    }
    for killed_at in [1, 100_000, 1_000_000, 5_000_000] {
        let bench = Bench::new();
        let (dir, mut shim) = bench.run("seq 1 3000000; echo end >&2; read l; exit 21").await;
        until("it is in the flood", || spooled(&dir, Stream::Stdout) >= killed_at).await;
        let first = shim_of(&shim.started);
        kill_shim(&mut shim, first).await;

        let mut shim = rescue(&bench, &dir, shim).await;
        shim.control.write_stdin(b"\n".to_vec()).await.unwrap();
        let record = ended(&dir, &mut shim).await;
        assert_eq!((record.exit_code, record.exit_signal), (Some(21), None));
        assert!(held(&dir, Stream::Stdout) == expected);
        assert_eq!(held(&dir, Stream::Stderr), b"end\n");
        assert_eq!(covered(&dir, Stream::Stdout), record.stdout_bytes);
    }
}

#[tokio::test]
async fn the_status_of_a_leader_whose_end_cannot_be_recorded_outlives_its_shim() {
    let disk = tempfile::tempdir().unwrap();
    let Some(_mounted) = SmallDisk::mount(disk.path()) else { return };
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![0; 1 << 20]).unwrap();

    let _turn = alone().await;
    let bench = Bench::new();
    // What the disk does not hold is in the pipe.
    let (_, manifest) = bench.script("seq 1 170000; exit 8");
    let dir = disk.path().join("process");
    let mut shim = bench.spawn(&dir, &manifest, None).await.unwrap();
    let (leader, pid) = (shim.started.process(), shim_of(&shim.started));
    until("it has ended", || !leader.is_alive()).await;
    assert!(leader.holds_its_pid(), "it is reaped before its end is on disk");
    kill_shim(&mut shim, pid).await;
    let mut shim = rescue(&bench, &dir, shim).await;
    fs::remove_file(&ballast).unwrap();
    assert_eq!(ended_after_stalls(&mut shim).await, Some(8));
    let expected = numbered("", 1..170_001);
    assert!(held(&dir, Stream::Stdout) == expected.as_bytes());
}

#[tokio::test]
async fn a_rescued_executor_is_talked_to_as_before() {
    let _turn = alone().await;
    let bench = Bench::new();
    let (dir, mut shim) = bench.run("while read l; do echo got $l; done; exit 4").await;
    for (round, text) in ["one\n", "two\n", "three\n"].into_iter().enumerate() {
        let sequence = shim.control.write_stdin(text.into()).await.unwrap();
        assert_eq!(sequence, round as u64 + 1);
        lines(&dir, round + 1).await;
        // The second and third of these shims are rescuers themselves.
        let pid = shim_pid(&dir);
        kill_shim(&mut shim, pid).await;
        shim = rescue(&bench, &dir, shim).await;
    }
    shim.control.close_stdin().await.unwrap();
    let record = ended(&dir, &mut shim).await;
    assert_eq!((record.exit_code, record.reason), (Some(4), None));
    assert_eq!(held(&dir, Stream::Stdout), b"got one\ngot two\ngot three\n");
}

/// The process that holds a folder as its working folder: its shim.
pub fn shim_pid(dir: &Path) -> Process {
    shim_of_folder(dir).unwrap()
}

fn shim_of_folder(dir: &Path) -> Option<Process> {
    let is_there =
        |pid: &i32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == dir);
    proc::all().into_iter().filter(is_there).find_map(Process::of)
}

#[tokio::test]
async fn a_rescued_executor_outlives_the_daemons_connection() {
    let _turn = alone().await;
    let bench = Bench::new();
    let (dir, mut shim) = bench.run("read line; echo $line; kill -TERM $$").await;
    let first = shim_of(&shim.started);
    kill_shim(&mut shim, first).await;
    drop(rescue(&bench, &dir, shim).await);
    let Adopted::Live(mut shim) = bench.shims.adopt(&dir).await.unwrap() else { panic!() };
    shim.control.write_stdin(b"still here\n".to_vec()).await.unwrap();
    assert_eq!(ended(&dir, &mut shim).await.exit_signal, Some(15));
    assert_eq!(held(&dir, Stream::Stdout), b"still here\n");
}

#[tokio::test]
async fn no_process_of_a_rescued_tree_gets_away() {
    let _turn = alone().await;
    let bench = Bench::new();
    let (dir, mut shim, tree): (PathBuf, Shim, Vec<Process>) = torture(&bench).await;
    let first = shim_of(&shim.started);
    kill_shim(&mut shim, first).await;
    assert!(tree.iter().all(|process| process.is_alive()));

    let mut shim = rescue(&bench, &dir, shim).await;
    let report = shim.control.kill_tree().await.unwrap();
    assert!(report.survivors.is_empty(), "{report:?}");
    let alive: Vec<_> = tree.iter().filter(|process| process.is_alive()).collect();
    assert!(alive.is_empty(), "{alive:?}");
    assert_eq!(ended(&dir, &mut shim).await.exit_signal, Some(9));
    until("the strays are reaped", || {
        bench.shims.reap_strays();
        tree.iter().all(|process| !process.holds_its_pid())
    })
    .await;
}

#[tokio::test]
async fn leftovers_are_rescued_after_their_leaders_end() {
    let _turn = alone().await;
    let bench = Bench::new();
    let script = "setsid sh -c 'echo up; while :; do sleep 0.01; done' & read line; exit 2";
    let (dir, mut shim) = bench.run(script).await;
    lines(&dir, 1).await;
    let first = shim_of(&shim.started);
    shim.control.write_stdin(b"\n".to_vec()).await.unwrap();
    let record = exited(&mut shim).await;
    kill_shim(&mut shim, first).await;

    let mut shim = rescue(&bench, &dir, shim).await;
    assert_eq!(event(&mut shim).await, ShimEvent::Exited(record.clone()));
    assert!(shim.control.kill_tree().await.unwrap().signalled >= 1);
    assert_eq!(event(&mut shim).await, ShimEvent::Closed);
    let settled = bench.shims.rescue(&dir, shim.control).await.unwrap();
    assert!(matches!(settled, Adopted::Ended(known) if known == record));
}

#[tokio::test]
async fn what_neither_shim_nor_daemon_held_is_swept_away() {
    let _turn = alone().await;
    let bench = Bench::new();
    let (dir, shim, tree) = torture(&bench).await;
    let (first, started) = (shim_of(&shim.started), shim.started.pid);
    drop(shim);
    first.signal(SIGKILL);
    until("the shim is gone", || !first.holds_its_pid() || !first.is_alive()).await;

    let Adopted::Lost { leader } = bench.shims.adopt(&dir).await.unwrap() else { panic!() };
    assert_eq!(leader.pid, started);
    let swept = bench.shims.sweep(&dir, LOST).await.unwrap();
    assert!(swept.report.survivors.is_empty(), "{swept:?}");
    assert_eq!(swept.record.reason.as_deref(), Some(LOST));
    assert_eq!(covered(&dir, Stream::Stdout), swept.record.stdout_bytes);
    // One that gave up its environment, its session and its parent can't be told from others.
    let alive = tree.iter().filter(|process| process.is_alive()).count();
    assert!(alive <= 1, "{alive} live on");

    let Adopted::Ended(record) = bench.shims.adopt(&dir).await.unwrap() else { panic!() };
    let again: ExitRecord = bench.shims.sweep(&dir, LOST).await.unwrap().record;
    assert_eq!((&record, &record), (&swept.record, &again));
}

/// How long a lock is held that is not given back at once.
const A_MOMENT: Duration = Duration::from_millis(200);

/// A process that the daemon spawns holds copies of its open files until the exec.
#[tokio::test]
async fn a_lock_that_is_given_back_a_moment_later_costs_no_start_and_no_rescue() {
    let _turn = alone().await;
    let bench = Bench::new();
    let (dir, manifest) = bench.script("read l; exit 6");
    fs::create_dir(&dir).unwrap();
    let lock = fs::File::create(dir.join("lock")).unwrap();
    lock.lock().unwrap();
    let start = bench.spawn(&dir, &manifest, None);
    let (shim, ()) = tokio::join!(start, async {
        until("a shim is there", || shim_of_folder(&dir).is_some()).await;
        tokio::time::sleep(A_MOMENT).await;
        drop(lock);
    });
    let mut shim = shim.unwrap();

    kill_shim(&mut shim, shim_pid(&dir)).await;
    let lock = fs::File::open(dir.join("lock")).unwrap();
    lock.lock().unwrap();
    let (mut shim, ()) = tokio::join!(rescue(&bench, &dir, shim), async {
        tokio::time::sleep(A_MOMENT).await;
        drop(lock);
    });
    shim.control.write_stdin(b"\n".to_vec()).await.unwrap();
    assert_eq!(ended(&dir, &mut shim).await.exit_code, Some(6));
}

#[tokio::test]
async fn a_message_that_waits_in_a_shim_can_be_sent_again_although_the_daemon_restarted() {
    let _turn = alone().await;
    let bench = Bench::new();
    let (dir, shim) = bench.run("while [ ! -e gate ]; do sleep 0.02; done; cat").await;
    // The first one fills the pipe, so nothing of the second one is in it.
    let first = [b"x".repeat(65_535), b"\n".to_vec()].concat();
    assert_eq!(shim.control.write_stdin(first.clone()).await, Ok(1));
    let mut second = Box::pin(shim.control.write_stdin(b"second\n".to_vec()));
    tokio::select! {
        biased;
        written = &mut second => panic!("{written:?}"),
        received = shim.control.ping() => received.unwrap(),
    }
    drop(second);
    drop(shim);

    let Adopted::Live(mut shim) = bench.shims.adopt(&dir).await.unwrap() else { panic!() };
    assert_eq!((shim.control.stdin_sequence(), shim.control.stdin_received()), (1, 2));
    kill_shim(&mut shim, shim_pid(&dir)).await;
    let mut shim = rescue(&bench, &dir, shim).await;
    assert_eq!(shim.control.stdin_received(), 1);
    fs::write(bench.root.path().join("gate"), "").unwrap();
    assert_eq!(shim.control.write_stdin(b"second\n".to_vec()).await, Ok(2));
    shim.control.close_stdin().await.unwrap();
    assert_eq!(ended(&dir, &mut shim).await.exit_code, Some(0));
    assert!(held(&dir, Stream::Stdout) == [first, b"second\n".to_vec()].concat());
}

#[tokio::test]
async fn a_rescue_that_fails_at_first_is_tried_again_and_breaks_no_pipe() {
    let _turn = alone().await;
    let bench = Bench::new();
    let (dir, mut shim) = bench.run("read l; echo $l; exit 3").await;
    kill_shim(&mut shim, shim_pid(&dir)).await;
    let record = dir.join("exit.json");
    mkfifo(&record, Mode::S_IRWXU).unwrap();
    let spoil = tokio::task::spawn_blocking(move || {
        // The open returns once the first try reads, which gets no JSON. The next one finds no record.
        let mut pipe = fs::File::options().write(true).open(&record).unwrap();
        fs::remove_file(&record).unwrap();
        pipe.write_all(b"{").unwrap();
    });
    let mut shim = rescue(&bench, &dir, shim).await;
    spoil.await.unwrap();
    shim.control.write_stdin(b"still here\n".to_vec()).await.unwrap();
    assert_eq!(ended(&dir, &mut shim).await.exit_code, Some(3));
    assert_eq!(held(&dir, Stream::Stdout), b"still here\n");
}

#[tokio::test]
async fn how_a_leader_ended_is_known_although_it_was_reaped_before_its_rescue() {
    let _turn = alone().await;
    let bench = Bench::new();
    let (dir, mut shim) = bench.run("read l; exit 9").await;
    let leader = Process::of(shim.started.pid).unwrap();
    kill_shim(&mut shim, shim_pid(&dir)).await;
    leader.signal(SIGKILL);
    until("the leader is reaped", || {
        bench.shims.reap_strays();
        !leader.holds_its_pid()
    })
    .await;
    match bench.shims.rescue(&dir, shim.control).await.unwrap() {
        Adopted::Live(mut shim) => {
            assert_eq!(ended(&dir, &mut shim).await.exit_signal, Some(SIGKILL));
        }
        Adopted::Ended(record) => assert_eq!(record.exit_signal, Some(SIGKILL)),
        other => panic!("{other:?}"),
    }
}
