//! What a turn tells its setup while that runs: a stop, and a person's decisions.

use std::collections::BTreeMap;

use tokio::sync::watch;

use crate::executor::Verdict;
use crate::process::records::StopKind;

/// All that was said so far.
#[derive(Clone, Debug, Default)]
pub struct SetupWord {
    pub stop: Option<StopKind>,
    /// By the keys of the requests.
    pub verdicts: BTreeMap<String, Verdict>,
}

#[derive(Clone, Debug)]
pub struct SetupSignals(pub watch::Receiver<SetupWord>);

impl SetupSignals {
    /// Those of what is to end.
    pub fn stopped(kind: StopKind) -> Self {
        Self(watch::channel(SetupWord { stop: Some(kind), ..SetupWord::default() }).1)
    }

    pub fn stop(&self) -> Option<StopKind> {
        self.0.borrow().stop
    }

    /// Waits for a stop that is more than `known`; `None`: the turn has no owner any more.
    pub async fn stop_beyond(&self, known: Option<StopKind>) -> Option<StopKind> {
        let mut words = self.0.clone();
        let word = words.wait_for(|word| word.stop > known).await;
        word.ok().and_then(|word| word.stop)
    }

    /// Waits for the decision on a request.
    pub async fn verdict(&self, key: &str) -> Verdict {
        let mut words = self.0.clone();
        let word = words.wait_for(|word| word.verdicts.contains_key(key)).await;
        let verdict = word.ok().and_then(|word| word.verdicts.get(key).cloned());
        match verdict {
            Some(verdict) => verdict,
            // No owner is left to decide; its end is seen by `stop_beyond`.
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
