//! The methods behind `provost gc`: removal of worktrees that are not needed any more, of old snapshots,
//! of cached setups and of the trash. Only a person can call them; no tool does. Without `yes`, each is a
//! dry run.

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
    /// Collects the attempts of this host one by one: the owner of each proves that nothing is lost, and
    /// removes its worktrees. Attempts of other hosts are skipped, apart from worktrees that they left on
    /// this host.
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
                // A reason says what would be lost; once it was saved, the line needs none.
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

    /// Removes the worktrees on this host of an attempt that another host has now. `None`: there are
    /// none.
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

    /// Removes the old turn snapshots of attempts whose worktrees were collected. The references go
    /// before the rows, so that a call that is cut off can be repeated.
    async fn forget_turns(&self, wish: &GcParams) -> Result<Vec<ForgottenTurns>, Refusal> {
        let before = before(self.world.settings.worktrees.keep_snapshots.as_secs());
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

    /// Removes what the cache of setups holds and no worktree has used lately.
    pub(super) async fn empty_cache(
        &self,
        wish: EmptyTrashParams,
    ) -> Result<CachedSetups, Refusal> {
        let cache = self.world.settings.worktrees.cache.clone();
        blocking(move || empty_cache(&cache, &wish))
            .await?
            .map_err(|error| Refusal::internal(format!("the cache: {error}")))
    }

    /// Removes what was moved to the trash long enough ago and no process uses.
    pub(super) async fn empty_trash(&self, wish: EmptyTrashParams) -> Result<Trash, Refusal> {
        let trash = self.world.settings.folders.trash.clone();
        blocking(move || empty(&trash, &wish))
            .await?
            .map_err(|error| Refusal::internal(format!("the trash: {error}")))
    }
}

/// The blocking part of the method of the same name. An entry that can't be removed is listed with the
/// reason.
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

/// The moment so many seconds ago: only what is older is removed.
pub(super) fn before(older_than_secs: u64) -> Timestamp {
    let age = Duration::from_secs(older_than_secs).as_millis();
    let age = i64::try_from(age).unwrap_or(i64::MAX);
    Timestamp::from_millis(Timestamp::now().millis().saturating_sub(age))
}

/// The blocking part of `empty_trash`.
fn empty(trash: &Path, wish: &EmptyTrashParams) -> io::Result<Trash> {
    let before = before(wish.older_than_secs);
    let mut things = Vec::new();
    // If the trash were a link, its target would be emptied.
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

/// When it was put into the trash: by the UUIDv7 that its name begins with, else by the change time of
/// its inode, which a rename sets.
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

/// Why it can't be removed now: something is mounted in it (a removal would go into the mount), or a
/// process uses it.
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
