//! The one way to try again what fails now and may work later.
//!
//! ```text
//!  until_done         any failure is tried again                     for tasks without a caller
//!  while_store_fails  while the refusal is a fault of the store      for work that ends in a refusal
//!  outlasting_store   while the store was away during the work       for work that fails with a sentence
//! ```

use std::cell::Cell;
use std::fmt::Display;
use std::time::Duration;

use crate::refusal::Refusal;

/// The pause before an actor is given an event again that it could not carry out.
pub const PAUSE: Duration = Duration::from_secs(1);

/// The first and the longest pause of [`Backoff`].
const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(4);

/// Counts the failures in a row of one piece of work that is tried until it succeeds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Notes a failure of `what`, which names the work and its owner. Returns the pause before the next
    /// try: 250 ms at first, then twice the one before, and at most 4 s. The 1st, 10th, 100th, … failure is
    /// an error in the log, the others are at the level `debug`.
    pub fn failed(&mut self, what: impl Display, error: impl Display) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let failures = self.failures;
        if is_power_of_ten(failures) {
            tracing::error!(%error, failures, "{what} failed; it is tried again");
        } else {
            tracing::debug!(%error, failures, "{what} failed; it is tried again");
        }
        pause(failures)
    }

    /// Notes a failure, and waits for the pause.
    pub async fn wait(&mut self, what: impl Display, error: impl Display) {
        tokio::time::sleep(self.failed(what, error)).await;
    }
}

fn pause(failures: u32) -> Duration {
    let doubled = 2u32.checked_pow(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST.saturating_mul(doubled).min(LONGEST)
}

fn is_power_of_ten(number: u32) -> bool {
    number.checked_ilog10().is_some_and(|digits| 10u32.pow(digits) == number)
}

/// Tries until the work succeeds; never gives up. `what` names the work and its owner. For work that can be
/// repeated.
pub async fn until_done<T, E: Display, F>(what: impl Display, mut work: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, E>>,
{
    let mut backoff = Backoff::default();
    loop {
        match work().await {
            Ok(done) => return done,
            Err(error) => backoff.wait(&what, error).await,
        }
    }
}

tokio::task_local! {
    /// Whether the store could not be used meanwhile.
    static STORE_IS_AWAY: Cell<bool>;
}

/// Tells the work that runs in this task that the store can't be used now: a failure that follows is not
/// the work's own. The store calls it; outside of [`noticing`] it has no effect.
pub fn store_is_away() {
    let _ = STORE_IS_AWAY.try_with(|it| it.set(true));
}

/// Runs work, and says whether the store could not be used at some moment of it. Not in tasks that the work
/// spawns: the note is of one task.
pub async fn noticing<T>(work: impl Future<Output = T>) -> (T, bool) {
    let work = async {
        let done = work.await;
        (done, STORE_IS_AWAY.with(Cell::get))
    };
    STORE_IS_AWAY.scope(Cell::new(false), work).await
}

/// Tries until `work` succeeds, or fails although the store could be used all the time. `work` must be
/// repeatable.
///
/// # Errors
/// The failure that was not the store's.
pub async fn outlasting_store<T, E: Display, F>(
    what: impl Display,
    mut work: impl FnMut() -> F,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    until_done(what, || {
        // Each try has a note of its own: the store may be back in the next one.
        let working = noticing(work());
        async {
            match working.await {
                (Err(error), true) => Err(error),
                (done, _) => Ok(done),
            }
        }
    })
    .await
}

/// Tries until `work` succeeds, or is refused for another reason than a fault of the store. `work` must be
/// repeatable.
///
/// # Errors
/// The refusal that was not the store's.
pub async fn while_store_fails<T, F>(
    what: impl Display,
    mut work: impl FnMut() -> F,
) -> Result<T, Refusal>
where
    F: Future<Output = Result<T, Refusal>>,
{
    until_done(what, || {
        let working = work();
        async {
            match working.await {
                Err(refusal) if refusal.code.is_of_store() => Err(refusal),
                done => Ok(done),
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_fewer_and_fewer_failures_are_errors_in_the_log() {
        let pauses = [1, 2, 3, 4, 5, 6, u32::MAX].map(|failures| pause(failures).as_millis());
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 4000, 4000]);
        let logged: Vec<u32> = (0..=1001).filter(|number| is_power_of_ten(*number)).collect();
        assert_eq!(logged, [1, 10, 100, 1000]);
        assert!(!is_power_of_ten(u32::MAX));
    }

    #[tokio::test]
    async fn what_fails_while_the_store_is_away_is_done_again_and_nothing_else_is() {
        let mut tries = 0;
        let done: Result<u32, String> = outlasting_store("it", || {
            tries += 1;
            let is_away = tries < 2;
            async move {
                if is_away {
                    store_is_away();
                    return Err("a sentence".to_owned());
                }
                Err("of its own".to_owned())
            }
        })
        .await;
        assert_eq!((done, tries), (Err("of its own".to_owned()), 2));
        // Outside of such work nothing notices.
        store_is_away();
    }
}
