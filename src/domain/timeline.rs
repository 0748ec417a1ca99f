//! What a page shows of an attempt: its turns and receipts from the store, its processes from the
//! kernel, and files from git.

use async_trait::async_trait;
use provost_actors::ids::AttemptId;
use provost_actors::journal::Ending;
use provost_actors::process::family;
use provost_actors::process::identity::Process;

use super::finish::repo;
use super::{Domain, blocking};
use crate::api::Refusable;
use crate::api::timeline::{BlobInput, FinishRecord, Member, TURNS_MAX, Timeline, TimelineReads};
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
        self.require_here(attempt).await?;
        let leaders = self.store.running_leaders(attempt).await?;
        let leaders: Vec<Process> =
            leaders.into_iter().map(|(pid, start_time)| Process { pid, start_time }).collect();
        blocking(move || family::of(&leaders)).await
    }

    async fn attempt_blob(&self, input: BlobInput) -> Refusable<Option<Vec<u8>>> {
        self.blob(input).await
    }
}

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
