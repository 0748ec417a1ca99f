//! The methods behind `provost gc`: worktrees that are not needed any more, and the trash.
//! Only a person can do this; no tool does.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use provost_actors::attempt::{self, Collect, CollectVerdict, Collection};
use provost_actors::blocking::if_there;
use provost_actors::event::Timestamp;
use provost_actors::gateway;
use provost_actors::ids::AttemptId;
use provost_actors::journal::Attempts as _;
use provost_actors::process::proc;
use provost_actors::refusal::Refusal;
use provost_actors::workspace::cache::Cache;
use provost_actors::workspace::removal::remove;
use provost_actors::workspace::turn_snapshot::forget;

use super::{Domain, blocking};
use crate::api::commands::{
    AttemptLine, CachedSetup, CachedSetups, Collected, CollectedAttempt, EmptyTrashParams,
    ForgottenTurns, GcParams, Trash, Trashed,
};

impl Domain {
    /// Attempt by attempt of this host: each is proved and taken away by its owner.
    pub(super) async fn gc(&self, wish: GcParams) -> Result<Collected, Refusal> {
        let how = Collect { is_dry: !wish.yes, snapshot: wish.snapshot, by_finish: false };
        let before = before(wish.older_than_secs);
        let mut attempts = Vec::new();
        for attempt in self.store.overview(true).await? {
            let AttemptLine { attempt_id, project_id, updated_at, ref host, .. } = attempt.line;
            let is_own = host.as_ref() == Some(&self.world.host.id);
            let is_meant = (is_own || self.world.host.has_lease)
                && wish.project_id.is_none_or(|project| project == project_id)
                && updated_at <= before;
            if !is_meant {
                continue;
            }
            let collection = if is_own {
                gateway::collect(&self.gateway, attempt_id, how).await?
            } else {
                self.collect_former(attempt_id, how).await?
            };
            if let Some(mut collection) = collection {
                // What was to be saved is of interest only where it was not.
                if collection.verdict == CollectVerdict::Collected {
                    collection.reason = None;
                }
                attempts.push(CollectedAttempt {
                    attempt_id,
                    task_title: attempt.line.task_title,
                    project_name: attempt.line.project_name,
                    workspace_branch: attempt.line.workspace_branch,
                    collection,
                });
            }
        }
        let turns = self.forget_turns(&wish).await?;
        Ok(Collected { dry_run: how.is_dry, attempts, turns })
    }

    /// Takes away the worktrees of an attempt that is at another host now.
    async fn collect_former(
        &self,
        id: AttemptId,
        how: Collect,
    ) -> Result<Option<Collection>, Refusal> {
        if !attempt::has_worktrees(&self.world, id).await.unwrap_or(false) {
            return Ok(None);
        }
        let Some(found) = self.store.attempt(id).await? else { return Ok(None) };
        Ok(attempt::collect_former(&self.world, &found, how.is_dry).await)
    }

    /// Removes the old snapshots of turns of attempts that have no worktrees any more: first
    /// their references, then their rows, so that a call that is cut off can be made again.
    async fn forget_turns(&self, wish: &GcParams) -> Result<Vec<ForgottenTurns>, Refusal> {
        let before = before(self.world.settings.keep_snapshots.as_secs());
        let mut all = Vec::new();
        for (attempt_id, turns) in self.store.old_snapshots(before, wish.project_id).await? {
            if !attempt::was_collected(&self.world, attempt_id).await.unwrap_or(false) {
                continue;
            }
            let mut kept = None;
            if wish.yes {
                for repo in self.store.workspace(attempt_id).await?.repos {
                    let forgotten = forget(Path::new(&repo.path), attempt_id, &turns).await;
                    kept = kept.or(forgotten.err().map(|error| format!("{}: {error}", repo.path)));
                }
                if kept.is_none() {
                    self.store.forget_snapshots(attempt_id).await?;
                    attempt::wake_pushes(&self.world);
                }
            }
            all.push(ForgottenTurns { attempt_id, turns, kept });
        }
        Ok(all)
    }

    pub(super) async fn empty_cache(
        &self,
        wish: EmptyTrashParams,
    ) -> Result<CachedSetups, Refusal> {
        let cache = self.world.settings.cache.clone();
        blocking(move || empty_cache(&cache, &wish))
            .await?
            .map_err(|error| Refusal::internal(format!("the cache: {error}")))
    }

    pub(super) async fn empty_trash(&self, wish: EmptyTrashParams) -> Result<Trash, Refusal> {
        let trash = self.world.settings.trash_dir.clone();
        blocking(move || empty(&trash, &wish))
            .await?
            .map_err(|error| Refusal::internal(format!("the trash: {error}")))
    }
}

