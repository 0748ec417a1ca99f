//! What an owner says to the task of a setup, a cleanup or a dev server while that runs: a stop, and a
//! person's decisions. The channel's value only grows, so a late reader misses nothing.

use std::collections::BTreeMap;

use tokio::sync::watch;

use crate::executor::Verdict;
use crate::process::records::StopKind;

/// All that was said so far.
#[derive(Clone, Debug, Default)]
pub struct SetupWord {
    /// The strongest stop so far.
    pub stop: Option<StopKind>,
    /// The decisions, by the keys of the requests.
    pub verdicts: BTreeMap<String, Verdict>,
}

/// The receiver's side. If the sender is gone, the owner is gone.
#[derive(Clone, Debug)]
pub struct SetupSignals(pub watch::Receiver<SetupWord>);

impl SetupSignals {
    /// Signals without an owner that say stop: for what is only to be ended.
    pub fn stopped(kind: StopKind) -> Self {
        Self(watch::channel(SetupWord { stop: Some(kind), ..SetupWord::default() }).1)
    }

    /// The stop that has come, if any.
    pub fn stop(&self) -> Option<StopKind> {
        self.0.borrow().stop
    }

    /// Waits for a stop that is stronger than `known`. `None`: the owner is gone.
    pub async fn stop_beyond(&self, known: Option<StopKind>) -> Option<StopKind> {
        let mut words = self.0.clone();
        let word = words.wait_for(|word| word.stop > known).await;
        word.ok().and_then(|word| word.stop)
    }

    /// Waits for the decision on a request; for ever if the owner is gone.
    pub async fn verdict(&self, key: &str) -> Verdict {
        let mut words = self.0.clone();
        let word = words.wait_for(|word| word.verdicts.contains_key(key)).await;
        let verdict = word.ok().and_then(|word| word.verdicts.get(key).cloned());
        match verdict {
            Some(verdict) => verdict,
            // `stop_beyond` reports that the owner is gone.
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_setup_hears_of_a_stop_of_a_harder_one_and_of_its_owners_end() {
        let (words, receiver) = watch::channel(SetupWord::default());
        let signals = SetupSignals(receiver);
        words.send_modify(|word| word.stop = Some(StopKind::Soft));
        assert_eq!(signals.stop_beyond(None).await, Some(StopKind::Soft));
        words.send_modify(|word| word.stop = Some(StopKind::Forced));
        assert_eq!(signals.stop_beyond(Some(StopKind::Soft)).await, Some(StopKind::Forced));
        words.send_modify(|word| {
            word.verdicts.insert("a".to_owned(), Verdict::Approve);
        });
        assert_eq!(signals.verdict("a").await, Verdict::Approve);
        drop(words);
        assert_eq!(signals.stop_beyond(Some(StopKind::Forced)).await, None);
        assert_eq!(signals.stop(), Some(StopKind::Forced), "the last word stays");
    }
}
