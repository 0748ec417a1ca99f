//! What the daemon itself says in an attempt's log.

use crate::blocking::blocking;
use crate::event::{Event, Timestamp};
use crate::journal::Attempt;
use crate::world::World;

/// Adds a text to an attempt's log, in its newest turn. Best effort: if that fails, the daemon's log has
/// the text.
pub async fn say(world: &World, attempt: &Attempt, text: String) {
    let (process, turn) = (attempt.process.process_id, attempt.process.turn);
    let entry = Event::SystemMessage { text: text.clone() };
    let said = async {
        let log = world.logs.get(attempt.attempt_id).await?;
        blocking(move || log.append(process, turn, Timestamp::now(), entry)).await
    };
    if let Err(error) = said.await {
        tracing::warn!(attempt = %attempt.attempt_id, %error, text, "a log lacks what was to be said");
    }
}
