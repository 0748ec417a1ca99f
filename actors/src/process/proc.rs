//! What `/proc` shows of processes (proc(5)). Every answer may be out of date when it arrives,
//! so none of them permits a signal.

use std::fs;
use std::io;
use std::path::Path;

/// The first argument of a shim.
pub const ARGUMENT: &str = "__shim";
/// The second argument of a shim that takes over from one that has died.
pub const RESCUE: &str = "rescue";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// One letter: `R`, `S`, `D`, `T`, `Z` …
    pub state: u8,
    pub ppid: i32,
    pub session: i32,
    pub threads: u32,
    /// Processor time of its own and of the children it has waited for, in ticks.
    pub cpu_ticks: u64,
    pub start_time: u64,
}

impl Stat {
    pub fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The command's name may hold `)` and spaces, so fields are counted from the last `)`.
    fn parse(line: &[u8]) -> Option<Self> {
        let after_name = line.iter().rposition(|&byte| byte == b')')? + 1;
        let fields: Vec<&str> =
            str::from_utf8(&line[after_name..]).ok()?.split_ascii_whitespace().collect();
        // fields[0] is the third of proc_pid_stat(5).
        let field = |number: usize| fields.get(number - 3).copied();
        let ticks = |number: usize| field(number)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: ticks(14)? + ticks(15)? + ticks(16)? + ticks(17)?,
            state: *field(3)?.as_bytes().first()?,
            ppid: field(4)?.parse().ok()?,
            session: field(6)?.parse().ok()?,
            threads: field(20)?.parse().ok()?,
            start_time: field(22)?.parse().ok()?,
        })
    }

    /// Its first thread has ended; others may still run, or be dying.
    pub fn has_begun_to_die(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// Dead, if not yet reaped. A process whose first thread has ended while
    /// others run shows `Z` as well, but counts more than that one thread.
    pub fn is_dead(&self) -> bool {
        self.has_begun_to_die() && self.threads <= 1
    }
}

/// Whether a SIGKILL is on its way to a process that has not taken it yet.
pub fn is_being_killed(pid: i32) -> bool {
    const KILL: u64 = 1 << (nix::libc::SIGKILL - 1);
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = |line: &str| {
        let mask = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
    };
    status.lines().filter_map(pending).any(|mask| mask & KILL != 0)
}

/// This boot's id: start times of two boots don't compare.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim_end().to_owned())
}

pub fn all() -> Vec<i32> {
    numbers_in(Path::new("/proc"))
}

pub fn children(pid: i32) -> Vec<i32> {
    let tasks = format!("/proc/{pid}/task");
    let mut children = Vec::new();
    for thread in numbers_in(Path::new(&tasks)) {
        match fs::read_to_string(format!("{tasks}/{thread}/children")) {
            Ok(list) => {
                children
                    .extend(list.split_ascii_whitespace().filter_map(|p| p.parse::<i32>().ok()));
            }
            // A kernel without CONFIG_PROC_CHILDREN; a thread that is gone has no children.
            Err(_) if !Path::new("/proc/thread-self/children").exists() => {
                return children_by_parent(pid);
            }
            Err(_) => {}
        }
    }
    children
}

pub fn real_uid(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    uids.split_ascii_whitespace().next()?.parse().ok()
}

/// A process's environment: `NAME=value` ended by NUL each. Empty if it can't be read.
pub fn environ(pid: i32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
}

pub fn arguments(pid: i32) -> Vec<Vec<u8>> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect()
}

/// Whether the process looks like a shim, of this daemon or another.
pub fn is_shim(pid: i32) -> bool {
    arguments(pid).get(1).is_some_and(|argument| argument == ARGUMENT.as_bytes())
}

pub fn command_name(pid: i32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

fn children_by_parent(parent: i32) -> Vec<i32> {
    let is_child = |pid: &i32| Stat::of(*pid).is_some_and(|stat| stat.ppid == parent);
    all().into_iter().filter(is_child).collect()
}

fn numbers_in(dir: &Path) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_parentheses_and_spaces_hides_no_field() {
        let line = b"77 (a) Z 1 (b) ) S 5 77 70 0 -1 0 0 0 0 0 1 2 3 4 20 0 3 0 4242 0 0";
        let expected = Stat {
            state: b'S',
            ppid: 5,
            session: 70,
            threads: 3,
            cpu_ticks: 1 + 2 + 3 + 4,
            start_time: 4242,
        };
        assert_eq!(Stat::parse(line), Some(expected));
        assert_eq!(Stat::parse(&line[..40]), None);
    }

    #[test]
    fn a_dead_first_thread_is_no_dead_process() {
        let stat =
            Stat { state: b'Z', ppid: 1, session: 1, threads: 2, cpu_ticks: 0, start_time: 0 };
        assert!(!stat.is_dead() && stat.has_begun_to_die());
        assert!(Stat { threads: 1, ..stat }.is_dead());
    }

    #[test]
    fn this_process_is_found_alive() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(all().contains(&own));
        assert!(Stat::of(own).is_some_and(|stat| !stat.is_dead()));
        assert!(!environ(own).is_empty());
        assert_eq!(boot_id().unwrap().len(), 36);
    }
}
