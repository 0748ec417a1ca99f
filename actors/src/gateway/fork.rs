//! A start that begins from another attempt: the snapshot of one of its turns. The host of that attempt
//! begins the new one, because it has the snapshots and the agent's session. If it can't, another host
//! takes the snapshot of the last turn from the board.

use std::path::Path;
use std::time::Duration;

use crate::attempt::finish::compose;
use crate::attempt::{ensure_base, have_turn};
use crate::host::{Demand, Host, HostRole};
use crate::ids::{AttemptId, RepoId};
use crate::journal::{Attempt, AttemptRepo, Fork, Repo, StartContext, TurnSnapshot};
use crate::refusal::{Code, Refusal};
use crate::workspace::git::GitError;
use crate::workspace::signing::Signing;
use crate::workspace::turn_snapshot::begin_at;
use crate::world::World;

use super::push::unreadable;
use super::signature::signature;

/// The end of a turn that another attempt begins from, with its snapshots.
pub struct Source {
    pub fork: Fork,
    attempt: Attempt,
    snapshots: Vec<TurnSnapshot>,
}

impl Source {
    /// Makes the commit to begin from in a repository: the files of the snapshot, with a message that names
    /// the turn. `None`: the other attempt has no snapshot in this repository.
    pub async fn commit_of(&self, world: &World, repo: RepoId) -> Result<Option<String>, Refusal> {
        let Source { fork, attempt, snapshots } = self;
        let Some(repo) = attempt.repos.iter().find(|it| it.repo_id == repo) else {
            return Ok(None);
        };
        let Some(snapshot) = snapshots.iter().find(|it| it.repo == repo.name) else {
            return Ok(None);
        };
        let by = signature(repo).await?;
        let about = format!("As turn {} left it.", fork.turn);
        let (id, title) = (fork.attempt_id, &attempt.task_title);
        let message = compose::message(title, Some(&about), id, &attempt.executor);
        let (path, scratch) = (Path::new(&repo.path), &world.settings.folders.scratch);
        let failed = |error: GitError| unreadable(repo, &error);
        let signing = Signing::of_person(path, scratch).await.map_err(failed)?;
        let by = (&by, &*signing);
        let begun = begin_at(path, scratch, &snapshot.commit_id, &message, by).await;
        if let Some(why) = signing.failure() {
            tracing::warn!(attempt = %id, why, "the commit that a fork begins from is not signed");
        }
        begun.map(Some).map_err(failed)
    }

    /// The repositories of the other attempt that the project still has, at their target branches.
    pub fn chosen<'a>(&'a self, context: &'a StartContext) -> Vec<(&'a Repo, &'a str)> {
        let of = |known: &'a AttemptRepo| {
            let repo = context.repos.iter().find(|repo| repo.repo_id == known.repo_id)?;
            Some((repo, known.target_branch.as_str()))
        };
        self.attempt.repos.iter().filter_map(of).collect()
    }
}

/// The host that has to begin the fork: that of the other attempt, if its daemon is alive and can run the
/// executor. `None`: the start is no fork, the attempt is unknown, or any host may begin it.
pub async fn host(
    world: &World,
    wanted: Option<(AttemptId, Option<u32>)>,
    demand: &Demand,
) -> Result<Option<String>, Refusal> {
    let Some((id, _)) = wanted else { return Ok(None) };
    let Some(attempt) = world.journal.attempt(id).await? else { return Ok(None) };
    if !world.host.has_lease {
        return Ok(Some(attempt.host));
    }
    let begins = |host: &Host| {
        host.host_id == attempt.host
            && host.liveness().is_there()
            && host.role != HostRole::Gateway
            && host.has(demand)
    };
    let begins = world.journal.hosts().await?.iter().any(begins);
    Ok(Some(attempt.host).filter(|_| begins))
}

