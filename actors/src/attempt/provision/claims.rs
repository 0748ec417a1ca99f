//! One setup for one key: the first attempt claims the key and runs its setup, the others wait for
//! what becomes of it. The claim is in memory, and its holder's id beside the entry of the cache: after
//! a restart, an attempt whose setup runs on still holds it.
//!
//! ```text
//!  no entry ─claim─▶ the setup runs ─kept─────▶ the others take the entry
//!               ▲                   ├not kept─▶ each of the others runs its own, as after a failure
//!               └── the next one ◀──┘ stopped
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::watch;

use super::{Provision, ScriptState};
use crate::blocking::{blocking, if_there, lock};
use crate::ids::AttemptId;
use crate::journal::Phase;
use crate::world::World;

/// How often a claim is looked at that is of before this daemon.
const LOOK: Duration = Duration::from_millis(500);

/// What became of a claimed setup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClaimEnd {
    Kept,
    /// The setup ran well, and why its result can't be kept.
    NotKept(String),
    Failed,
}

/// What is known of a key.
#[derive(Debug)]
enum Known {
    /// It is claimed; `None` until it has an end, and closed if it gets none.
    Claimed(AttemptId, watch::Receiver<Option<ClaimEnd>>),
    /// Why no setup with this key can be kept.
    Hopeless(String),
}

/// By the place of the entry.
static KNOWN: Mutex<BTreeMap<PathBuf, Known>> = Mutex::new(BTreeMap::new());

/// The right to fill an entry. Dropped without an end, it is free for the next one.
#[derive(Debug)]
pub(super) struct Claim {
    entry: PathBuf,
    end: watch::Sender<Option<ClaimEnd>>,
}

/// Whom a setup with the same key waits for.
pub(super) enum Holder {
    /// Its own claim tells its end.
    Here(AttemptId, watch::Receiver<Option<ClaimEnd>>),
    /// Its setup runs on since before this daemon; nothing has taken it up yet.
    Before(AttemptId),
    /// No one, and no setup with this key can be kept.
    Hopeless(String),
}

/// Who holds the key of an entry, other than `own`.
pub(super) async fn holder(world: &World, entry: &Path, own: AttemptId) -> Option<Holder> {
    match lock(&KNOWN).get(entry) {
        Some(Known::Claimed(by, end)) => return Some(Holder::Here(*by, end.clone())),
        Some(Known::Hopeless(reason)) => return Some(Holder::Hopeless(reason.clone())),
        None => {}
    }
    let file = file(entry);
    let text = blocking(move || if_there(fs::read_to_string(file))).await.ok()??;
    let by: AttemptId = text.trim().parse().ok()?;
    (by != own && sets_up(world, entry, by).await).then_some(Holder::Before(by))
}

/// Whether an attempt is in the midst of a setup for this entry.
async fn sets_up(world: &World, entry: &Path, attempt: AttemptId) -> bool {
    let Ok(Some(attempt)) = world.journal.attempt(attempt).await else { return false };
    let is_of_key = |key: &str| entry.file_name().is_some_and(|name| name == key);
    let is_begun = |provision: Provision| {
        provision.repos.values().any(|it| {
            it.setup.as_ref().is_some_and(|run| run.state == ScriptState::Started)
                && it.cache.as_ref().is_some_and(|cache| is_of_key(&cache.key))
        })
    };
    attempt.phase == Phase::Preparing && Provision::of(world, &attempt).await.is_ok_and(is_begun)
}

/// Beside the entry, whose folder appears whole.
fn file(entry: &Path) -> PathBuf {
    entry.with_extension("claim")
}

impl Holder {
    /// The attempt that is waited for, if any is.
    pub fn attempt(&self) -> Option<AttemptId> {
        match self {
            Self::Here(by, _) | Self::Before(by) => Some(*by),
            Self::Hopeless(_) => None,
        }
    }

    /// Waits for the end; `None`: it has none, and who holds the key is to be asked again.
    pub async fn end(self) -> Option<ClaimEnd> {
        match self {
            Self::Here(_, mut end) => end.wait_for(Option::is_some).await.ok()?.clone(),
            Self::Before(_) => {
                tokio::time::sleep(LOOK).await;
                None
            }
            Self::Hopeless(reason) => Some(ClaimEnd::NotKept(reason)),
        }
    }
}

impl Claim {
    /// Claims the key of an entry; `None`: another attempt has it.
    pub async fn take(entry: &Path, own: AttemptId) -> io::Result<Option<Self>> {
        let end = watch::Sender::new(None);
        {
            let mut known = lock(&KNOWN);
            if known.contains_key(entry) {
                return Ok(None);
            }
            known.insert(entry.to_owned(), Known::Claimed(own, end.subscribe()));
        }
        let claim = Self { entry: entry.to_owned(), end };
        let file = file(entry);
        blocking(move || {
            fs::create_dir_all(file.parent().unwrap_or(Path::new("")))?;
            fs::write(file, own.to_string())
        })
        .await?;
        Ok(Some(claim))
    }

    /// The key is free again, and those who wait for it go on.
    pub async fn end(self, end: ClaimEnd) {
        // One that stays is of an attempt that sets nothing up.
        let _ = tokio::fs::remove_file(file(&self.entry)).await;
        self.end.send_replace(Some(end));
    }

    /// The same where no setup with this key can be kept, for as long as this daemon lives.
    pub async fn give_up(self, reason: String) {
        let entry = self.entry.clone();
        self.end(ClaimEnd::NotKept(reason.clone())).await;
        lock(&KNOWN).insert(entry, Known::Hopeless(reason));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&KNOWN).remove(&self.entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_holds_a_key_and_the_others_hear_what_became_of_it() {
        let scratch = tempfile::tempdir().unwrap();
        let entry = scratch.path().join("repo/key");
        let (one, two) = (AttemptId::new(), AttemptId::new());
        let claim = Claim::take(&entry, one).await.unwrap().unwrap();
        assert!(Claim::take(&entry, two).await.unwrap().is_none());
        assert_eq!(fs::read_to_string(file(&entry)).unwrap(), one.to_string());
        let waits = || match lock(&KNOWN).get(&entry) {
            Some(Known::Claimed(by, end)) => Holder::Here(*by, end.clone()),
            other => panic!("{other:?}"),
        };
        let (first, second) = (waits(), waits());
        assert_eq!(first.attempt(), Some(one));
        drop(claim);
        assert_eq!(first.end().await, None, "the next one may claim it");
        assert_eq!(second.end().await, None);
        let claim = Claim::take(&entry, two).await.unwrap().unwrap();
        let waiting = waits();
        claim.end(ClaimEnd::Kept).await;
        assert_eq!(waiting.end().await, Some(ClaimEnd::Kept));
        assert!(!file(&entry).exists() && !lock(&KNOWN).contains_key(&entry));
        let claim = Claim::take(&entry, one).await.unwrap().unwrap();
        claim.give_up("it is a trap".to_owned()).await;
        assert!(Claim::take(&entry, two).await.unwrap().is_none());
        assert!(matches!(lock(&KNOWN).get(&entry), Some(Known::Hopeless(_))));
    }
}
