//! Calls that concern what is on another host of the same board.

use async_trait::async_trait;
use provost_actors::host;
use provost_actors::ids::AttemptId;
use serde_json::{Map, Value};

use super::Domain;
use crate::api::{OtherHosts, Refusable};
use crate::work::elsewhere::{About, about};

#[async_trait]
impl OtherHosts for Domain {
    async fn elsewhere(
        &self,
        call: &str,
        arguments: &Map<String, Value>,
    ) -> Refusable<Option<String>> {
        match about(call, arguments) {
            Some(about) => self.other_host(about).await,
            None => Ok(None),
        }
    }
}

impl Domain {
    /// The host that has it, if it is another one.
    async fn other_host(&self, about: About<'_>) -> Refusable<Option<String>> {
        // A file has the board of one host.
        if !self.world.host.has_lease {
            return Ok(None);
        }
        let host = self.store.host_of(about).await?;
        Ok(host.filter(|host| *host != self.world.host.id))
    }

    /// # Errors
    /// The attempt is on another host.
    pub(super) async fn require_here(&self, attempt: AttemptId) -> Refusable<()> {
        match self.other_host(About::Attempt(&attempt.to_string())).await? {
            Some(other) => Err(host::elsewhere(&format!("attempt {attempt}"), &other)),
            None => Ok(()),
        }
    }
}
