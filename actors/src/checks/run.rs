//! One run from start to end: each check with its receipt, the verdict, the worker's
//! notification. Every step is written down before the next, so a run goes on from
//! wherever it was cut off.

use ractor::ActorRef;

use crate::gateway;
use crate::journal::CheckRun;
use crate::journal::checks::CheckVerdict;
use crate::refusal::Refusal;
use crate::world::World;

use super::folder::Folder;
use super::notify;
use super::process::CheckProcess;

/// Carries out the remaining steps of a run. A refusal is the journal's: try again later.
pub async fn carry(
    world: &World,
    gateway: &ActorRef<gateway::GatewayMessage>,
    run: &mut CheckRun,
) -> Result<(), Refusal> {
    while let Some(check) = run.checks.get(run.receipts.len()) {
        let receipt = CheckProcess::new(world, run, check).receipt().await;
        world.journal.keep_receipt(run.run_id, &receipt).await?;
        run.receipts.push(receipt);
    }
    let verdict = world.journal.conclude_checks(run.run_id).await?;
    tracing::info!(run = %run.run_id, task = %run.task_id, ?verdict, "a report was checked");
    if verdict == CheckVerdict::Rework {
        notify::worker(gateway, run).await?;
    }
    if let Err(error) = Folder::of(world, run.run_id).strip().await {
        tracing::warn!(run = %run.run_id, %error, "its checkout can't be removed");
    }
    world.journal.close_checks(run.run_id).await
}

/// Kills what runs of it, so that the next daemon runs it anew. Returns possible
/// survivors, a sentence each.
pub async fn halt(world: &World, run: &CheckRun) -> Vec<String> {
    let mut alive = Vec::new();
    for check in &run.checks {
        alive.extend(CheckProcess::new(world, run, check).halt().await);
    }
    alive
}
