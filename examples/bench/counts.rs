//! What processes have asked of the kernel so far: counts, which the load of a machine does not
//! change as it changes times.

use std::fs;
use std::path::Path;

use crate::Result;

/// How often all threads of these processes have gone to sleep (`voluntary_ctxt_switches` of
/// `proc_pid_status(5)`).
pub fn sleeps(processes: &[i32]) -> u64 {
    let tasks = processes.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
    let of = |task: &Path| number(&task.join("status"), "voluntary_ctxt_switches:");
    tasks.flatten().flatten().filter_map(|task| of(&task.path())).sum()
}

/// How many system calls of these processes have read or written (`syscr` and `syscw` of
/// `proc_pid_io(5)`).
pub fn reads_and_writes(processes: &[i32]) -> u64 {
    let files = processes.iter().map(|pid| format!("/proc/{pid}/io"));
    let of = |file: String| {
        ["syscr:", "syscw:"].map(|name| number(Path::new(&file), name).unwrap_or(0)).iter().sum()
    };
    files.map(of).collect::<Vec<u64>>().iter().sum()
}

/// The number on the line that begins with a name.
fn number(file: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// What some processes have asked of the kernel so far.
pub struct Counts {
    processes: Vec<i32>,
    before: [u64; 2],
}

/// What is counted, in the order of [`Counts::each`].
pub const COUNTED: [&str; 2] = ["sleeps of a thread", "reads and writes"];

impl Counts {
    pub fn begin(processes: Vec<i32>) -> Self {
        let before = Self::now(&processes);
        Self { processes, before }
    }

    fn now(processes: &[i32]) -> [u64; 2] {
        [sleeps(processes), reads_and_writes(processes)]
    }

    /// How much there was since the beginning, for each of so many calls.
    pub fn each(self, calls: u32) -> Result<[f64; 2]> {
        let now = Self::now(&self.processes);
        let each = |which: usize| -> Result<f64> {
            let more = now[which].saturating_sub(self.before[which]);
            Ok(f64::from(u32::try_from(more)?) / f64::from(calls))
        };
        Ok([each(0)?, each(1)?])
    }
}
