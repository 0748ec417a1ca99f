//! What a setup changed beside what it was to make: tracked files, which are part of the attempt's
//! changes then, and the configuration of the person's repository.

use std::collections::BTreeSet;
use std::path::Path;

use super::{ScriptRun, source};
use crate::journal::{Attempt, AttemptRepo};
use crate::workspace::changes::{Change, Status};
use crate::workspace::git;
use crate::workspace::quote;
use crate::workspace::snapshot::{Snapshot, SnapshotError};
use crate::world::World;

/// Most paths and settings that are named.
const NAMED: usize = 100;

/// What a setup may change, as it was before. What can't be read is not compared.
pub(super) struct Before {
    tracked: Option<Vec<Change>>,
    settings: Option<BTreeSet<String>>,
}

impl Before {
    pub async fn look(world: &World, attempt: &Attempt, repo: &AttemptRepo) -> Self {
        let tracked = tracked(world, attempt, repo).await.inspect_err(|error| {
            tracing::warn!(attempt = %attempt.attempt_id, %error, "what a setup changes can't be told");
        });
        Self { tracked: tracked.ok(), settings: settings(Path::new(&repo.path)).await }
    }

    /// Puts what is different now into the record of the setup's run. Returns a line for each kind of it.
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

fn add(to: &mut Vec<String>, names: Vec<String>) {
    to.extend(names);
    to.sort_unstable();
    to.dedup();
}

fn line(what: &str, names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
}

/// The tracked files of the worktree that are not as they were committed.
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

/// The settings in the repository's own file: its name and its value each.
async fn settings(repo: &Path) -> Option<BTreeSet<String>> {
    let listed = git::run(repo, &["config", "--local", "--list", "-z"]).await.ok()?;
    Some(listed.split('\0').map(str::to_owned).collect())
}
