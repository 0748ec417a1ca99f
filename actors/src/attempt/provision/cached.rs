//! Spares a setup whose results an earlier one has left in the cache or is about to, and keeps those
//! of one that ran. Only a setup's own results are kept: before any agent has worked in the worktree,
//! and of commits that are no agent's.
//!
//! ```text
//!  look ─ an entry, and nothing at its paths ─▶ Restoring ─ copied ─▶ Restored: no setup
//!    │                                              └─ failed ─▶ NotKept: the setup runs, nothing is kept
//!    ├─ another attempt makes it ─▶ wait (claims.rs), then look again
//!    └─ no entry ─ claim ─▶ NotKept: the setup runs ─ well ─▶ Kept
//!                                                   └─ failed, or not to be kept ─▶ NotKept
//! ```

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::claims::{Claim, ClaimEnd, holder};
use super::signals::SetupSignals;
use super::{RepoProvision, declared};
use crate::blocking::blocking;
use crate::failpoint;
use crate::ids::AttemptId;
use crate::journal::{Attempt, AttemptRepo};
use crate::repo_settings::{AfterRestore, RepoSettings};
use crate::workspace::cache::{self, Cache, Recipe};
use crate::workspace::folder_copy::{Copied, FolderError};
use crate::world::World;

/// What the cache did for a setup, for people and for the next daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheReceipt {
    /// The hash of command, platform and key files; empty if there is none.
    pub key: String,
    pub state: CacheState,
    #[serde(flatten)]
    pub copied: Copied,
    pub ms: u64,
    /// The attempt for whose setup this one waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_for: Option<AttemptId>,
    /// Why the setup was neither restored nor kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheState {
    /// A copy is under way: what lies at the paths may be part of an entry.
    Restoring,
    /// The worktree has the results of an earlier setup.
    Restored,
    /// The setup ran, and its results are in the cache.
    Kept,
    /// The setup runs, or its results are not in the cache.
    NotKept,
}

/// A setup that declares what it depends on and what it makes, in one worktree.
#[derive(Clone)]
pub(super) struct Cached {
    cache: Cache,
    recipe: Recipe,
    attempt: AttemptId,
    /// Why its results may not be kept.
    obstacle: Option<String>,
}

/// Whether the result of a setup that runs will be kept.
pub(super) enum Keeping {
    /// It will, and other attempts wait for it.
    Claimed(Claim),
    /// It will, unless another attempt is making the same entry by then.
    IfFree,
    /// It will not, and why.
    No(String),
}

/// What a setup finds in the cache.
pub(super) enum Looked {
    /// An entry, for a worktree that has nothing at the entry's paths yet.
    There(CacheReceipt),
    /// No entry that could be restored: the setup has to run.
    Missing(CacheReceipt, Keeping),
}

impl Cached {
    /// `None`: the setup declares nothing to cache, or the cache is switched off.
    pub async fn of(
        world: &World,
        attempt: &Attempt,
        repo: &AttemptRepo,
        provided: &RepoProvision,
    ) -> Option<Self> {
        let RepoSettings { setup, .. } = &provided.settings;
        let cache = world.settings.worktrees.cache.clone();
        let paths = setup.cache.as_ref()?.value.clone();
        if cache.max_bytes == 0 || paths.is_empty() {
            return None;
        }
        let recipe = Recipe {
            repo: repo.repo_id.to_string(),
            command: setup.run.as_ref()?.value.to_string(),
            key_files: setup.cache_key.as_ref()?.value.clone(),
            paths,
            runs_again: runs_again(&provided.settings),
            source: world.settings.source(attempt, repo),
        };
        let obstacle = obstacle(world, attempt, repo, provided).await;
        Some(Self { cache, recipe, attempt: attempt.attempt_id, obstacle })
    }

    /// Removes what a restoration that was cut off has left. `Err` is a sentence.
    pub async fn clear(&self) -> Result<(), String> {
        let it = self.clone();
        let cleared = blocking(move || cache::clear(&it.recipe)).await;
        cleared.map_err(|error| format!("part of a cached setup can't be removed: {error}"))
    }

