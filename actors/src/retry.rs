//! One way to try again what fails now and may work later.

use std::cell::Cell;
use std::fmt::Display;
use std::time::Duration;

use crate::refusal::Refusal;

/// Between two tries of an owner to write or to reach something.
pub const PAUSE: Duration = Duration::from_secs(1);

/// Tries until the work succeeds, with a [`PAUSE`] after each failure, which is logged.
/// `what` names the work and its owner.
pub async fn until_done<T, E: Display, F>(what: impl Display, mut work: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, E>>,
{
    loop {
        match work().await {
            Ok(done) => return done,
            Err(error) => tracing::error!(%error, "{what} failed; it is tried again"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

tokio::task_local! {
    /// Whether the store could not be used meanwhile.
    static STORE_IS_AWAY: Cell<bool>;
}

/// Tells the work that is under way in this task that the store can't be used now: what it fails with is no
/// fault of its own. The store calls it.
pub fn store_is_away() {
    let _ = STORE_IS_AWAY.try_with(|it| it.set(true));
}

/// Does work, and says whether the store could not be used meanwhile.
pub async fn noticing<T>(work: impl Future<Output = T>) -> (T, bool) {
    let work = async {
        let done = work.await;
        (done, STORE_IS_AWAY.with(Cell::get))
    };
    STORE_IS_AWAY.scope(Cell::new(false), work).await
}

/// Tries until `work`, which may be begun again, succeeds or fails while the store can be used.
///
/// # Errors
/// That failure.
pub async fn outlasting_store<T, E: Display, F>(
    what: impl Display,
    mut work: impl FnMut() -> F,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    until_done(what, || {
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

/// Tries until `work` succeeds, or is refused for another reason than a fault of the store.
///
/// # Errors
/// That refusal.
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
