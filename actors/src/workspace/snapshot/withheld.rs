//! Files that no commit of Provost has, whether or not git ignores them: credentials that a
//! worktree got a copy of.

use std::path::Path;

use super::{LISTING_MAX, Snapshot, SnapshotError, Source, whole};
use crate::workspace::git::{self, GitError};

impl Source {
    /// A commit that brings what is withheld, of those that a commit has and its base and the
    /// target branch have not.
    pub async fn credential_in(
        &self,
        commit: &str,
        base: &str,
    ) -> Result<Option<String>, GitError> {
        if self.withheld.is_empty() {
            return Ok(None);
        }
        let mut args =
            vec!["--literal-pathspecs", "rev-list", "--max-count=1", commit, "--not", base];
        let target = git::branch_tip(&self.repo, &self.target_branch).await?;
        args.extend(target.as_deref());
        args.push("--");
        args.extend(self.withheld.iter().map(String::as_str));
        let found = git::run(&self.repo, &args).await?;
        Ok(Some(found).filter(|found| !found.is_empty()))
    }
}

impl Snapshot {
    /// Takes what is withheld out of an index; `None`: the snapshot's own. What is in the commit
    /// that is checked out stays: a merge of other work may have brought it.
    pub(in crate::workspace) async fn withhold(
        &self,
        index: Option<&Path>,
    ) -> Result<(), SnapshotError> {
        if self.withheld.is_empty() {
            return Ok(());
        }
        let git = || {
            let mut git = self.run();
            git.command.env("GIT_LITERAL_PATHSPECS", "1");
            git.command.envs(index.map(|index| ("GIT_INDEX_FILE", index)));
            git
        };
        let mut args = vec![
            "diff-index",
            "--cached",
            "--diff-filter=A",
            "--name-only",
            "-z",
            &self.head,
            "--",
        ];
        args.extend(self.withheld.iter().map(String::as_str));
        let added = whole(git().output(&args, LISTING_MAX).await?)?;
        self.update_index(git(), &["--force-remove", "-z", "--stdin"], added).await
    }
}
