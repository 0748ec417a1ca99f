//! Conflict radar: once an attempt has a new snapshot, finds out whether that still merges with
//! the snapshots of the other attempts of the same repository, and with the target branch. Each
//! pair is merged once, in a task that nothing waits for; what a crash prevents comes with the
//! next snapshot of either.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::ids::AttemptId;
use crate::journal::{Contest, Probe};
use crate::workspace::git;
use crate::workspace::probe::probe;
use crate::world::World;

/// Attempts that are looked at at once.
static AT_ONCE: Semaphore = Semaphore::const_new(2);

/// Looks, in a task, for conflicts of the newest snapshot of an attempt.
pub fn look(world: &Arc<World>, attempt: AttemptId) {
    let world = Arc::clone(world);
    tokio::spawn(async move {
        // It is never closed.
        let _turn = AT_ONCE.acquire().await;
        let contests = match world.journal.contests(attempt).await {
            Ok(contests) => contests,
            Err(refusal) => {
                tracing::warn!(%attempt, %refusal, "who works on the same is not known");
                return;
            }
        };
        for contest in contests {
            match merged(&world, &contest).await {
                Ok(probes) => record(&world, attempt, &probes).await,
                Err(error) => {
                    tracing::warn!(%attempt, %error, repo = contest.repo, "conflicts are not known");
                }
            }
        }
    });
}

async fn record(world: &World, attempt: AttemptId, probes: &[Probe]) {
    if let Err(refusal) = world.journal.record_probes(attempt, probes).await {
        tracing::warn!(%attempt, %refusal, "conflicts are not written down");
    }
}

async fn merged(world: &World, contest: &Contest) -> Result<Vec<Probe>, git::GitError> {
    let repo = Path::new(&contest.repo);
    let target = git::branch_tip(repo, &contest.target_branch).await?;
    let mut others: Vec<(Option<AttemptId>, String)> =
        target.map(|tip| (None, tip)).into_iter().collect();
    let rivals = contest.rivals.iter();
    others.extend(rivals.map(|rival| (Some(rival.attempt_id), rival.commit_id.clone())));
    let commits: Vec<String> = others.iter().map(|(_, commit)| commit.clone()).collect();
    let scratch = &world.settings.scratch_dir;
    let probed = probe(repo, scratch, &contest.commit_id, &commits).await?;
    let found = others.into_iter().zip(probed).map(|((rival, rival_commit), probed)| Probe {
        repo: contest.repo.clone(),
        rival,
        commit_id: contest.commit_id.clone(),
        rival_commit,
        tree_id: probed.tree,
        paths: probed.paths,
    });
    Ok(found.collect())
}
