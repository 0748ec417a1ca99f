//! What processes hold in memory, and files on disk.

use std::fs;
use std::path::Path;

/// KiB of one process or the sum of some, from `/proc/PID/smaps_rollup` (proc(5)).
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Its share of what it shares counted in.
    pub proportional: u64,
    pub private: u64,
    /// What can't be read again from a file: the private memory without the program's own pages.
    pub dirty: u64,
}

impl Memory {
    /// Nothing, if it is gone.
    pub fn of(pid: i32) -> Self {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let field = |name: &str| -> u64 {
            let mut lines = rollup.lines().filter_map(|line| line.strip_prefix(name));
            let number = lines.next().and_then(|rest| rest.split_ascii_whitespace().next());
            number.and_then(|number| number.parse().ok()).unwrap_or(0)
        };
        Self {
            proportional: field("Pss:"),
            private: field("Private_Dirty:") + field("Private_Clean:"),
            dirty: field("Private_Dirty:"),
        }
    }

    pub fn sum(pids: &[i32]) -> Self {
        pids.iter().map(|pid| Self::of(*pid)).fold(Self::default(), |sum, one| Self {
            proportional: sum.proportional + one.proportional,
            private: sum.private + one.private,
            dirty: sum.dirty + one.dirty,
        })
    }
}

/// The shims of a home, which work in folders of their processes.
pub fn shims(home: &Path) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_shim = |pid: &i32| {
        let cwd = fs::read_link(format!("/proc/{pid}/cwd"));
        cwd.is_ok_and(|cwd| cwd.starts_with(home.join("attempts")))
    };
    pids.filter(is_shim).collect()
}

/// How many files a process has open.
pub fn open_files(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().count()
}

/// Bytes of the database with what belongs to it.
pub fn database(home: &Path) -> u64 {
    ["provost.db", "provost.db-wal", "provost.db-shm"]
        .iter()
        .filter_map(|name| Some(fs::metadata(home.join(name)).ok()?.len()))
        .sum()
}

/// Bytes of all files below a folder.
pub fn below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => below(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}
