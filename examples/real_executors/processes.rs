//! Who is alive, as `/proc` shows it.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A living process.
pub struct Process {
    pid: i32,
    command: String,
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.pid, self.command)
    }
}

impl Process {
    /// One that has ended meanwhile needs no signal.
    pub fn kill(&self) {
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
    }
}

/// Those whose environment has this variable. The dead that nobody has reaped
/// yet have no environment any more.
pub fn with_variable(name: &str, value: &str) -> Vec<Process> {
    let wanted = format!("{name}={value}").into_bytes();
    select(|folder| has_variable(folder, &wanted))
}

/// Those that work in a folder or below it, save Provost's own git, which looks at what a turn
/// has left.
pub fn working_below(dir: &Path) -> Vec<Process> {
    select(|folder| {
        let works = fs::read_link(folder.join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir));
        works && !has_variable(folder, b"GIT_GRAFT_FILE=/dev/null/none")
    })
}

fn has_variable(folder: &Path, wanted: &[u8]) -> bool {
    let environ = fs::read(folder.join("environ")).unwrap_or_default();
    environ.split(|byte| *byte == 0).any(|variable| variable == wanted)
}

fn select(is_wanted: impl Fn(&Path) -> bool) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let process = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        if !is_wanted(&entry.path()) {
            return None;
        }
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        Some(Process { pid, command: command.chars().take(80).collect() })
    };
    entries.filter_map(process).collect()
}
