//! The removal of a project: each host removes its worktrees, then the rows go. If the call is cut off,
//! or a worktree is kept because work would be lost, the same call can be made again.

use std::collections::BTreeMap;

use provost_actors::attempt::{self, CollectVerdict};
use provost_actors::ids::{AttemptId, ProjectId};
use provost_actors::refusal::Refusal;
use serde_json::json;

use super::Domain;
use crate::api::attempts::AttemptPhase;
use crate::api::commands::{Collected, CollectedAttempt, GcParams};
use crate::api::person::{CollectedOn, LeftOn, RemoveProjectParams, RemovedProject};
use crate::api::{Caller, Code, ForwardedCall, OtherHosts as _};
use crate::store::busy_project;

/// How long another host may take for its worktrees, in milliseconds: their cleanup scripts run first.
const TIMEOUT_MS: u64 = 540_000;

impl Domain {
    /// Removes a project with the worktrees of its attempts; without `yes`, a dry run. The project stays
    /// if anything is kept on any host. Worktrees of hosts whose lease is over stay on their disks, and
    /// are listed in `left`.
    ///
    /// # Errors
    /// A turn of the project runs or waits, or a host that is there does not answer.
    pub(super) async fn remove_project(
        &self,
        caller: &Caller,
        wish: RemoveProjectParams,
    ) -> Result<RemovedProject, Refusal> {
        let RemoveProjectParams { project_id, yes } = wish;
        let (name, tasks) = self.store.project_size(project_id).await?;
        let mut hosts = self.hosts_of_project(project_id).await?;
        hosts.remove(&self.world.host.id);
        let alive = if hosts.is_empty() { Vec::new() } else { self.alive().await? };
        let (there, lost): (Vec<_>, Vec<_>) =
            hosts.into_iter().partition(|(host, _)| alive.contains(host));
        let mut others = Vec::new();
        // Other hosts come first: if one of them fails, the worktrees of this host are still there too.
        for (host, _) in there {
            let collected = self.collect_on(caller, &host, (project_id, yes)).await?;
            others.push(CollectedOn { host, collected });
        }
        let all =
            GcParams { yes, snapshot: true, older_than_secs: 0, project_id: Some(project_id) };
        let collected = self.gc(all).await?;
        let is_kept = |it: &CollectedAttempt| it.collection.verdict == CollectVerdict::Kept;
        let all_of = |it: &Collected| !it.attempts.iter().any(is_kept);
        let removed = yes && all_of(&collected) && others.iter().all(|it| all_of(&it.collected));
        if removed {
            self.store.remove_project(project_id).await?;
            attempt::wake_pushes(&self.world);
        }
        let left = lost.into_iter().map(|(host, attempts)| LeftOn { host, attempts }).collect();
        Ok(RemovedProject { project_id, name, removed, tasks, collected, others, left })
    }

    /// The hosts that have attempts of a project, with those attempts. Refuses while one of them is not
    /// at rest.
    async fn hosts_of_project(
        &self,
        project: ProjectId,
    ) -> Result<BTreeMap<String, Vec<AttemptId>>, Refusal> {
        let mut hosts: BTreeMap<String, Vec<AttemptId>> = BTreeMap::new();
        for attempt in self.store.overview(true).await?.into_iter().map(|it| it.line) {
            if attempt.project_id != project {
                continue;
            }
            if attempt.phase.is_busy() || attempt.phase == AttemptPhase::Waiting {
                return Err(busy_project(attempt.attempt_id));
            }
            // An attempt at rest without a host has no worktrees.
            if let Some(host) = attempt.host {
                hosts.entry(host).or_default().push(attempt.attempt_id);
            }
        }
        Ok(hosts)
    }

    /// Lets the daemon of another host collect the project's worktrees on that host.
    async fn collect_on(
        &self,
        caller: &Caller,
        host: &str,
        (project, yes): (ProjectId, bool),
    ) -> Result<Collected, Refusal> {
        let wish = json!({
            "yes": yes, "snapshot": true, "project_id": project, "timeout_ms": TIMEOUT_MS,
        });
        let arguments = wish.as_object().cloned().unwrap_or_default();
        let (tool, caller) = ("provost/gc".to_owned(), caller.clone());
        let answer = self.carry(host, ForwardedCall { tool, caller, arguments, id: None }).await;
        let answer = answer.map_err(|refusal| match refusal.code {
            Code::DaemonUnavailable => away(host, refusal),
            _ => refusal,
        })?;
        serde_json::from_value(answer.value).map_err(|error| Refusal::internal(error.to_string()))
    }
}

/// The refusal while a host with worktrees does not answer.
fn away(host: &str, refusal: Refusal) -> Refusal {
    let message = format!("the project has worktrees on host {host}: {}", refusal.message);
    Refusal { message, ..refusal }.hint(format!(
        "Run the command again when the daemon of host {host} runs again. Once the lease of the host \
         is over, the project is removed without it, and its worktrees stay on its disk."
    ))
}
