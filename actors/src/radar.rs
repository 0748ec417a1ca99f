//! Conflict radar: whether the newest snapshot of an attempt still merges with those of the other
//! attempts of its repository, and with its target branch.
//!
//! It looks after each snapshot and after each finish, and at an attempt at rest whenever its
//! status is read: so a target that others moved is noticed at the next status, for one git
//! process, and whoever waits for a change is woken. Looks run one after the other in tasks that
//! nothing waits for, so each pair of snapshots is merged once. What a crash prevents is done by
//! the next look.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::blocking::lock;
use crate::ids::AttemptId;
use crate::journal::{Contest, Probe};
use crate::refusal::Refusal;
use crate::workspace::git::{self, GitError};
use crate::workspace::probe::probe;
use crate::world::World;

/// Two looks at once would merge a pair twice.
static ONE: Semaphore = Semaphore::const_new(1);

/// The tips of target branches, by repository and branch.
type Tips = HashMap<(String, String), Option<String>>;

/// Looks, in a task, for conflicts of these attempts, and removes those that are over.
pub fn look(world: &Arc<World>, attempts: &[AttemptId]) {
    // Else a task is about to take them.
    if want(world, attempts) {
        let world = Arc::clone(world);
        tokio::spawn(async move { take(&world).await });
    }
}

/// The same, and returns when it is done.
pub async fn look_now(world: &World, attempts: &[AttemptId]) {
    want(world, attempts);
    take(world).await;
}

/// `true`: no others are wanted yet.
fn want(world: &World, attempts: &[AttemptId]) -> bool {
    let mut wanted = lock(&world.to_probe);
    let was_empty = wanted.is_empty();
    wanted.extend(attempts);
    was_empty
}

/// Looks at all that are wanted. When it returns, each of them has been looked at.
async fn take(world: &World) {
    // It is never closed.
    let _turn = ONE.acquire().await;
    let wanted = std::mem::take(&mut *lock(&world.to_probe));
    if let Err(refusal) = end_others(world).await {
        tracing::warn!(%refusal, "conflicts that are over are not removed");
    }
    let mut tips = Tips::new();
    for attempt in wanted {
        if let Err(refusal) = look_at(world, attempt, &mut tips).await {
            tracing::warn!(%attempt, %refusal, "its conflicts are not known");
        }
    }
}

/// Looks again at all that may be concerned by the end of an attempt's finish: its target branch
/// may have moved, which is the target of others too.
pub fn look_after_finish(world: &Arc<World>, attempt: AttemptId) {
    let world = Arc::clone(world);
    tokio::spawn(async move {
        match world.journal.rivals(attempt).await {
            Ok(rivals) => look(&world, &[&[attempt], &rivals[..]].concat()),
            Err(refusal) => tracing::warn!(%attempt, %refusal, "its rivals are not known"),
        }
    });
}

/// Removes what is known of attempts that are not in the way of others any more.
async fn end_others(world: &World) -> Result<(), Refusal> {
    let mut over = Vec::new();
    for attempt in world.journal.in_conflict().await? {
        if !attempt.is_open || !is_there(world, &attempt.folder).await {
            over.push(attempt.attempt_id);
        }
    }
    if over.is_empty() { Ok(()) } else { world.journal.drop_probes(&over).await }
}

/// Whether the worktrees are there. Where they were collected, the work is merged or given up.
async fn is_there(world: &World, folder: &str) -> bool {
    let folder = world.settings.worktrees_dir.join(folder);
    // One that can't be looked at is there.
    tokio::fs::try_exists(folder).await.unwrap_or(true)
}

async fn look_at(world: &World, attempt: AttemptId, tips: &mut Tips) -> Result<(), Refusal> {
    for contest in world.journal.contests(attempt).await? {
        if !is_there(world, &contest.folder).await {
            continue;
        }
        match merged(world, &contest, tips).await {
            Ok(probes) if probes.is_empty() => {}
            Ok(probes) => world.journal.record_probes(attempt, &probes).await?,
            Err(error) => {
                tracing::warn!(%attempt, %error, repo = contest.repo, "conflicts are not known");
            }
        }
    }
    Ok(())
}

/// Merges the snapshot with what it has not been merged with.
async fn merged(world: &World, contest: &Contest, tips: &mut Tips) -> Result<Vec<Probe>, GitError> {
    let repo = Path::new(&contest.repo);
    let target = (contest.repo.clone(), contest.target_branch.clone());
    if !tips.contains_key(&target) {
        tips.insert(target.clone(), git::branch_tip(repo, &target.1).await?);
    }
    let tip = tips.get(&target).cloned().flatten();
    let tip = tip.filter(|tip| contest.target_commit.as_ref() != Some(tip));
    let mut others: Vec<(Option<AttemptId>, String)> =
        tip.map(|tip| (None, tip)).into_iter().collect();
    for rival in &contest.rivals {
        if is_there(world, &rival.folder).await {
            others.push((Some(rival.attempt_id), rival.commit_id.clone()));
        }
    }
    if others.is_empty() {
        return Ok(Vec::new());
    }
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
