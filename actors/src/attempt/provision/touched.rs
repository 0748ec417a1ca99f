//! What a setup changed beside what it was to make: tracked files, which become part of the attempt's
//! changes, and the configuration of the person's repository.

use std::collections::BTreeSet;
use std::path::Path;

use super::{ScriptRun, source};
use crate::journal::{Attempt, AttemptRepo};
use crate::workspace::changes::{Change, Status};
use crate::workspace::git;
use crate::workspace::quote;
use crate::workspace::snapshot::{Snapshot, SnapshotError};
use crate::world::World;

/// How many paths, and how many settings, are named at most.
const NAMED: usize = 100;

/// What a setup may change, as it was before. What can't be read (`None`) is not compared.
pub(super) struct Before {
    tracked: Option<Vec<Change>>,
    settings: Option<BTreeSet<String>>,
}

impl Before {
    /// Reads it as it is now.
    pub async fn look(world: &World, attempt: &Attempt, repo: &AttemptRepo) -> Self {
        let tracked = tracked(world, attempt, repo).await.inspect_err(|error| {
            tracing::warn!(attempt = %attempt.attempt_id, %error, "what a setup changes can't be told");
        });
        Self { tracked: tracked.ok(), settings: settings(Path::new(&repo.path)).await }
    }

    /// Adds what differs now to the record of the setup's run. Returns a line for the log for each kind
    /// of change.
    pub async fn compare(
        self,
        world: &World,
        attempt: &Attempt,
        repo: &AttemptRepo,
        run: &mut ScriptRun,
    ) -> Vec<String> {
        let now = Self::look(world, attempt, repo).await;
        let mut lines = Vec::new();
        if let (Some(before), Some(now)) = (self.tracked, now.tracked) {
            let changed = now.iter().filter(|change| !before.contains(change));
            let changed = changed.map(|change| quote::show(&repo.name, &change.path));
            let changed: Vec<String> = changed.take(NAMED).collect();
            lines.extend(line(
                "The setup changed tracked files, which are part of the attempt's changes now",
                &changed,
            ));
            add(&mut run.changed, changed);
        }
        if let (Some(before), Some(now)) = (self.settings, now.settings) {
            let changed: BTreeSet<&str> =
                before.symmetric_difference(&now).filter_map(|it| it.split('\n').next()).collect();
            let changed: Vec<String> = changed.into_iter().take(NAMED).map(str::to_owned).collect();
            let what = format!("The setup changed settings in the configuration of {}", repo.path);
            lines.extend(line(&what, &changed));
            add(&mut run.configured, changed);
        }
        lines
    }
}

/// Adds names, each once.
fn add(to: &mut Vec<String>, names: Vec<String>) {
    to.extend(names);
    to.sort_unstable();
    to.dedup();
}

/// A line for the log; `None` if nothing has changed.
fn line(what: &str, names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
}

/// The tracked files of the worktree that differ from the merge base with the target branch. An added file is
/// not one of them.
async fn tracked(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
) -> Result<Vec<Change>, SnapshotError> {
    let source = source(world, attempt, repo).await?;
    let snapshot = Snapshot::take_from(&source, Some(&repo.base_commit)).await?;
    let mut changes = snapshot.changes().await?;
    changes.retain(|change| change.status != Status::Added);
    Ok(changes)
}

/// The settings in the repository's own configuration, each as name and value with a newline in between
/// (git-config(1), `-z`).
async fn settings(repo: &Path) -> Option<BTreeSet<String>> {
    let listed = git::run(repo, &["config", "--local", "--list", "-z"]).await.ok()?;
    Some(listed.split('\0').map(str::to_owned).collect())
}
