//! Says in an attempt's log that its executor is paused, and that it runs again: without that, a gap
//! in the output would look like an agent that hangs.

use super::say::say;
use crate::journal::Attempt;
use crate::world::World;

const STANDS_STILL: &str =
    "The executor stands still, because the lease of this host has not been renewed in time.";
const GOES_ON: &str = "The executor goes on: the lease of this host is renewed.";

/// Best effort. The shim reports the pause when the lease of this host is late.
pub async fn note(world: &World, attempt: &Attempt, is_frozen: bool) {
    let text = if is_frozen { STANDS_STILL } else { GOES_ON };
    tracing::info!(attempt = %attempt.attempt_id, "{text}");
    say(world, attempt, text.to_owned()).await;
}