    /// Looks for an entry. If another attempt is about to make it, waits for that, and the status says so.
    /// `None`: a stop came.
    pub async fn look(&self, world: &World, signals: &SetupSignals) -> Option<Looked> {
        let mut waited_for = None;
        let _notice = WaitNotice { world, attempt: self.attempt };
        loop {
            let receipt = |key: &str, state, waited_for| CacheReceipt {
                waited_for,
                ..receipt(key.to_owned(), state)
            };
            let missing = |key: &str, keeping, waited_for| {
                let receipt = receipt(key, CacheState::NotKept, waited_for);
                Some(Looked::Missing(receipt, keeping))
            };
            let (key, is_there, is_clear) = match self.seen().await {
                Ok(seen) => seen,
                Err(error) => return missing("", Keeping::No(error.to_string()), waited_for),
            };
            if is_there && is_clear {
                return Some(Looked::There(receipt(&key, CacheState::Restoring, waited_for)));
            }
            let entry = self.cache.entry(&self.recipe.repo, &key);
            match holder(world, &entry, self.attempt).await {
                Some(holder) if is_clear => {
                    if let Some(by) = holder.attempt() {
                        waited_for = Some(by);
                        world.journal.waits_for_setup(self.attempt, Some(by));
                    }
                    let end = tokio::select! {
                        end = holder.end() => end,
                        _ = signals.stop_beyond(None) => return None,
                    };
                    match end {
                        None | Some(ClaimEnd::Kept) => {}
                        Some(ClaimEnd::Failed) => {
                            return missing(&key, Keeping::IfFree, waited_for);
                        }
                        Some(ClaimEnd::NotKept(why)) => {
                            return missing(&key, Keeping::No(why), waited_for);
                        }
                    }
                }
                Some(_) => return missing(&key, Keeping::IfFree, waited_for),
                None => {
                    let keeping = self.claim(&key).await;
                    match keeping {
                        // Another attempt was faster, or has just ended: look again.
                        Keeping::IfFree => {}
                        Keeping::Claimed(_) if is_clear && self.has(&key).await => {}
                        keeping => return missing(&key, keeping, waited_for),
                    }
                }
            }
        }
    }

    /// Claims the entry for this setup's result, if the result may be kept and no other attempt has
    /// claimed it.
    pub async fn claim(&self, key: &str) -> Keeping {
        if let Some(obstacle) = &self.obstacle {
            return Keeping::No(obstacle.clone());
        }
        match Claim::take(&self.cache.entry(&self.recipe.repo, key), self.attempt).await {
            Ok(claim) => claim.map_or(Keeping::IfFree, Keeping::Claimed),
            Err(error) => Keeping::No(error.to_string()),
        }
    }

    /// The key, whether there is an entry, and whether nothing lies at its paths yet.
    async fn seen(&self) -> Result<(String, bool, bool), FolderError> {
        let it = self.clone();
        blocking(move || {
            let key = it.recipe.key()?;
            let (is_there, is_clear) =
                (it.cache.has(&it.recipe, &key), cache::has_none(&it.recipe)?);
            Ok((key, is_there, is_clear))
        })
        .await
    }

    /// Whether there is an entry.
    async fn has(&self, key: &str) -> bool {
        let (it, key) = (self.clone(), key.to_owned());
        blocking(move || Ok::<_, std::io::Error>(it.cache.has(&it.recipe, &key)))
            .await
            .unwrap_or(false)
    }

    /// Copies the entry into the worktree. `Err` says why not; nothing of the entry is left there then.
    pub async fn restore(&self, begun: CacheReceipt) -> Result<CacheReceipt, String> {
        let (it, key, began) = (self.clone(), begun.key.clone(), Instant::now());
        let taken = blocking(move || it.cache.take(&it.recipe, &key)).await;
        failpoint::hit("cache", "restored");
        match taken {
            Ok(Some(copied)) => {
                Ok(CacheReceipt { state: CacheState::Restored, copied, ms: millis(began), ..begun })
            }
            Ok(None) => Err("the entry has gone".to_owned()),
            Err(error) => {
                self.clear().await?;
                Err(error.to_string())
            }
        }
    }

