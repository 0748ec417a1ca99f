//! The references that keep unmerged work of attempts whose worktrees went to the trash, or whose branch
//! was deleted. Provost never removes one by itself: a person does.

use std::path::Path;

use super::git::{self, GitError};
use crate::event::Timestamp;
use crate::ids::AttemptId;

/// Below it, by the attempt's id: what a removal of worktrees saved.
const SNAPSHOTS: &str = "refs/provost/snapshots/";
/// Below it, by the attempt's id: the tip of a deleted branch.
const BRANCHES: &str = "refs/provost/branches/";

/// One such reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRef {
    /// Its full name.
    pub reference: String,
    pub attempt_id: AttemptId,
    pub commit: String,
    /// When Provost made the commit; `None`: it is a commit of the attempt's, whose date the agent chose.
    pub made_at: Option<Timestamp>,
}

/// The references that a repository has. Others below the same folders, without an attempt's id, are not
/// listed.
pub async fn list(repo: &Path) -> Result<Vec<KeptRef>, GitError> {
    let format = "--format=%(objectname) %(committerdate:unix) %(refname)";
    let listed = git::run(repo, &["for-each-ref", format, "--", SNAPSHOTS, BRANCHES]).await?;
    Ok(listed.lines().filter_map(kept).collect())
}

/// Reads a line of the list: the commit, its date, the reference.
fn kept(line: &str) -> Option<KeptRef> {
    let mut words = line.splitn(3, ' ');
    let (commit, made_at, reference) = (words.next()?, words.next()?, words.next()?);
    let of_snapshot = reference.strip_prefix(SNAPSHOTS);
    let attempt_id = of_snapshot.or_else(|| reference.strip_prefix(BRANCHES))?.parse().ok()?;
    let made_at = of_snapshot.and_then(|_| made_at.parse::<i64>().ok());
    Some(KeptRef {
        reference: reference.to_owned(),
        attempt_id,
        commit: commit.to_owned(),
        made_at: made_at.map(|secs| Timestamp::from_millis(secs.saturating_mul(1000))),
    })
}

/// Removes a reference.
///
/// # Errors
/// It has another commit than when it was listed, or git fails.
pub async fn remove(repo: &Path, kept: &KeptRef) -> Result<(), GitError> {
    let delete = ["update-ref", "--no-deref", "-d", &kept.reference, &kept.commit];
    git::run(repo, &delete).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0192f0c1-2345-7abc-8def-0123456789ab";

    #[test]
    fn only_references_of_attempts_count_and_an_attempts_own_dates_do_not() {
        let made_at = |line: &str| kept(line).map(|it| it.made_at.map(Timestamp::millis));
        assert_eq!(made_at(&format!("abc 12 refs/provost/snapshots/{ID}")), Some(Some(12_000)));
        assert_eq!(made_at(&format!("abc 12 refs/provost/branches/{ID}")), Some(None));
        assert_eq!(made_at(&format!("abc  refs/provost/snapshots/{ID}")), Some(None));
        for other in ["refs/provost/snapshots/mine", "refs/heads/main", "refs/provost/kept/x"] {
            assert_eq!(made_at(&format!("abc 12 {other}")), None);
        }
    }
}
