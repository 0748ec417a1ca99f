//! Conflict radar: whether the newest snapshots of a repository's attempts still merge with each other, and
//! each with its target branch.
//!
//! It looks after each snapshot and after each finish, and at attempts at rest whenever their status is
//! read. So if somebody else moved a target, that is noticed soon after the next status, for one git
//! process, and callers that wait for a change are woken.
//!
//! ```text
//!  look(attempts) ─▶ `world.to_probe` ─▶ one task at a time, behind `LAST`:
//!                                        end_others: forget attempts whose work is merged or given up
//!                                        look_at: contests ─▶ trial merges ─▶ record_probes
//! ```
//!
//! Looks run one after the other in tasks that nothing waits for, so that each pair of snapshots is merged
//! once, and only if both have changed the same files. What a crash prevents is done by the next look.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::blocking::lock;
use crate::ids::AttemptId;
use crate::journal::{ConflictPair, Histories, Probe};
use crate::refusal::Refusal;
use crate::workspace::git::{self, GitError};
use crate::workspace::parting::{History, part};
use crate::workspace::probe::{Probed, Side, probe};
use crate::world::World;

/// When the last look ended. Locked during a look: two at once would merge a pair twice.
static LAST: Mutex<Option<Instant>> = Mutex::const_new(None);

/// The least time between two looks that reads of a status cause: a client that asks again and again must
/// not cost a git process each time.
const PAUSE: Duration = Duration::from_millis(250);

/// The tips of target branches, by repository and branch: read once in a look.
type Tips = HashMap<(String, String), Option<String>>;

/// Looks, in a task, for conflicts in the repositories of these attempts, and removes known conflicts that
/// are over. Without attempts it only removes.
pub fn look(world: &Arc<World>, attempts: &[AttemptId]) {
    // If others are wanted already, a task is about to take all of them.
    if want(world, attempts) {
        let world = Arc::clone(world);
        tokio::spawn(async move {
            // Not held during the pause: a look without a pause (`look_now`) need not wait for it.
            let last = *LAST.lock().await;
            if let Some(last) = last {
                sleep_until(last + PAUSE).await;
            }
            take(&world).await;
        });
    }
}

/// The same without a pause, and returns when it is done.
pub async fn look_now(world: &World, attempts: &[AttemptId]) {
    want(world, attempts);
    take(world).await;
}

/// Notes the attempts. `true`: none were noted before, so that no task is about to take them.
fn want(world: &World, attempts: &[AttemptId]) -> bool {
    let mut wanted = lock(&world.to_probe);
    let was_empty = wanted.is_empty();
    wanted.extend(attempts);
    was_empty
}

/// Looks at all that are noted. When it returns, each attempt that was noted before the call has been
/// looked at.
async fn take(world: &World) {
    let mut last = LAST.lock().await;
    let wanted = std::mem::take(&mut *lock(&world.to_probe));
    if let Err(refusal) = end_others(world).await {
        tracing::warn!(%refusal, "conflicts that are over are not removed");
    }
    let wanted: Vec<AttemptId> = wanted.into_iter().collect();
    if let Err(refusal) = look_at(world, &wanted).await {
        tracing::warn!(?wanted, %refusal, "their conflicts are not known");
    }
    *last = Some(Instant::now());
}

/// Removes what is known of attempts that no longer matter to others.
async fn end_others(world: &World) -> Result<(), Refusal> {
    let mut over = Vec::new();
    for attempt in world.journal.in_conflict().await? {
        if !attempt.is_open || !is_there(world, &attempt.folder).await {
            over.push(attempt.attempt_id);
        }
    }
    if over.is_empty() { Ok(()) } else { world.journal.drop_probes(&over).await }
}

/// Whether the attempt's worktrees exist. If they were collected, the work is merged or given up.
async fn is_there(world: &World, folder: &str) -> bool {
    let folder = world.settings.folders.worktrees.join(folder);
    // A folder that can't be looked at is taken for existing.
    tokio::fs::try_exists(folder).await.unwrap_or(true)
}