/// Removes what the cache of setups has, but for what was used lately.
fn empty_cache(cache: &Cache, wish: &EmptyTrashParams) -> io::Result<CachedSetups> {
    let before = before(wish.older_than_secs);
    let mut entries = Vec::new();
    for entry in cache.entries()? {
        let used = entry.used.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let used = Timestamp::from_millis(i64::try_from(used).unwrap_or(i64::MAX));
        let (verdict, reason) = match used {
            _ if used > before => ("kept", Some("it was used lately".to_owned())),
            _ if !wish.yes => ("removable", None),
            _ => match cache.remove(&entry) {
                Ok(()) => ("removed", None),
                Err(error) => ("kept", Some(error.to_string())),
            },
        };
        let (name, bytes, verdict) = (entry.name, entry.bytes, verdict.to_owned());
        entries.push(CachedSetup { name, bytes, used, verdict, reason });
    }
    Ok(CachedSetups { dry_run: !wish.yes, entries })
}

pub(super) fn before(older_than_secs: u64) -> Timestamp {
    let age = Duration::from_secs(older_than_secs).as_millis();
    let age = i64::try_from(age).unwrap_or(i64::MAX);
    Timestamp::from_millis(Timestamp::now().millis().saturating_sub(age))
}

fn empty(trash: &Path, wish: &EmptyTrashParams) -> io::Result<Trash> {
    let before = before(wish.older_than_secs);
    let mut things = Vec::new();
    // A link may lead to what is not ours.
    if fs::symlink_metadata(trash).is_ok_and(|meta| !meta.is_dir()) {
        return Err(io::Error::other(format!("{} is not a folder", trash.display())));
    }
    for entry in if_there(fs::read_dir(trash))?.into_iter().flatten() {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let since = put_there(&name, &entry.metadata()?);
        let kept = if since > before {
            Some("it has not been there for long enough".to_owned())
        } else {
            obstacle(&entry.path())
        };
        let (verdict, reason) = match kept {
            None if !wish.yes => ("removable", None),
            None => match remove(&entry.path()) {
                Ok(()) => ("removed", None),
                Err(error) => ("kept", Some(error.to_string())),
            },
            reason => ("kept", reason),
        };
        things.push(Trashed { name, since, verdict: verdict.to_owned(), reason });
    }
    things.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Trash { dry_run: !wish.yes, trash: things })
}

/// By the UUIDv7 that its name begins with; else by its last change.
fn put_there(name: &str, found: &fs::Metadata) -> Timestamp {
    let id = name.get(..36).and_then(|id| uuid::Uuid::parse_str(id).ok());
    match id.and_then(|id| id.get_timestamp()) {
        Some(at) => {
            let (secs, nanos) = at.to_unix();
            let millis = secs.saturating_mul(1000) + u64::from(nanos / 1_000_000);
            Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
        }
        None => Timestamp::from_millis(found.ctime().saturating_mul(1000)),
    }
}

/// Removing follows no link, but would go into what is mounted.
fn obstacle(path: &Path) -> Option<String> {
    if let Some(mount) = proc::mount_below(path) {
        return Some(format!("{} is mounted in it", mount.display()));
    }
    proc::user_of(path).map(|pid| format!("process {pid} works in it or has a file of it open"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_what_is_old_enough_goes_and_what_a_link_leads_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (trash, outside) = (dir.path().join("trash"), dir.path().join("outside"));
        fs::create_dir_all(trash.join("0192f0c1-2345-7abc-8def-0123456789ab-old/sub")).unwrap();
        fs::create_dir_all(trash.join(format!("{}-new", uuid::Uuid::now_v7()))).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "precious").unwrap();
        symlink(&outside, trash.join("0192f0c1-2345-7abc-8def-0123456789ab-old/sub/link")).unwrap();
        symlink(&outside, trash.join("0192f0c1-2345-7abc-8def-0123456789ac-link")).unwrap();
        let wish = |yes| EmptyTrashParams { yes, older_than_secs: 3600 };
        let answer = empty(&trash, &wish(false)).unwrap();
        let verdicts =
            |answer: &Trash| answer.trash.iter().map(|it| it.verdict.clone()).collect::<Vec<_>>();
        assert_eq!(verdicts(&answer), ["removable", "removable", "kept"]);
        assert_eq!(fs::read_dir(&trash).unwrap().count(), 3, "a dry run");
        let answer = empty(&trash, &wish(true)).unwrap();
        assert_eq!(verdicts(&answer), ["removed", "removed", "kept"]);
        assert_eq!(fs::read_dir(&trash).unwrap().count(), 1);
        assert!(outside.join("file").exists());
    }
}
