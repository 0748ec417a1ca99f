//! What the doctor finds. It examines a home from outside of its daemon, so the daemon runs it as
//! a person would, and passes on what it says.

use std::process::Stdio;

use tokio::process::Command;

use super::Domain;
use crate::api::Refusal;
use crate::api::commands::Finding;

impl Domain {
    /// Runs `provost doctor`, which has deadlines of its own.
    pub(super) async fn findings(&self) -> Result<Vec<Finding>, Refusal> {
        #[expect(clippy::disallowed_methods, reason = "the doctor is no attempt's process")]
        let mut command = Command::new("/proc/self/exe");
        command.args(["doctor", "--json"]).stdin(Stdio::null()).kill_on_drop(true);
        if let Some(home) = &self.world.settings.home_variable {
            command.env("PROVOST_HOME", home);
        }
        let fault = |error: &dyn std::fmt::Display| {
            Refusal::internal(format!("the doctor can't be run: {error}"))
        };
        // Its exit code says only whether a check failed.
        let output = command.output().await.map_err(|error| fault(&error))?;
        let mut found: Vec<Finding> =
            serde_json::from_slice(&output.stdout).map_err(|error| fault(&error))?;
        // This daemon runs, and tells its own children less than a person.
        found.retain(|it| it.name != "daemon");
        Ok(found)
    }
}
