//! Moves a branch to a commit by compare-and-swap. The checkouts that have the branch checked out follow,
//! or nothing moves.
//!
//! ```text
//!  lock the checkout's index ─▶ switch its files ─▶ move the branch ─▶ install the index, unlock
//!       │ locked                  │ in the way          │ it has moved
//!       ▼                         ▼                     ▼
//!  nothing has changed          switch back, unlock: nothing has changed
//! ```
//!
//! An error, or the daemon's death, leaves the locks. The same call must then be made again, if need be by
//! the next daemon. It looks where the branch is: if the branch has the commit, it completes the checkouts,
//! and otherwise it puts them back.

use std::path::{Path, PathBuf};

use super::checkouts::{self, Checkout};
use super::git::{self, GitError};
use super::index_lock::IndexLock;
pub use super::locked_checkout::InTheWay;
use super::locked_checkout::LockedCheckout;
use super::own;
use super::source::Source;
use super::under_way::ended_by;
use crate::failpoint;

/// A move of one branch. All of it is on record, so that a later daemon can make the same call.
#[derive(Clone, Debug)]
pub struct Advance {
    /// The person's repository.
    pub repo: PathBuf,
    /// The folder for scratch repositories.
    pub scratch: PathBuf,
    /// Without `refs/heads/`.
    pub branch: String,
    /// The commit at which the branch is expected. Elsewhere, it is not moved.
    pub old: String,
    /// The commit to which it moves; its objects are in the repository already.
    pub new: String,
    /// Names this move in the locks of the checkouts, so that a later daemon recognizes its own.
    pub mark: String,
    /// For the branch's reflog.
    pub reason: String,
    /// The attempt whose branch it is: its own repository and its worktree follow, too. `None`: it is a
    /// branch of the person's.
    pub of_attempt: Option<Source>,
}

/// How a move ended. In each case, no checkout is locked any more.
#[derive(Debug)]
pub enum Advanced {
    /// The branch has the new commit, and so have its checkouts.
    Moved,
    /// The branch is at this commit, or gone, and does not have the new commit. Nothing was moved.
    Elsewhere(Option<String>),
    /// This checkout of the branch can't follow. Nothing has changed.
    InTheWay { checkout: PathBuf, why: InTheWay },
    /// git refused to move the branch. Nothing has changed.
    Failed(GitError),
}

/// Moves the branch, and its checkouts with it. Call it in the repository's turn
/// ([`Repositories::in_turn`](super::Repositories::in_turn)), and with the same values again after an
/// error.
///
/// # Errors
/// Something failed between the first lock and the last: the checkouts may be locked and half switched
/// until the call is repeated. A branch that did not move for a known reason is no error, but an
/// [`Advanced`].
pub async fn advance(to: &Advance) -> Result<Advanced, GitError> {
    let common = git::common_dir(&to.repo).await?;
    let mut checkouts = checkouts::all(&to.repo, &to.branch).await?;
    if let Some(source) = &to.of_attempt {
        checkouts.push(checkouts::of_attempt(source, &common).await?);
    }
    let mut why = None;
    if git::branch_tip(&to.repo, &to.branch).await?.as_ref() == Some(&to.old) {
        let moved = match follow(to, &common, &checkouts).await {
            Ok(following) => swap(to).await.map(|()| following).map_err(Advanced::Failed),
            Err(in_the_way) => Err(in_the_way),
        };
        match moved {
            Ok(following) => {
                for checkout in following {
                    checkout.keep().await?;
                    failpoint::hit("advance", "kept");
                }
            }
            Err(failed) => why = Some(failed),
        }
    }
    // Whatever happened, now or under an earlier daemon, the branch alone decides how the checkouts end.
    // `update-ref` may fail after it has moved the branch, and another program may have moved it since.
    let tip = git::branch_tip(&to.repo, &to.branch).await?;
    let has_moved = has_moved(to, tip.as_deref()).await?;
    if let Some(source) = to.of_attempt.as_ref().filter(|_| has_moved) {
        own::follow(source, &common, (&to.new, &to.old), &to.reason).await?;
        failpoint::hit("advance", "followed");
    }
    settle(to, &common, &checkouts, has_moved).await?;
    Ok(match why {
        _ if has_moved => Advanced::Moved,
        Some(why) if tip.as_ref() == Some(&to.old) => why,
        _ => Advanced::Elsewhere(tip),
    })
}

