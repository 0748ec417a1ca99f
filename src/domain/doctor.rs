//! The doctor's findings, for the page. The doctor examines a home from outside of the daemon, so the
//! daemon starts `provost doctor` as a person would, and passes its answer on.

use std::process::Stdio;

use tokio::process::Command;

use super::Domain;
use crate::api::Refusal;
use crate::api::commands::Finding;

impl Domain {
    /// Runs `provost doctor --json`. There is no timeout here, because the doctor's checks have their
    /// own.
    pub(super) async fn findings(&self) -> Result<Vec<Finding>, Refusal> {
        #[expect(clippy::disallowed_methods, reason = "the doctor is no attempt's process")]
        let mut command = Command::new("/proc/self/exe");
        command.args(["doctor", "--json"]).stdin(Stdio::null()).kill_on_drop(true);
        if let Some(home) = &self.world.settings.launch.home_variable {
            command.env("PROVOST_HOME", home);
        }
        let fault = |error: &dyn std::fmt::Display| {
            Refusal::internal(format!("the doctor can't be run: {error}"))
        };
        // The exit code is ignored: it says only whether a check failed, which the findings say too.
        let output = command.output().await.map_err(|error| fault(&error))?;
        let mut found: Vec<Finding> =
            serde_json::from_slice(&output.stdout).map_err(|error| fault(&error))?;
        // The check of the daemon is left out: this daemon runs, and shows a child of its own less than
        // it shows a person.
        found.retain(|it| it.name != "daemon");
        Ok(found)
    }
}
