//! One way to try again what fails now and may work later.

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
