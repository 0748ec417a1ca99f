//! The checks of processes: orphans of ended attempts, and running attempts whose processes are missing.
//! A process belongs to an attempt by the marker in its environment (`/proc/PID/environ`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use provost_actors::process::identity::Process;
use provost_actors::process::proc::{self, Stat, is_shim};
use provost_actors::process::tree::Marker;

use super::check::Check;
use crate::home::{HOME_VARIABLE, Home};
use crate::store::InspectedAttempt;

const NAME: &str = "processes";

/// Compares all processes of this user with the attempts on record. Blocking.
pub fn checks(home: &Home, attempts: &[InspectedAttempt]) -> Vec<Check> {
    let by_id: BTreeMap<&str, &InspectedAttempt> =
        attempts.iter().map(|attempt| (attempt.attempt_id.as_str(), attempt)).collect();
    let mut checks = Vec::new();
    let mut orphans: BTreeMap<String, Vec<Process>> = BTreeMap::new();
    let mut unknown = Vec::new();
    // The doctor may run inside an attempt: it must not list itself or its ancestors.
    let own = ancestors();
    for pid in proc::all().into_iter().filter(|pid| !own.contains(pid)) {
        let Some((id, process)) = attempt_of(home, pid).zip(Process::of(pid)) else { continue };
        match by_id.get(id.as_str()) {
            Some(attempt) if attempt.is_over() => orphans.entry(id).or_default().push(process),
            Some(_) => {}
            None => unknown.push(pid),
        }
    }
    for (attempt, processes) in orphans {
        let name = |it: &Process| format!("{} ({})", it.pid, proc::command_name(it.pid));
        let names: Vec<String> = processes.iter().map(name).collect();
        let message = format!("attempt {attempt} has ended but left {} alive", names.join(", "));
        let cure = move |home: &Home| Ok(kill(home, &attempt, &processes));
        checks.push(Check::warn(NAME, message, "").cure(cure));
    }
    if !unknown.is_empty() {
        let message = format!("these belong to an attempt that is not on record: {unknown:?}");
        checks.push(Check::warn(NAME, message, "See what they are with `ps`, then kill them."));
    }
    checks.extend(shims(home, attempts));
    if checks.is_empty() {
        checks.push(Check::ok(NAME, "each belongs to an attempt, and none is missing"));
    }
    checks
}

/// The attempt whose marker a process has. `None`: none, or one of another home.
fn attempt_of(home: &Home, pid: i32) -> Option<String> {
    let environ = proc::environ(pid);
    let value = |name: &str| {
        let entries = environ.split(|byte| *byte == 0);
        let value = entries.filter_map(|it| it.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        value.map(|value| String::from_utf8_lossy(value).into_owned()).next()
    };
    let attempt = value(Marker::ATTEMPT)?;
    let is_ours = match &home.root {
        Some(root) => value(HOME_VARIABLE).is_some_and(|home| Path::new(&home) == root),
        // Without PROVOST_HOME the marker does not name the home, so the attempt's folder decides.
        None => value(HOME_VARIABLE).is_none() && home.attempts().join(&attempt).is_dir(),
    };
    is_ours.then_some(attempt)
}

/// This process and its ancestors.
fn ancestors() -> BTreeSet<i32> {
    let mut own = BTreeSet::new();
    let mut pid = std::process::id().cast_signed();
    while pid > 0 && own.insert(pid) {
        pid = Stat::of(pid).map_or(0, |stat| stat.ppid);
    }
    own
}

/// Kills the processes that are still of this attempt. The marker is read again, and the signal goes
/// through a handle that checks the start time: a process that got the pid since then is not signalled.
fn kill(home: &Home, attempt: &str, processes: &[Process]) -> String {
    let own = ancestors();
    let is_ours = |process: &&Process| {
        !own.contains(&process.pid)
            && attempt_of(home, process.pid).as_deref() == Some(attempt)
            && process.is_alive()
    };
    let kill = |process: &&Process| process.signal(Signal::SIGKILL as i32);
    format!("{} killed", processes.iter().filter(is_ours).filter(kill).count())
}

/// The findings about shims: shims of turns that have ended, and turns that run by their rows but have no
/// shim.
fn shims(home: &Home, attempts: &[InspectedAttempt]) -> Vec<Check> {
    let at_work: BTreeMap<PathBuf, i32> = proc::all()
        .into_iter()
        .filter(|pid| is_shim(*pid))
        .filter_map(|pid| Some((fs::read_link(format!("/proc/{pid}/cwd")).ok()?, pid)))
        .filter(|(cwd, _)| cwd.starts_with(home.attempts()))
        .collect();
    let mut expected = BTreeSet::new();
    let mut checks = Vec::new();
    for attempt in attempts {
        for process in attempt.processes.iter().filter(|process| !process.closed) {
            let dir = home.attempts().join(&attempt.attempt_id).join(&process.process_id);
            if process.status == "running" && !at_work.contains_key(&dir) {
                let message = format!("attempt {} runs but has no shim", attempt.attempt_id);
                let hint =
                    "A daemon finds out how it ended; if none runs, `provost ps` starts one.";
                checks.push(Check::warn(NAME, message, hint));
            }
            // Also a process that is only planned: its shim may be starting now.
            expected.insert(dir);
        }
    }
    let idle = at_work.iter().filter(|(dir, _)| !expected.contains(*dir));
    checks.extend(idle.map(|(dir, pid)| {
        let dir = dir.display();
        let message = format!("the shim {pid} watches processes of a turn that has ended: {dir}");
        Check::warn(NAME, message, "It ends with the last of them.")
    }));
    checks
}
