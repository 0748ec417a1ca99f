//! Makes an attempt's own repository follow its branch in the person's repository, after Provost has
//! moved that branch.

use std::path::Path;

use super::{branch_reference, head_reference, held};
use crate::workspace::git::GitError;
use crate::workspace::references;
use crate::workspace::source::Source;

/// Sets the branch in the attempt's own repository to `new`; its objects are there already, because they
/// are borrowed. Idempotent. A branch that is at neither `old` nor `new` stays: the agent has moved it.
pub async fn follow(
    source: &Source,
    common: &Path,
    (new, old): (&str, &str),
    reason: &str,
) -> Result<(), GitError> {
    let held = held::held(&source.own, common, &source.worktree()).await?;
    let git = || held::git(&source.own, held.as_ref());
    let branch = source.branch_ref();
    let tip = git().text(&["rev-parse", "--verify", "--quiet", &branch]).await.unwrap_or_default();
    if tip == old {
        git().text(&["update-ref", "-m", reason, &branch, new, old]).await?;
    }
    if tip == old || tip == new {
        let shown = git().text(&["symbolic-ref", "--quiet", "HEAD"]).await.ok();
        references::set(&source.repo, &branch_reference(source.attempt), new, None, reason).await?;
        if shown.as_ref() == Some(&branch) {
            let head = head_reference(source.attempt);
            references::set(&source.repo, &head, new, None, reason).await?;
        }
    }
    Ok(())
}
