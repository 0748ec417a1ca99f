//! What is run for a check, as its shim reads it. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::base::inherited;
use crate::ids::{AttemptId, CheckRunId};
use crate::journal::checks::PlannedCheck;
use crate::process::Marker;
use crate::process::manifest::Manifest;
use crate::secret::Secrets;
use crate::world::Settings;

/// Bytes of a check's output that are kept, unless the configuration says less.
const LOG_MAX: u64 = 64 << 20;

/// What a check's shim runs in this folder, and the secrets of its environment.
pub fn manifest(
    settings: &Settings,
    run: CheckRunId,
    check: &PlannedCheck,
    cwd: PathBuf,
) -> (Manifest, Secrets) {
    // To a shim each run is an attempt of its own.
    let marker = Marker { attempt: AttemptId::from(run), process: check.process_id };
    let command = (PathBuf::from("/bin/sh"), check.command.shell_arguments());
    let env = environment(&settings.environment, marker);
    let (mut manifest, secrets) =
        settings.manifest(marker, command, env, cwd, settings.checks.limits);
    manifest.spool_max_bytes = manifest.spool_max_bytes.min(LOG_MAX);
    (manifest, secrets)
}

/// What every executor gets of the daemon's environment, the variable that continuous
/// integration sets, and the marker that identifies an orphan.
fn environment(own: &BTreeMap<String, String>, marker: Marker) -> BTreeMap<String, String> {
    let mut env = inherited(own);
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
