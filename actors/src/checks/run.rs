//! One run, carried through: each check to its receipt, the verdict, its telling.
//! Every step is written down before the next, and a step that was made is found
//! made: so a run goes on from wherever it was cut off.

use ractor::ActorRef;

use crate::gateway;
use crate::journal::CheckRun;
use crate::journal::checks::CheckVerdict;
use crate::refusal::Refusal;
use crate::world::World;

use super::folder::Folder;
use super::process::Process;
use super::tell;

/// Carries a run through, as far as it is not. A refusal is the journal's: again later.
pub async fn carry(
    world: &World,
    gateway: &ActorRef<gateway::Message>,
    run: &mut CheckRun,
) -> Result<(), Refusal> {
    while let Some(check) = run.checks.get(run.receipts.len()) {
        let receipt = Process::new(world, run, check).receipt().await;
        world.journal.keep_receipt(run.run_id, &receipt).await?;
        run.receipts.push(receipt);
    }
    let verdict = world.journal.conclude_checks(run.run_id).await?;
    tracing::info!(run = %run.run_id, task = %run.task_id, ?verdict, "a report was checked");
    if verdict == CheckVerdict::Rework {
        tell::worker(gateway, run).await?;
    }
    if let Err(error) = Folder::of(world, run.run_id).strip().await {
        tracing::warn!(run = %run.run_id, %error, "its checkout can't be removed");
    }
    world.journal.close_checks(run.run_id).await
}

/// Ends what runs of it, so that the next daemon runs it anew. What may be alive all
/// the same is told, a sentence each.
pub async fn halt(world: &World, run: &CheckRun) -> Vec<String> {
    let mut alive = Vec::new();
    for check in &run.checks {
        alive.extend(Process::new(world, run, check).halt().await);
    }
    alive
}