async fn look_at(world: &World, attempts: &[AttemptId]) -> Result<(), Refusal> {
    let mut tips = Tips::new();
    let contests = world.journal.contests(attempts).await?;
    let ids: BTreeSet<AttemptId> = contests.iter().flat_map(ConflictPair::attempts).collect();
    let histories = world.journal.histories(&Vec::from_iter(ids)).await?;
    for contest in contests {
        if !is_there(world, &contest.folder).await {
            continue;
        }
        let probes = merged(world, &contest, &histories, &mut tips).await;
        if !probes.is_empty() {
            world.journal.record_probes(contest.attempt_id, &probes).await?;
        }
    }
    Ok(())
}

/// The tip of a contest's target branch, read once.
async fn tip(path: &Path, contest: &ConflictPair, tips: &mut Tips) -> Option<String> {
    let ConflictPair { repo, target_branch, .. } = contest;
    let target = (repo.clone(), target_branch.clone());
    if let Some(tip) = tips.get(&target) {
        return tip.clone();
    }
    let tip = git::branch_tip(path, target_branch).await.unwrap_or_else(|error| {
        tracing::warn!(%error, repo, target_branch, "a target branch can't be read");
        None
    });
    tips.insert(target, tip.clone());
    tip
}

/// The commit since which the snapshot's work counts now: the target may have lost what it had of it.
async fn since_now(path: &Path, contest: &ConflictPair, tip: &str, history: &History) -> String {
    let parting = part(path, Some(tip), &contest.commit_id, history).await;
    let parting = parting.unwrap_or_else(|error| {
        tracing::warn!(attempt = %contest.attempt_id, %error, "a merge base can't be read");
        None
    });
    parting.map_or_else(|| contest.base_id.clone(), |parting| parting.base)
}

/// Merges the snapshot, on trial, with all that it has not been merged with.
async fn merged(
    world: &World,
    contest: &ConflictPair,
    histories: &Histories,
    tips: &mut Tips,
) -> Vec<Probe> {
    let ConflictPair { attempt_id, repo, repo_id, commit_id, base_id, .. } = contest;
    let path = world.settings.worktrees.places.of(*repo_id, repo);
    let tip = tip(&path, contest, tips).await;
    let none = History::default();
    let history = |attempt| histories.get(&(attempt, repo.clone())).unwrap_or(&none);
    let mine = Side { base: base_id, commit: commit_id, history: Some(history(*attempt_id)) };
    let mut pairs = Vec::new();
    let since;
    if let Some(tip) = tip.as_deref().filter(|tip| contest.target_commit.as_deref() != Some(*tip)) {
        since = since_now(&path, contest, tip, history(*attempt_id)).await;
        let target = Side { base: &since, commit: tip, history: None };
        pairs.push((None, [target, Side { base: &since, ..mine }]));
    }
    for rival in &contest.rivals {
        if is_there(world, &rival.folder).await {
            let history = Some(history(rival.attempt_id));
            let theirs = Side { base: &rival.base_id, commit: &rival.commit_id, history };
            pairs.push((Some(rival.attempt_id), [mine, theirs]));
        }
    }
    let (scratch, attributes) =
        (&world.settings.folders.scratch, tip.as_deref().unwrap_or(commit_id));
    let mut probes = Vec::new();
    for (rival, sides) in pairs {
        let probed = match probe(&path, scratch, attributes, sides).await {
            Ok(probed) => probed,
            Err(error) => {
                tracing::warn!(attempt = %attempt_id, ?rival, %error, repo, "a conflict is not known");
                if !matches!(error, GitError::Failed(_)) {
                    continue;
                }
                // git can't read a commit: another try would fail too, so an empty result is recorded.
                Probed::default()
            }
        };
        let [ours, theirs] = sides;
        let rival_commit = if rival.is_some() { theirs } else { ours }.commit.to_owned();
        let (repo, commit_id) = (repo.clone(), commit_id.clone());
        let Probed { tree: tree_id, paths } = probed;
        probes.push(Probe { repo, rival, commit_id, rival_commit, tree_id, paths });
    }
    probes
}
