//! The processes whose home is below a scratch folder. They have to end before the folder is removed.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use provost_actors::process::identity::Process;
use provost_actors::process::proc;

use crate::home::HOME_VARIABLE;

/// How long to wait for a killed process.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// Every other process that belongs to a scratch folder: those whose environment names a home below it,
/// and shims, which lack the variable but have their working directory there.
pub fn processes(root: &Path) -> Vec<Process> {
    let marker = [HOME_VARIABLE.as_bytes(), b"=", root.as_os_str().as_bytes(), b"/"].concat();
    let is_shim = |pid: i32| {
        let cwd = || fs::read_link(format!("/proc/{pid}/cwd"));
        proc::is_shim(pid) && cwd().is_ok_and(|cwd| cwd.starts_with(root))
    };
    let has_home = |pid: i32| {
        proc::environ(pid).split(|byte| *byte == 0).any(|variable| variable.starts_with(&marker))
    };
    let is_here = |pid: &i32| has_home(*pid) || is_shim(*pid);
    let own = std::process::id().cast_signed();
    let others = proc::all().into_iter().filter(|pid| *pid != own);
    others.filter(is_here).filter_map(Process::of).collect()
}

/// Kills all of these processes. Fails if one is still alive [`KILL_LIMIT`] after its signal.
pub fn kill(root: &Path) -> io::Result<()> {
    // A process can start another one before it is killed, so each round lists them again.
    for process in std::iter::from_fn(|| processes(root).into_iter().next()) {
        let Some(handle) = process.open() else { continue };
        let _ = handle.signal(Signal::SIGKILL as i32);
        if !handle.wait_dead(KILL_LIMIT) {
            return Err(io::Error::other(format!("process {} can't be killed", process.pid)));
        }
    }
    Ok(())
}
