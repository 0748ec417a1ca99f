//! What is run for a check, as its shim reads it. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::attempt::is_base;
use crate::ids::{AttemptId, CheckRunId};
use crate::journal::checks::PlannedCheck;
use crate::process::Marker;
use crate::process::cgroup::Cgroup;
use crate::process::manifest::{self, Manifest, StdinSource};
use crate::secret::Secrets;
use crate::world::Settings;

/// Bytes of a check's output that are kept, unless the configuration has it less.
const LOG_MAX: u64 = 64 << 20;

/// A check's process in this folder, and the secrets that its environment holds.
pub fn manifest(
    settings: &Settings,
    run: CheckRunId,
    check: &PlannedCheck,
    cwd: PathBuf,
) -> (Manifest, Secrets) {
    let process_id = check.process_id;
    // To a shim each run is an attempt of its own.
    let attempt_id = AttemptId::from(run);
    let own = &settings.environment;
    let mut env = environment(own, Marker { attempt: attempt_id, process: process_id });
    let secrets = settings.secret_names.take_out(&mut env, own);
    let limits = settings.checks.limits;
    let cgroup = settings.cgroups.as_deref().filter(|_| limits.want_cgroup());
    let manifest = Manifest {
        v: manifest::VERSION,
        attempt_id,
        process_id,
        epoch: 1,
        program: PathBuf::from("/bin/sh"),
        args: check.command.shell_arguments(),
        env,
        secrets: secrets.names(),
        cwd,
        stdin: StdinSource::Empty,
        spool_max_bytes: settings.spool_max_bytes.min(LOG_MAX),
        limits,
        cgroup: cgroup.map(|base| Cgroup::named(base, &process_id.to_string())),
        grace_ms: u64::try_from(settings.stop_grace.as_millis()).unwrap_or(u64::MAX),
        soft_limits: settings.soft_limits,
        cwd_beneath: None,
    };
    (manifest, secrets)
}

/// What every executor gets of the daemon's environment, what continuous integration
/// sets, and the marker by which a lost process is found.
fn environment(own: &BTreeMap<String, String>, marker: Marker) -> BTreeMap<String, String> {
    let base = own.iter().filter(|(name, _)| is_base(name));
    let mut env: BTreeMap<_, _> = base.map(|(k, v)| (k.clone(), v.clone())).collect();
    env.insert("CI".to_owned(), "1".to_owned());
    env.insert(Marker::ATTEMPT.to_owned(), marker.attempt.to_string());
    env.insert(Marker::PROCESS.to_owned(), marker.process.to_string());
    env
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ProcessId;

    #[test]
    fn a_check_gets_what_executors_get_and_nothing_of_an_attempt() {
        let own = ["PATH", "LANG", "PROVOST_HOME", "MY_API_KEY", "PROVOST_TASK_ID"];
        let own = own.map(|name| (name.to_owned(), "value".to_owned())).into();
        let marker =
            Marker { attempt: AttemptId::from(CheckRunId::new()), process: ProcessId::new() };
        let made = environment(&own, marker);
        let names: Vec<&str> = made.keys().map(String::as_str).collect();
        assert_eq!(names, ["CI", "LANG", "PATH", Marker::ATTEMPT, Marker::PROCESS]);
    }
}
