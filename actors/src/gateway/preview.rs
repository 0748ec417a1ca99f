//! The dev servers of attempts: checked, then handed to the attempts' owners.

use std::sync::Arc;

use ractor::ActorRef;
use tokio::sync::watch;

use super::calls::detached;
use super::message::GatewayMessage;
use super::owners::{ask_owner, not_found};
use crate::attempt::provision::preview::{Preview, Server, ended};
use crate::attempt::{AttemptMessage, PreviewAsk};
use crate::ids::AttemptId;
use crate::refusal::Refusal;
use crate::world::World;

/// Starts the dev server of an attempt, or ends it. Repeating the call changes nothing. The receiver
/// follows the server's state. `repo`: whose dev server, where an attempt has several.
pub async fn preview(
    gateway: &ActorRef<GatewayMessage>,
    world: &Arc<World>,
    id: AttemptId,
    repo: Option<String>,
    is_stop: bool,
) -> Result<watch::Receiver<Preview>, Refusal> {
    let (gateway, world) = (gateway.clone(), Arc::clone(world));
    detached(async move {
        let Some(attempt) = world.journal.attempt(id).await? else { return Err(not_found(id)) };
        world.host.require(&attempt)?;
        let ask = if is_stop {
            PreviewAsk::Stop
        } else {
            PreviewAsk::Start(Server::startable(&world, &attempt, repo.as_deref()).await?.repo.name)
        };
        ask_preview(&gateway, id, ask).await
    })
    .await
}

async fn ask_preview(
    gateway: &ActorRef<GatewayMessage>,
    id: AttemptId,
    ask: PreviewAsk,
) -> Result<watch::Receiver<Preview>, Refusal> {
    ask_owner(gateway, id, false, |_, port| AttemptMessage::Preview(ask.clone(), port)).await
}

/// Ends all dev servers of this host. One that can't be ended stays alive, and the next daemon adopts it.
pub(super) async fn end_all(gateway: &ActorRef<GatewayMessage>, world: &World) {
    let open = world.journal.open_dev_servers().await.unwrap_or_else(|refusal| {
        tracing::error!(%refusal, "which dev servers are open can't be read");
        Vec::new()
    });
    for (id, _) in open {
        match ask_preview(gateway, id, PreviewAsk::Stop).await {
            Ok(seen) => ended(seen).await,
            Err(refusal) => tracing::error!(attempt = %id, %refusal, "its dev server lives on"),
        }
    }
}
