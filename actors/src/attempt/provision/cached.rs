//! Spares a setup whose results an earlier one has left in the cache, and keeps those of one that
//! ran. Only a setup's own results are kept: before any agent has worked in the worktree, and of
//! commits that are no agent's.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::RepoProvision;
use crate::blocking::blocking;
use crate::failpoint;
use crate::journal::{Attempt, AttemptRepo};
use crate::repo_settings::RepoSettings;
use crate::workspace::cache::{self, Cache, Recipe};
use crate::workspace::folder_copy::{Copied, FolderError};
use crate::world::World;

/// What the cache has to do with a setup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheReceipt {
    pub key: String,
    pub state: CacheState,
    #[serde(flatten)]
    pub copied: Copied,
    pub ms: u64,
    /// Why it is neither restored nor kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheState {
    /// What is at its paths may be part of an entry.
    Restoring,
    /// In place of a setup.
    Restored,
    /// The setup ran, and its results are in the cache.
    Kept,
    NotKept,
}

/// A setup that declares what it depends on and what it makes.
#[derive(Clone)]
pub(super) struct Cached {
    cache: Cache,
    recipe: Recipe,
    /// Whether its results may be kept.
    may_keep: bool,
}

impl Cached {
    /// `None`: nothing is to be cached.
    pub fn of(
        world: &World,
        attempt: &Attempt,
        repo: &AttemptRepo,
        provided: &RepoProvision,
    ) -> Option<Self> {
        let RepoSettings { setup, .. } = &provided.settings;
        let cache = world.settings.cache.clone();
        let paths = setup.cache.as_ref()?.value.clone();
        if cache.max_bytes == 0 || paths.is_empty() {
            return None;
        }
        // The commit of a fork is an agent's. A later turn may set up a worktree that was made
        // anew from the branch that an earlier one worked on.
        let recipe = Recipe {
            repo: repo.repo_id.to_string(),
            command: setup.run.as_ref()?.value.to_string(),
            key_files: setup.cache_key.as_ref()?.value.clone(),
            paths,
            source: world.settings.source(attempt, repo),
        };
        let is_first = attempt.process.turn == 1 && attempt.fork.is_none() && !provided.used;
        Some(Self { cache, recipe, may_keep: is_first })
    }

    /// Takes away what a restoration that was cut off has left.
    pub async fn clear(&self) -> Result<(), String> {
        let it = self.clone();
        let cleared = blocking(move || cache::clear(&it.recipe)).await;
        cleared.map_err(|error| format!("part of a cached setup can't be removed: {error}"))
    }

    /// The receipt to begin with, if there is an entry for a worktree that has nothing of it yet;
    /// else the key alone.
    pub async fn look(&self) -> CacheReceipt {
        let it = self.clone();
        let looked = blocking(move || {
            let key = it.recipe.key()?;
            let is_there = it.cache.has(&it.recipe, &key) && cache::has_none(&it.recipe)?;
            Ok::<_, FolderError>((key, is_there))
        });
        match looked.await {
            Ok((key, true)) => receipt(key, CacheState::Restoring),
            Ok((key, false)) => receipt(key, CacheState::NotKept),
            Err(error) => CacheReceipt {
                reason: Some(error.to_string()),
                ..receipt(String::new(), CacheState::NotKept)
            },
        }
    }

    /// Copies the entry into the worktree. `Err`: nothing of it is left there.
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

    /// Puts what the setup has made into the cache. `is_on_default_branch`: as for the commit of
    /// its worktree. What other branches run is of whoever wrote them.
    pub async fn keep(
        &self,
        looked: CacheReceipt,
        is_on_default_branch: Result<bool, String>,
    ) -> CacheReceipt {
        if looked.key.is_empty() {
            return looked;
        }
        let reason = match is_on_default_branch {
            _ if !self.may_keep => Some("agents may have changed what it was made from".to_owned()),
            Ok(true) => None,
            Ok(false) => {
                Some("its commit is not on the default branch of the repository".to_owned())
            }
            Err(reason) => Some(reason),
        };
        if let Some(reason) = reason {
            return CacheReceipt { state: CacheState::NotKept, reason: Some(reason), ..looked };
        }
        let (it, key, began) = (self.clone(), looked.key.clone(), Instant::now());
        let kept = blocking(move || it.cache.keep(&it.recipe, &key)).await;
        let ms = millis(began);
        match kept {
            Ok(kept) => {
                let (state, copied) = (CacheState::Kept, kept.unwrap_or_default());
                CacheReceipt { state, copied, ms, ..looked }
            }
            Err(error) => CacheReceipt {
                state: CacheState::NotKept,
                ms,
                reason: Some(error.to_string()),
                ..looked
            },
        }
    }
}

fn receipt(key: String, state: CacheState) -> CacheReceipt {
    CacheReceipt { key, state, copied: Copied::default(), ms: 0, reason: None }
}

fn millis(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}
