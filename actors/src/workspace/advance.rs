//! Moves a branch to a commit by compare-and-swap. A checkout that shows the branch follows, or
//! nothing moves. The same call continues one that was cut off.
//!
//! ```text
//!  lock the checkout's index ─▶ switch its files ─▶ move the branch ─▶ keep the index ─▶ unlock
//!       │ locked                  │ in the way          │ it has moved: switch back
//!       ▼                         ▼                     ▼
//!  nothing has changed        nothing has changed    nothing has changed
//! ```

use std::path::PathBuf;

use super::checked_out::{self, CheckedOut, InTheWay};
use super::git::{self, GitError};
use crate::failpoint;

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
}

#[derive(Debug)]
pub enum Advanced {
    Moved,
    /// The branch is elsewhere, or gone.
    Elsewhere(Option<String>),
    /// A checkout can't follow.
    InTheWay {
        checkout: PathBuf,
        why: InTheWay,
    },
}

/// Moves the branch. Call it in the repository's turn.
pub async fn advance(to: &Advance) -> Result<Advanced, GitError> {
    let mut locked: Vec<(PathBuf, CheckedOut)> = Vec::new();
    for checkout in checked_out::of_branch(&to.repo, &to.branch).await? {
        let following = async {
            let following = CheckedOut::lock(&checkout, &to.scratch, &to.mark).await?;
            failpoint::hit("advance", "locked");
            match following.switch(&to.old, &to.new).await {
                Ok(()) => Ok(following),
                Err(why) => {
                    following.unlock().await?;
                    Err(why)
                }
            }
        };
        match following.await {
            Ok(following) => locked.push((checkout, following)),
            Err(why) => {
                back(to, locked).await?;
                return Ok(Advanced::InTheWay { checkout, why });
            }
        }
    }
    failpoint::hit("advance", "switched");
    let reference = format!("refs/heads/{}", to.branch);
    let update = ["update-ref", "-m", &to.reason, &reference, &to.new, &to.old];
    if let Err(error) = git::run(&to.repo, &update).await {
        match git::branch_tip(&to.repo, &to.branch).await? {
            // An earlier daemon moved it.
            Some(tip) if tip == to.new => {}
            tip => {
                back(to, locked).await?;
                return if tip.as_deref() == Some(&to.old) {
                    Err(error)
                } else {
                    Ok(Advanced::Elsewhere(tip))
                };
            }
        }
    }
    failpoint::hit("advance", "moved");
    for (_, following) in locked {
        following.keep().await?;
        failpoint::hit("advance", "kept");
    }
    Ok(Advanced::Moved)
}

/// Switches the checkouts back.
async fn back(to: &Advance, locked: Vec<(PathBuf, CheckedOut)>) -> Result<(), GitError> {
    for (path, following) in locked {
        if let Err(error) = following.switch(&to.new, &to.old).await {
            tracing::error!(checkout = %path.display(), %error, "a checkout can't be switched back");
        }
        following.unlock().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
