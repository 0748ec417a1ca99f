//! Says in an attempt's log that its executor stands still, and that it goes on: a gap without any
//! output would look like an agent that hangs.

use crate::blocking::blocking;
use crate::event::{Event, Timestamp};
use crate::journal::Attempt;
use crate::world::World;

const STANDS_STILL: &str =
    "The executor stands still, because the lease of this host has not been renewed in time.";
const GOES_ON: &str = "The executor goes on: the lease of this host is renewed.";

/// Best effort.
pub async fn note(world: &World, attempt: &Attempt, is_frozen: bool) {
    let text = if is_frozen { STANDS_STILL } else { GOES_ON };
    tracing::info!(attempt = %attempt.attempt_id, "{text}");
    let (process, turn) = (attempt.process.process_id, attempt.process.turn);
    let noted = async {
        let log = world.logs.get(attempt.attempt_id).await?;
        let entry = Event::SystemMessage { text: text.to_owned() };
        blocking(move || log.append(process, turn, Timestamp::now(), entry)).await
    };
    if let Err(error) = noted.await {
        tracing::warn!(%process, %error, "that an executor stands still can't be logged");
    }
}
