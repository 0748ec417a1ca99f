//! Every byte, in order, on both streams; full disks; memory.

use std::fmt::Write;
use std::fs;
use std::ops::Range;
use std::path::Path;

use provost_actors::event::Stream;
use provost_actors::log::spool::format::{segment_bytes, segments};
use provost_actors::process::ShimEvent;
use provost_actors::process::proc::Stat;
use provost_actors::process::records::Manifest;

use crate::support::{Bench, covered, ended, event, exited, held, lines, spooled, until};

pub fn numbered(prefix: &str, numbers: Range<u32>) -> String {
    let mut text = String::new();
    for number in numbers {
        writeln!(text, "{prefix}{number}").unwrap();
    }
    text
}

#[tokio::test]
async fn every_line_of_a_flood_is_held_and_recorded() {
    let bench = Bench::new();
    let script = "i=0; while [ $i -lt 50000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done";
    let (dir, mut shim) = bench.run(script).await;
    let record = ended(&dir, &mut shim).await;
    for (stream, name, bytes) in
        [(Stream::Stdout, "out", record.stdout_bytes), (Stream::Stderr, "err", record.stderr_bytes)]
    {
        let expected = numbered(&format!("{name} "), 0..50_000);
        assert!(held(&dir, stream) == expected.as_bytes());
        assert_eq!(covered(&dir, stream), bytes);
        assert_eq!(bytes, expected.len() as u64);
    }
}

#[tokio::test]
async fn giant_lines_and_any_bytes_are_held_as_they_came() {
    let bench = Bench::new();
    let script = "head -c 20000000 /dev/zero; head -c 3000000 /dev/urandom | tee copy; exit 9";
    let (dir, mut shim) = bench.run(script).await;
    assert_eq!(ended(&dir, &mut shim).await.exit_code, Some(9));
    let held = held(&dir, Stream::Stdout);
    let (zeros, random) = held.split_at(20_000_000);
    assert!(zeros.iter().all(|&byte| byte == 0));
    assert!(random == fs::read(bench.root.path().join("copy")).unwrap());
}

#[tokio::test]
async fn the_oldest_segments_go_when_there_are_too_many_bytes() {
    let bench = Bench::new();
    let (dir, manifest) = bench.script("seq 1 300000");
    let limit = 512 * 1024;
    let manifest = Manifest { spool_max_bytes: limit, ..manifest };
    let mut shim = bench.spawn(&dir, &manifest, None).await.unwrap();
    let record = ended(&dir, &mut shim).await;
    let expected = numbered("", 1..300_001);
    let held = held(&dir, Stream::Stdout);
    let starts = segments(&dir, Stream::Stdout).unwrap();
    assert!(expected.as_bytes().ends_with(&held));
    assert!(held.len() as u64 <= limit && held.len() as u64 > limit / 2);
    assert!(starts.iter().all(|start| start % segment_bytes(limit) == 0));
    assert_eq!(starts[0] + held.len() as u64, record.stdout_bytes);
    assert_eq!(record.stdout_bytes, expected.len() as u64);
}

#[tokio::test]
async fn a_shim_stays_small_with_an_executor_at_work() {
    let bench = Bench::new();
    let script = "head -c 30000000 /dev/zero; head -c 1000000 /dev/zero >&2; cat >/dev/null";
    let (dir, shim) = bench.run(script).await;
    shim.control.write_stdin(vec![b'x'; 4 << 20]).await.unwrap();
    until("all is spooled", || spooled(&dir, Stream::Stderr) == 1_000_000).await;
    let shim_pid = Stat::of(shim.started.pid).unwrap().ppid;
    // What it was given for the executor's stdin it holds until that is read.
    until("it is small", || private_kib(shim_pid) <= 3 * 1024).await;
    shim.control.kill_tree().await.unwrap();
}

pub fn private_kib(pid: i32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let value =
        |line: &str| line.split_ascii_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok());
    rollup.lines().filter(|line| line.starts_with("Private_")).filter_map(value).sum::<u64>()
}

/// A file system of its own, so small that it fills. `None` without the right to mount.
pub struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    pub fn mount(at: &'a Path) -> Option<Self> {
        let mounted = mount_tool("mount", &["-t", "tmpfs", "-o", "size=2m", "none"], at);
        mounted.then_some(Self(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        mount_tool("umount", &["-l"], self.0);
    }
}

#[expect(clippy::disallowed_methods, reason = "the test's own tool")]
fn mount_tool(tool: &str, arguments: &[&str], at: &Path) -> bool {
    let mut command = std::process::Command::new(tool);
    command.args(arguments).arg(at).output().is_ok_and(|output| output.status.success())
}

#[tokio::test]
async fn on_a_full_disk_the_executor_waits_and_nothing_is_lost() {
    let disk = tempfile::tempdir().unwrap();
    let Some(_mounted) = SmallDisk::mount(disk.path()) else { return };
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![0; 1 << 20]).unwrap();

    let bench = Bench::new();
    let (_, manifest) = bench.script("seq 1 230000; exit 8");
    let dir = disk.path().join("process");
    let mut shim = bench.spawn(&dir, &manifest, None).await.unwrap();
    let ShimEvent::Stalled(reason) = event(&mut shim).await else { panic!("not stalled") };
    assert!(reason.contains("No space"), "{reason}");
    shim.control.ping().await.unwrap();
    fs::remove_file(&ballast).unwrap();

    let record = ended_after_stalls(&mut shim).await;
    assert_eq!(record, Some(8));
    let expected = numbered("", 1..230_001);
    assert!(held(&dir, Stream::Stdout) == expected.as_bytes());
    assert_eq!(covered(&dir, Stream::Stdout), expected.len() as u64);
}

pub async fn ended_after_stalls(shim: &mut provost_actors::process::Shim) -> Option<i32> {
    let record = exited(shim).await;
    assert!(record.exit_code.is_some(), "{record:?}");
    while event(shim).await != ShimEvent::Closed {}
    record.exit_code
}

#[tokio::test]
async fn lines_come_to_the_spool_while_their_process_runs() {
    let bench = Bench::new();
    let (dir, shim) = bench.run("echo one; read line; echo two; read line").await;
    assert_eq!(lines(&dir, 1).await, ["one"]);
    shim.control.write_stdin(b"\n".to_vec()).await.unwrap();
    assert_eq!(lines(&dir, 2).await, ["one", "two"]);
    shim.control.kill_tree().await.unwrap();
}
