//! The resources that a tree uses, as `/proc` shows them (proc(5)).

use std::fs;
use std::time::Duration;

use rustix::param::{clock_ticks_per_second, page_size};

use super::identity::Process;
use super::proc::{self, Stat};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Also of the dead that they have waited for.
    pub cpu: Duration,
    /// Private bytes in memory: what is shared would be counted twice.
    pub memory: u64,
}

impl Usage {
    pub fn of(processes: &[Process]) -> Self {
        let (tick, page) = (clock_ticks_per_second(), page_size() as u64);
        let mut usage = Self::default();
        for process in processes {
            if let Some(stat) = Stat::of(process.pid) {
                usage.cpu += Duration::from_millis(stat.cpu_ticks * 1000 / tick);
            }
            usage.memory += private_pages(process.pid).unwrap_or(0) * page;
        }
        usage
    }
}

/// Time since a process was started, suspended time included.
pub fn age(process: Process) -> Duration {
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let uptime = uptime.split('.').next().and_then(|secs| secs.parse().ok());
    let started = process.start_time / clock_ticks_per_second();
    Duration::from_secs(uptime.map_or(0, |uptime: u64| uptime.saturating_sub(started)))
}

/// How many tasks (processes and their threads) a user has now.
pub fn tasks_of(uid: u32) -> u64 {
    let owned = |pid: &i32| proc::real_uid(*pid) == Some(uid);
    let threads = |pid: i32| Stat::of(pid).map_or(0, |stat| u64::from(stat.threads));
    proc::all().into_iter().filter(owned).map(threads).sum()
}

/// `/proc/PID/statm`: pages in all, resident, of these shared …
fn private_pages(pid: i32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let mut fields = statm.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, shared) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(resident.saturating_sub(shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let own = Process::of(std::process::id().cast_signed()).unwrap();
        let block = vec![1_u8; 8 << 20];
        let usage = Usage::of(&[own]);
        assert!(usage.memory > 8 << 20, "{usage:?}");
        assert!(block.iter().all(|byte| *byte == 1));
        assert!(tasks_of(nix::unistd::getuid().as_raw()) > 0);
        assert!(age(own) < Duration::from_hours(24));
    }
}
