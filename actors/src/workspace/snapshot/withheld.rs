//! Files that no commit of Provost has, whether or not git ignores them: credentials of which a worktree
//! got a copy.

use std::path::Path;

use super::{LISTING_MAX, Snapshot, SnapshotError, Source, whole};
use crate::workspace::git::{self, GitError};

impl Source {
    /// A commit that changes a withheld file, among those that `commit` has and its base and the target
    /// branch lack; `None`: there is none. Such a commit would carry the credential to the target.
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
    /// Takes the withheld files out of an index; `None`: the snapshot's own. Those that HEAD has stay: a
    /// merge of other work may have brought them.
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
