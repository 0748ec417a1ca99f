//! Processes as `/proc` shows them. A process is recognized by a variable in its
//! environment, which all that it starts inherit.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::wait_until;

/// The living processes whose environment has this variable. The dead that
/// no process has reaped yet have no environment any more.
pub fn with_variable(name: &str, value: &str) -> Vec<i32> {
    let wanted = format!("{name}={value}").into_bytes();
    let has = |pid: &i32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|variable| variable == wanted)
    };
    all().into_iter().filter(has).collect()
}

/// The living processes whose working folder this is.
pub fn working_in(dir: &Path) -> Vec<i32> {
    working_where(|cwd| cwd == dir)
}

/// The living processes that work somewhere below a folder.
pub fn working_below(dir: &Path) -> Vec<i32> {
    working_where(|cwd| cwd.starts_with(dir))
}

fn working_where(is_there: impl Fn(&Path) -> bool) -> Vec<i32> {
    let works =
        |pid: &i32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| is_there(&cwd));
    all().into_iter().filter(works).collect()
}

fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Its parent; `None` once it is dead.
pub fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X");
    fields.next()?.parse().ok().filter(|_| !is_dead)
}

/// The living children of a process.
pub fn children(of: i32) -> Vec<i32> {
    all().into_iter().filter(|pid| parent(*pid) == Some(of)).collect()
}

pub fn is_alive(pid: i32) -> bool {
    parent(pid).is_some()
}

/// Its state, a letter of proc_pid_stat(5); `None` when there is no such process.
pub fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Whether it is stopped with all below it. A shell that was stopped in vfork(2) is in state D until its
/// child, which is stopped too, runs its command.
pub fn stands_still(pid: i32) -> bool {
    let below = children(pid);
    let is_stopped = match state(pid) {
        Some('T') => true,
        Some('D') => !below.is_empty(),
        _ => false,
    };
    is_stopped && below.into_iter().all(stands_still)
}

/// The dead that a parent has not reaped.
pub fn zombies_of(parent: i32) -> usize {
    let is_zombie = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).trim_start();
        fields.starts_with(&format!("Z {parent} "))
    };
    all().iter().filter(|pid| is_zombie(pid)).count()
}

/// Its processor time so far, in clock ticks, mostly of 10 ms.
pub fn ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// The largest its resident memory has been, in KiB.
pub fn peak_memory(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

/// How many files it has open. The database's aren't counted: they are as many as
/// its pool has connections, which opens one when all others are busy and keeps it.
pub fn open_files(pid: i32) -> usize {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    targets.filter(|target| !target.to_string_lossy().contains("/provost.db")).count()
}

/// The name of its program, 15 bytes at most.
pub fn name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// Kills, and waits until it is dead.
pub fn kill_hard(pid: i32) {
    signal(pid, Signal::SIGKILL);
    wait_until("a killed process is dead", || !is_alive(pid));
}

/// One that has ended meanwhile needs no signal.
pub fn signal(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}

/// Kills all that have the variable, and those that they start meanwhile.
pub fn kill_all_with(name: &str, value: &str) {
    kill_all(|| with_variable(name, value));
}

/// Kills all that work somewhere below a folder.
pub fn kill_all_below(dir: &Path) {
    kill_all(|| working_below(dir));
}

fn kill_all(find: impl Fn() -> Vec<i32>) {
    wait_until("the processes of a test are dead", || {
        let left = find();
        for pid in &left {
            signal(*pid, Signal::SIGKILL);
        }
        left.is_empty()
    });
}