/// Finds the snapshot; `None` if the start is no fork. Waits up to a minute for the snapshot of a turn that
/// has just ended.
///
/// # Errors
/// The attempt is unknown or of another project, the turn has no snapshot, or this host can't get it.
pub async fn source(
    world: &World,
    context: &StartContext,
    wanted: Option<(AttemptId, Option<u32>)>,
) -> Result<Option<Source>, Refusal> {
    let Some((id, turn)) = wanted else { return Ok(None) };
    let Some(attempt) = world.journal.attempt(id).await? else {
        let message = format!("there is no attempt {id}");
        return Err(Refusal::new(Code::AttemptNotFound, message)
            .hint("Call the tool again with from_attempt_id from list_task_attempts.")
            .detail("path", "from_attempt_id")
            .detail("attempt_id", id.to_string()));
    };
    if attempt.project_id != context.task.project_id {
        let message = format!(
            "attempt {id} is of another project ({}), which has other repositories",
            attempt.project_name
        );
        return Err(Refusal::new(Code::InvalidArgument, message)
            .hint("Call the tool again with from_attempt_id from list_task_attempts.")
            .detail("path", "from_attempt_id"));
    }
    // Without a turn the last one is meant, also if it has just ended: wait for its snapshot.
    let failed = world.journal.snapshot_stands(id, SNAPSHOT_TIMEOUT).await?;
    let turns = world.journal.snapshot_turns(id).await?;
    if let Some(reason) = failed.filter(|_| turn.is_none_or(|turn| !turns.contains(&turn))) {
        return Err(no_snapshot(id, &reason, &turns));
    }
    let turn = pick(id, turn, &turns)?;
    let snapshots = world.journal.turn_snapshot(id, turn).await?;
    if attempt.host != world.host.id {
        let is_last = turns.last() == Some(&turn);
        let had = have(world, &attempt, (turn, &snapshots)).await;
        had.map_err(|why| not_had(&attempt, &why, is_last))?;
    }
    let fork = Fork { attempt_id: id, turn };
    Ok(Some(Source { fork, attempt, snapshots }))
}

/// Fetches, into this host's repositories, what another host's attempt had at the end of a turn. `Err` is a
/// sentence.
async fn have(
    world: &World,
    attempt: &Attempt,
    (turn, snapshots): (u32, &[TurnSnapshot]),
) -> Result<(), String> {
    for repo in &attempt.repos {
        ensure_base(world, repo, attempt.fork.is_some()).await?;
        if let Some(snapshot) = snapshots.iter().find(|it| it.repo == repo.name) {
            have_turn(world, attempt, repo, (turn, &snapshot.commit_id)).await?;
        }
    }
    Ok(())
}

/// The refusal where the snapshot is on another host: the board keeps only that of the last turn.
fn not_had(attempt: &Attempt, why: &str, is_last: bool) -> Refusal {
    let Attempt { attempt_id: id, host, .. } = attempt;
    let message = format!("nothing can begin from attempt {id} on another host than {host}: {why}");
    let hint = if is_last {
        format!("Call the tool again when the daemon of host {host} runs again.")
    } else {
        "Call the tool again without from_turn. The board has the files of the last turn alone."
            .to_owned()
    };
    Refusal::new(Code::WorkspaceFailed, message)
        .hint(hint)
        .detail("path", "from_attempt_id")
        .detail("host", host.as_str())
}

/// How long a start waits for the snapshot that it begins from. In a large repository that takes seconds.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_mins(1);

fn no_snapshot(attempt: AttemptId, reason: &str, turns: &[u32]) -> Refusal {
    let message = format!("the last turn of attempt {attempt} has no snapshot: {reason}");
    let hint = match turns.last() {
        Some(last) => format!(
            "Call the tool again with from_turn = {last}, or when what the message names is fixed."
        ),
        None => "Call the tool again when what the message names is fixed.".to_owned(),
    };
    Refusal::new(Code::WorkspaceFailed, message)
        .hint(hint)
        .detail("path", "from_attempt_id")
        .detail("turns", turns.to_vec())
}

/// The turn that was asked for, else the last one with a snapshot.
fn pick(attempt: AttemptId, wanted: Option<u32>, turns: &[u32]) -> Result<u32, Refusal> {
    let Some(last) = turns.last().copied() else {
        let message = format!("no turn of attempt {attempt} has a snapshot yet");
        return Err(Refusal::new(Code::TurnNotFound, message)
            .hint(format!(
                "Call wait_for_attempts with attempt_ids = [\"{attempt}\"], then the tool again."
            ))
            .detail("path", "from_attempt_id")
            .detail("turns", Vec::<u32>::new()));
    };
    let turn = wanted.unwrap_or(last);
    if turns.contains(&turn) {
        return Ok(turn);
    }
    let message = format!(
        "attempt {attempt} has no snapshot of a turn {turn}; the last one is of turn {last}"
    );
    Err(Refusal::new(Code::TurnNotFound, message)
        .hint(format!("Call the tool again with from_turn = {last}."))
        .detail("path", "from_turn")
        .detail("turns", turns.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_turn_is_taken_unless_another_one_is_named() {
        let id = AttemptId::new();
        assert_eq!(pick(id, None, &[1, 2, 4]), Ok(4));
        assert_eq!(pick(id, Some(2), &[1, 2, 4]), Ok(2));
        let refusal = pick(id, Some(3), &[1, 2, 4]).unwrap_err();
        assert_eq!(refusal.code, Code::TurnNotFound);
        assert_eq!(refusal.hint, "Call the tool again with from_turn = 4.");
        assert_eq!(refusal.details["turns"], serde_json::json!([1, 2, 4]));
        assert_eq!(pick(id, None, &[]).unwrap_err().code, Code::TurnNotFound);
    }
}