    /// Makes an entry of what the setup has made, and ends the claim.
    pub async fn keep(&self, looked: CacheReceipt, keeping: Keeping) -> CacheReceipt {
        let keeping = match keeping {
            Keeping::IfFree => self.claim(&looked.key).await,
            keeping => keeping,
        };
        let claim = match keeping {
            Keeping::Claimed(claim) => claim,
            Keeping::No(why) => return CacheReceipt { reason: Some(why), ..looked },
            Keeping::IfFree => {
                let why = "another attempt with the same key is at it".to_owned();
                return CacheReceipt { reason: Some(why), ..looked };
            }
        };
        let (it, key, began) = (self.clone(), looked.key.clone(), Instant::now());
        let kept = blocking(move || it.cache.keep(&it.recipe, &key)).await;
        let ms = millis(began);
        match kept {
            Ok(kept) => {
                failpoint::hit("cache", "kept");
                claim.end(ClaimEnd::Kept).await;
                self.save(&looked.key);
                let (state, copied) = (CacheState::Kept, kept.unwrap_or_default());
                CacheReceipt { state, copied, ms, ..looked }
            }
            Err(error) => {
                let reason = error.to_string();
                match error {
                    FolderError::Refused(_) => claim.give_up(reason.clone()).await,
                    FolderError::Io(_) => claim.end(ClaimEnd::NotKept(reason.clone())).await,
                }
                CacheReceipt { ms, reason: Some(reason), ..looked }
            }
        }
    }

    /// Has the disk take the new entry, in a thread of its own: no agent waits for that. If the daemon
    /// ends before, the entry counts until the next boot only.
    fn save(&self, key: &str) {
        let (it, key) = (self.clone(), key.to_owned());
        let save = move || {
            if let Err(error) = it.cache.save(&it.recipe, &key) {
                tracing::warn!(key, %error, "a cached setup counts for this boot alone");
            }
        };
        if let Err(error) = std::thread::Builder::new().name("cache".to_owned()).spawn(save) {
            tracing::warn!(%error, "no thread for a cached setup, which counts for this boot alone");
        }
    }
}

/// Whether the setup runs after a restoration too (`after_restore`).
pub(super) fn runs_again(settings: &RepoSettings) -> bool {
    settings.setup.after_restore.as_ref().is_some_and(|it| it.value == AfterRestore::Run)
}

/// Why the results of a setup may not be kept: other attempts would get what an agent, or whoever wrote a
/// branch that is not the default one, has had influence on. A fork begins with an agent's commit, and a
/// later turn may set up a worktree that was made from the attempt's own branch.
async fn obstacle(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    provided: &RepoProvision,
) -> Option<String> {
    if attempt.process.turn > 1 || attempt.fork.is_some() || provided.used {
        return Some("agents may have changed what it was made from".to_owned());
    }
    match declared::is_on_default_branch(world, attempt, repo).await {
        Ok(true) => None,
        Ok(false) => Some("its commit is not on the default branch of the repository".to_owned()),
        Err(reason) => Some(reason),
    }
}

/// Shows in an attempt's status for whose setup it waits, and takes that back when dropped.
struct WaitNotice<'a> {
    world: &'a World,
    attempt: AttemptId,
}

impl Drop for WaitNotice<'_> {
    fn drop(&mut self) {
        self.world.journal.waits_for_setup(self.attempt, None);
    }
}

fn receipt(key: String, state: CacheState) -> CacheReceipt {
    let copied = Copied::default();
    CacheReceipt { key, state, copied, ms: 0, waited_for: None, reason: None }
}

fn millis(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}
