//! Where the files of attempts are, for every answer about an attempt.

use std::collections::{BTreeMap, HashMap};

use provost_actors::attempt::provision::Provision;
use provost_actors::ids::AttemptId;
use provost_actors::refusal::Refusal;

use super::{Domain, blocking};
use crate::api::attempts::Worktree;

impl Domain {
    /// The paths of the worktrees of these attempts. An attempt whose folder is not recorded is absent.
    pub(super) async fn worktrees(
        &self,
        attempts: &[AttemptId],
    ) -> Result<HashMap<AttemptId, Worktree>, Refusal> {
        let mut found: HashMap<AttemptId, BTreeMap<String, String>> = HashMap::new();
        for (attempt, folder, repo) in self.store.worktree_folders(attempts).await? {
            let path = self.world.settings.folders.worktrees.join(folder).join(&repo);
            let path = path.to_string_lossy().into_owned();
            found.entry(attempt).or_default().insert(repo, path);
        }
        Ok(found.into_iter().map(|(attempt, paths)| (attempt, worktree(paths))).collect())
    }

    /// The worktree of one attempt; empty if the store can't be read. This is part of answers that report
    /// a change, which must not be lost because of it.
    pub(super) async fn worktree(&self, attempt: AttemptId) -> Worktree {
        let found = self.worktrees(&[attempt]).await.unwrap_or_default().remove(&attempt);
        found.unwrap_or_default()
    }

    /// What the worktrees of an attempt were provided with (ports, credentials, setup results). `None`:
    /// nothing is configured, or its file can't be read, which is logged.
    pub(super) async fn provision(&self, attempt: AttemptId) -> Option<Provision> {
        let dir = self.world.settings.attempt_dir(attempt);
        if !Provision::is_kept(&dir) {
            return None;
        }
        let found = blocking(move || Provision::read(&dir)).await.ok()?;
        let found = found.inspect_err(
            |error| tracing::warn!(%attempt, %error, "what it was provided with can't be read"),
        );
        found.ok().filter(|found| *found != Provision::default())
    }
}

/// One path if there is one repository, else the paths by repository.
fn worktree(mut paths: BTreeMap<String, String>) -> Worktree {
    match paths.pop_first() {
        Some((_, only)) if paths.is_empty() => Worktree::One(only),
        first => {
            paths.extend(first);
            Worktree::Each(paths)
        }
    }
}
