//! Moves an attempt at rest to this host, because its own host is lost, or because it works in a mirror of a
//! repository that this host has.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;

use crate::attempt::{AttemptMessage, fetch_all};
use crate::ids::AttemptId;
use crate::journal::MovedFrom;
use crate::refusal::{Code, Refusal};
use crate::retry::noticing;
use crate::world::World;

use super::calls::detached;
use super::message::GatewayMessage;
use super::owners::{ask_owner, not_found};

/// How often the row is read until the last turn has its snapshot and nothing of it is alive …
const TRIES: u32 = 150;
/// … and the pause between: 30 seconds together.
const PAUSE: Duration = Duration::from_millis(200);

/// Moves an attempt here, with its worktrees as its last turn left them. Everything that these are made of
/// is fetched before the row is changed: a failure leaves the attempt where it was.
///
/// # Errors
/// The attempt is not at rest, or what its last turn left can't be fetched.
pub async fn bring_here(
    gateway: &ActorRef<GatewayMessage>,
    world: &Arc<World>,
    id: AttemptId,
    from: MovedFrom,
) -> Result<(), Refusal> {
    let (gateway, world) = (gateway.clone(), Arc::clone(world));
    detached(async move {
        let mut attempt = world.journal.attempt(id).await?.ok_or_else(|| not_found(id))?;
        for _ in 0..TRIES {
            let is_quiet = !attempt.snapshot_due && attempt.leftovers.is_empty();
            if is_quiet || matches!(from, MovedFrom::Lost(_)) {
                break;
            }
            tokio::time::sleep(PAUSE).await;
            attempt = world.journal.attempt(id).await?.ok_or_else(|| not_found(id))?;
        }
        let (had, is_away) = noticing(Box::pin(fetch_all(&world, &attempt))).await;
        let code = if is_away { Code::DbUnavailable } else { Code::WorkspaceFailed };
        had.map_err(|why| Refusal::new(code, why))?;
        world.journal.move_here(id, &from).await?;
        tracing::info!(attempt = %id, ?from, "an attempt has come to this host");
        ask_owner(&gateway, id, false, |_, port| AttemptMessage::Restore(port)).await
    })
    .await
}
