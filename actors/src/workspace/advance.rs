//! Moves a branch to a commit by compare-and-swap. A checkout that shows the branch follows, or
//! nothing moves.
//!
//! ```text
//!  lock the checkout's index ─▶ switch its files ─▶ move the branch ─▶ install the index, unlock
//!       │ locked                  │ in the way          │ it has moved
//!       ▼                         ▼                     ▼
//!  nothing has changed          switch back, unlock: nothing has changed
//! ```
//!
//! An error leaves the locks. The same call then, also of a later daemon, goes by where the
//! branch is: its checkouts are completed if the branch has the commit, and put back otherwise.

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

/// For how long, in milliseconds, git waits for another program's locks of references, which are held for
/// moments.
const PATIENT: [&str; 4] =
    ["-c", "core.filesRefLockTimeout=5000", "-c", "core.packedRefsTimeout=5000"];

#[derive(Clone, Debug)]
pub struct Advance {
    pub repo: PathBuf,
    pub scratch: PathBuf,
    pub branch: String,
    /// Where the branch is expected.
    pub old: String,
    pub new: String,
    /// Names this move, for a daemon that continues it.
    pub mark: String,
    /// For the branch's log.
    pub reason: String,
    /// The attempt whose branch it is: its own repository and its worktree follow. `None`: it is a person's.
    pub of_attempt: Option<Source>,
}

/// How a move ended. No checkout is locked any longer.
#[derive(Debug)]
pub enum Advanced {
    /// The branch has the commit.
    Moved,
    /// The branch is elsewhere, or gone, and does not have the commit.
    Elsewhere(Option<String>),
    /// A checkout can't follow. Nothing has changed.
    InTheWay { checkout: PathBuf, why: InTheWay },
    /// git does not move it. Nothing has changed.
    Failed(GitError),
}

/// Moves the branch. Call it in the repository's turn, and again after an error.
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
    // Whatever happened, now or under an earlier daemon: the branch decides.
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

/// Locks and switches all checkouts of the branch.
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

async fn swap(to: &Advance) -> Result<(), GitError> {
    let reference = format!("refs/heads/{}", to.branch);
    let update = ["update-ref", "--no-deref", "-m", &to.reason, &reference, &to.new, &to.old];
    git::run(&to.repo, &[&PATIENT[..], &update].concat()).await?;
    failpoint::hit("advance", "moved");
    Ok(())
}

/// Whether the branch was moved: it is at the commit, or others are on top of that.
async fn has_moved(to: &Advance, tip: Option<&str>) -> Result<bool, GitError> {
    let Some(tip) = tip else { return Ok(false) };
    let has = async |tip: &str, commit: &str| {
        Ok::<_, GitError>(git::merge_base(&to.repo, commit, tip).await?.as_deref() == Some(commit))
    };
    if tip == to.new || tip == to.old {
        return Ok(tip == to.new);
    }
    // A move back goes to a commit that the branch has anyway.
    Ok(has(tip, &to.new).await? && (has(&to.new, &to.old).await? || !has(tip, &to.old).await?))
}

/// Completes what has begun in the checkouts, or puts it back, and unlocks them.
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
            // Its files are gone, or are another checkout's by now.
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
