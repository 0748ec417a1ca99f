//! One setup for one key: the first attempt claims the key and runs its setup, the others wait for
//! its end. The claim is in memory, and its holder's id beside the entry of the cache: after a restart,
//! an attempt whose setup runs on still holds it.
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

/// The pause between two looks at a claim of before this daemon started.
const LOOK: Duration = Duration::from_millis(500);

/// How a claimed setup has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClaimEnd {
    /// Its result is in the cache.
    Kept,
    /// The setup ran well, but its result can't be kept, and why.
    NotKept(String),
    /// The setup failed: each of the others runs its own.
    Failed,
}

/// What this daemon knows of a key.
#[derive(Debug)]
enum Known {
    /// An attempt has claimed it. The channel gets the end; it is closed without one if the claim is dropped.
    Claimed(AttemptId, watch::Receiver<Option<ClaimEnd>>),
    /// Why no setup with this key can be kept.
    Hopeless(String),
}

/// By the path of the entry. Never held over an await.
static KNOWN: Mutex<BTreeMap<PathBuf, Known>> = Mutex::new(BTreeMap::new());

/// The right to make an entry. A drop without an end frees the key for the next attempt.
#[derive(Debug)]
pub(super) struct Claim {
    entry: PathBuf,
    end: watch::Sender<Option<ClaimEnd>>,
}

/// Whom a setup with the same key has to wait for.
pub(super) enum Holder {
    /// An attempt whose claim is in memory: the channel gets its end.
    Here(AttemptId, watch::Receiver<Option<ClaimEnd>>),
    /// An attempt whose setup has run since before this daemon started, and which no actor continues yet.
    Before(AttemptId),
    /// No attempt, because no setup with this key can be kept.
    Hopeless(String),
}

/// Who holds the key of an entry; `None`: the key is free, or `own` holds it since before this daemon.
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

/// Whether an attempt is in the middle of a setup for this entry.
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

/// The file with the holder's id. It lies beside the entry, whose folder appears whole.
fn file(entry: &Path) -> PathBuf {
    entry.with_extension("claim")
}

impl Holder {
    /// The attempt that a setup waits for, if any.
    pub fn attempt(&self) -> Option<AttemptId> {
        match self {
            Self::Here(by, _) | Self::Before(by) => Some(*by),
            Self::Hopeless(_) => None,
        }
    }

    /// Waits for the end. `None`: there is none, and [`holder`] is to be asked again.
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
    /// Claims the key of an entry. `None`: another attempt has claimed it.
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

    /// Ends the claim: the key is free, and the attempts that wait get this end.
    pub async fn end(self, end: ClaimEnd) {
        // If the file stays, it names an attempt that runs no setup, so it holds nothing.
        let _ = tokio::fs::remove_file(file(&self.entry)).await;
        self.end.send_replace(Some(end));
    }

    /// Ends the claim, and notes that no setup with this key can be kept, for as long as this daemon lives.
    pub async fn give_up(self, reason: String) {
        // Before the key is free: the note takes the place of this claim, and not of a later one.
        lock(&KNOWN).insert(self.entry.clone(), Known::Hopeless(reason.clone()));
        self.end(ClaimEnd::NotKept(reason)).await;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut known = lock(&KNOWN);
        if matches!(known.get(&self.entry), Some(Known::Claimed(..))) {
            known.remove(&self.entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

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

    #[tokio::test]
    async fn a_key_that_is_given_up_is_free_at_no_time() {
        let scratch = tempfile::tempdir().unwrap();
        let entry = scratch.path().join("repo/key");
        let claim = Claim::take(&entry, AttemptId::new()).await.unwrap().unwrap();
        let mut giving_up = Box::pin(claim.give_up("it is a trap".to_owned()));
        let is_hopeless = || matches!(lock(&KNOWN).get(&entry), Some(Known::Hopeless(_)));
        // One step of it, in which the claim hardly ends.
        let step = poll_fn(|context| Poll::Ready(giving_up.as_mut().poll(context).is_ready()));
        let is_over = step.await;
        assert!(is_hopeless());
        if !is_over {
            giving_up.await;
        }
        assert!(is_hopeless());
    }
}