/// Locks and switches all checkouts of the branch. The ones that were switched before an error stay so;
/// `settle` puts them back.
async fn follow(
    to: &Advance,
    common: &Path,
    checkouts: &[Checkout],
) -> Result<Vec<LockedCheckout>, Advanced> {
    let mut followed = Vec::new();
    for checkout in checkouts.iter().filter(|it| it.is_of_branch) {
        let following = async {
            if let Some(sign) = checkout.under_way {
                let ended_by = ended_by(&checkout.admin);
                return Err(InTheWay::UnderWay { sign, ended_by });
            }
            let mut it = LockedCheckout::lock(checkout, common, &to.scratch, &to.mark).await?;
            failpoint::hit("advance", "locked");
            it.switch(&to.old, &to.new).await.map(|()| it)
        };
        match following.await {
            Ok(following) => followed.push(following),
            Err(why) => return Err(Advanced::InTheWay { checkout: checkout.path.clone(), why }),
        }
    }
    failpoint::hit("advance", "switched");
    Ok(followed)
}

/// Moves the branch from `old` to `new`, or fails. `--no-deref`: the branch itself moves, never another
/// one that it may be a symbolic reference to.
async fn swap(to: &Advance) -> Result<(), GitError> {
    let reference = format!("refs/heads/{}", to.branch);
    let update = ["update-ref", "--no-deref", "-m", &to.reason, &reference, &to.new, &to.old];
    git::run(&to.repo, &update).await?;
    failpoint::hit("advance", "moved");
    Ok(())
}

/// Whether the branch was moved: it is at the new commit, or at a later one that has it.
async fn has_moved(to: &Advance, tip: Option<&str>) -> Result<bool, GitError> {
    let Some(tip) = tip else { return Ok(false) };
    let has = async |tip: &str, commit: &str| {
        Ok::<_, GitError>(git::merge_base(&to.repo, commit, tip).await?.as_deref() == Some(commit))
    };
    if tip == to.new || tip == to.old {
        return Ok(tip == to.new);
    }
    // In a move back, `new` is an ancestor of `old`, and a branch that never moved has it too. The branch
    // counts as moved only if it has lost `old`.
    Ok(has(tip, &to.new).await? && (has(&to.new, &to.old).await? || !has(tip, &to.old).await?))
}

/// Completes what has begun in the checkouts that this move has locked, or puts it back, and unlocks
/// them.
async fn settle(
    to: &Advance,
    common: &Path,
    checkouts: &[Checkout],
    has_moved: bool,
) -> Result<(), GitError> {
    for checkout in checkouts {
        if !IndexLock::is_held(&checkout.admin, &to.mark).await? {
            continue;
        }
        let is_moved = has_moved && checkout.is_of_branch;
        let (from, side) = if is_moved { (&to.old, &to.new) } else { (&to.new, &to.old) };
        let settled = match LockedCheckout::lock(checkout, common, &to.scratch, &to.mark).await {
            Ok(it) => it.settle(from, side).await,
            // The files are gone, or belong to another checkout now: only the lock is released.
            Err(InTheWay::NotIt) => {
                IndexLock::give_up(&checkout.admin, &to.mark).await.map_err(Into::into)
            }
            Err(why) => Err(why),
        };
        settled.map_err(|why| {
            let path = checkout.path.display();
            GitError::Failed(format!("the checkout {path} can't be completed or put back: {why}"))
        })?;
        failpoint::hit("advance", "settled");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
