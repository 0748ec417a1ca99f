//! Living processes of this home that belong to nobody, and attempts that should
//! have some and have none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use provost_actors::process::identity::Process;
use provost_actors::process::proc::{self, Stat, is_shim};
use provost_actors::process::tree::Marker;

use super::check::{Check, Cure};
use crate::home::{HOME_VARIABLE, Home};
use crate::store::InspectedAttempt;

pub fn checks(home: &Home, attempts: &[InspectedAttempt]) -> Vec<Check> {
    let by_id: BTreeMap<&str, &InspectedAttempt> =
        attempts.iter().map(|attempt| (attempt.attempt_id.as_str(), attempt)).collect();
    let mut checks = Vec::new();
    let mut orphans: BTreeMap<&str, Vec<Process>> = BTreeMap::new();
    let mut unknown = Vec::new();
    for process in marked(home) {
        let Some(id) = attempt_of(home, process.pid) else { continue };
        match by_id.get_key_value(id.as_str()) {
            Some((id, attempt)) if attempt.is_over() => {
                orphans.entry(id).or_default().push(process);
            }
            Some(_) => {}
            None => unknown.push(process.pid),
        }
    }
    for (attempt, processes) in orphans {
        let pids: Vec<String> = processes
            .iter()
            .map(|it| format!("{} ({})", it.pid, proc::command_name(it.pid)))
            .collect();
        let message = format!("attempt {attempt} is over and left {} alive", pids.join(", "));
        let cure = Cure::Kill { attempt: attempt.to_owned(), processes };
        checks.push(Check::warn("processes", message).cure(cure));
    }
    if !unknown.is_empty() {
        let message = format!("of an attempt that is not on record: {unknown:?}");
        checks.push(
            Check::warn("processes", message)
                .hint("See what they are with `ps`, then end them by hand."),
        );
    }
    checks.extend(shims(home, &by_id));
    if checks.is_empty() {
        checks.push(Check::ok("processes", "each belongs to an attempt, and none is missing"));
    }
    checks
}

/// The attempt that a process of this home carries the marker of. Without
/// `PROVOST_HOME` in a home that is one folder, it is another home's.
pub fn attempt_of(home: &Home, pid: i32) -> Option<String> {
    let environ = proc::environ(pid);
    let value = |name: &str| {
        let entries = environ.split(|byte| *byte == 0);
        let value = entries.filter_map(|it| it.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        value.map(|value| String::from_utf8_lossy(value).into_owned()).next()
    };
    let attempt = value(Marker::ATTEMPT)?;
    let is_ours = match home.root() {
        Some(root) => value(HOME_VARIABLE).is_some_and(|home| Path::new(&home) == root),
        // Spread over the XDG folders there is no such variable: its folder tells.
        None => value(HOME_VARIABLE).is_none() && home.attempts().join(&attempt).is_dir(),
    };
    is_ours.then_some(attempt)
}

/// The living processes that carry a marker of this home; never this one, nor
/// those that it was started by.
fn marked(home: &Home) -> Vec<Process> {
    let own = ancestors();
    proc::all()
        .into_iter()
        .filter(|pid| !own.contains(pid) && attempt_of(home, *pid).is_some())
        .filter_map(Process::of)
        .collect()
}

pub fn ancestors() -> BTreeSet<i32> {
    let mut own = BTreeSet::new();
    let mut pid = std::process::id().cast_signed();
    while pid > 0 && own.insert(pid) {
        pid = Stat::of(pid).map_or(0, |stat| stat.ppid);
    }
    own
}

/// Shims whose attempt is over, and processes that run by their rows alone.
fn shims(home: &Home, by_id: &BTreeMap<&str, &InspectedAttempt>) -> Vec<Check> {
    let at_work: BTreeMap<PathBuf, i32> = proc::all()
        .into_iter()
        .filter(|pid| is_shim(*pid))
        .filter_map(|pid| Some((fs::read_link(format!("/proc/{pid}/cwd")).ok()?, pid)))
        .filter(|(cwd, _)| cwd.starts_with(home.attempts()))
        .collect();
    let mut expected = BTreeSet::new();
    let mut checks = Vec::new();
    for attempt in by_id.values() {
        for process in &attempt.processes {
            let dir = home.attempts().join(&attempt.attempt_id).join(&process.process_id);
            let is_open = !process.closed && process.status != "planned";
            if is_open && process.status == "running" && !at_work.contains_key(&dir) {
                let message = format!("attempt {} runs, and has no shim", attempt.attempt_id);
                checks.push(Check::warn("processes", message).hint(
                    "A daemon finds out what became of it; if none runs, `provost ps` starts one.",
                ));
            }
            // A planned one may be starting just now.
            if !process.closed {
                expected.insert(dir);
            }
        }
    }
    let idle = at_work.iter().filter(|(dir, _)| !expected.contains(*dir));
    checks.extend(idle.map(|(dir, pid)| {
        let message = format!("the shim {pid} works for a process that is over: {}", dir.display());
        Check::warn("processes", message).hint("It ends with the last process that it watches.")
    }));
    checks
}
