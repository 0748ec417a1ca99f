//! What the page of an attempt shows: turns and receipts from the store, processes from the kernel, and
//! files from git. The methods here are for the daemons of other hosts, whose pages show attempts of this
//! one.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use provost_actors::ids::AttemptId;
use provost_actors::journal::Ending;
use provost_actors::process::identity::Process;
use provost_actors::process::process_list;

use super::finish::repo;
use super::{Domain, blocking};
use crate::api::person::OfAttemptParams;
use crate::api::placed::Needs;
use crate::api::timeline::{BlobInput, FinishRecord, Member, TURNS_MAX, Timeline, TimelineReads};
use crate::api::{Refusable, Refusal};
use crate::store::{Beside, FinishRow};

#[async_trait]
impl TimelineReads for Domain {
    async fn attempt_timeline(
        &self,
        attempt: AttemptId,
        before: Option<u32>,
    ) -> Refusable<Timeline> {
        let Beside { task, waiting, finishes, checks } = self.store.beside_turns(attempt).await?;
        let turns = self.store.turns(attempt, before, TURNS_MAX).await?;
        Ok(Timeline {
            task_title: task.title,
            task_status: task.status,
            project_id: task.project_id,
            project_name: task.project_name,
            has_hosts: self.store.count_hosts().await? > 1,
            turns: turns.items,
            has_earlier: turns.has_more,
            waiting,
            finishes: finishes.into_iter().map(record).collect(),
            checks,
        })
    }

    async fn attempt_processes(&self, attempt: AttemptId) -> Refusable<Vec<Member>> {
        let asked = OfAttemptParams { attempt_id: attempt };
        if self.lost_host_of(&attempt.to_string()).await?.is_some() {
            return Ok(Vec::new());
        }
        if let Some(there) =
            self.forward_read("provost/processes", Needs::Host, None, attempt, &asked).await?
        {
            return Ok(there);
        }
        // The start time guards against a pid that was used again.
        let leaders = self.store.running_leaders(attempt).await?;
        let leaders: Vec<Process> =
            leaders.into_iter().map(|(pid, start_time)| Process { pid, start_time }).collect();
        blocking(move || process_list::of(&leaders)).await
    }

    async fn attempt_blob(&self, input: BlobInput) -> Refusable<Option<Vec<u8>>> {
        match self
            .forward_read("provost/blob", Needs::Files, None, input.attempt_id, &input)
            .await?
        {
            Some(there) => read_blob(there),
            None => self.blob(input).await,
        }
    }
}

impl Domain {
    /// The living processes of an attempt, for another host's daemon.
    pub(super) async fn processes_of(&self, of: OfAttemptParams) -> Refusable<Vec<Member>> {
        self.attempt_processes(of.attempt_id).await
    }

    /// A file's bytes as Base64, for another host's daemon: the answer travels as JSON.
    pub(super) async fn carried_blob(&self, input: BlobInput) -> Refusable<Option<String>> {
        Ok(self.blob(input).await?.map(|bytes| STANDARD.encode(bytes)))
    }
}

fn read_blob(carried: Option<String>) -> Refusable<Option<Vec<u8>>> {
    let read = carried.map(|text| STANDARD.decode(text)).transpose();
    read.map_err(|error| Refusal::internal(error.to_string()))
}

/// A finish as the page shows it.
fn record(row: FinishRow) -> FinishRecord {
    let FinishRow { finish_id, request, state, receipt, error, created_at, ended_at } = row;
    let conflicts = match &receipt.ending {
        Some(Ending::Conflicts(found)) => {
            found.conflicts.iter().map(|it| format!("{}/{}", found.repo, it.path)).collect()
        }
        _ => Vec::new(),
    };
    FinishRecord {
        finish_id,
        action: request.action,
        strategy: request.strategy,
        state,
        error: error.map(|error| error.message),
        repos: request.repos.iter().zip(&receipt.repos).map(repo).collect(),
        conflicts,
        created_at,
        ended_at,
    }
}
