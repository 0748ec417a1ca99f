//! The dev servers of attempts: checked, then handed to the attempts' owners.

use std::sync::Arc;

use ractor::ActorRef;
use tokio::sync::watch;

use super::calls::detached;
use super::message::GatewayMessage;
use super::owners::{ask_owner, not_found};
use crate::attempt::provision::preview::{Preview, ended};
use crate::attempt::provision::{Provision, is_trusted, trust_command};
use crate::attempt::{AttemptMessage, PreviewAsk, has_worktrees};
use crate::ids::{AttemptId, ProcessId};
use crate::journal::Attempt;
use crate::refusal::{Code, Refusal};
use crate::world::World;

/// Starts the dev server of an attempt, or ends it. The same call again changes nothing.
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
        let ask = if is_stop {
            PreviewAsk::Stop
        } else {
            PreviewAsk::Start(served(&world, &attempt, repo.as_deref()).await?)
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

/// Has the owners of these attempts take up the dev servers that an earlier daemon left.
pub(super) async fn resume(gateway: &ActorRef<GatewayMessage>, left: Vec<(AttemptId, ProcessId)>) {
    for (id, process) in left {
        if let Err(refusal) = ask_preview(gateway, id, PreviewAsk::Resume(process)).await {
            tracing::warn!(attempt = %id, %refusal, "its dev server has no owner");
        }
    }
}

/// Ends all dev servers. One that can't be ended lives on, and the next daemon takes it up.
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

/// The repository whose dev server is meant, if it may run.
async fn served(world: &World, attempt: &Attempt, repo: Option<&str>) -> Result<String, Refusal> {
    let id = attempt.attempt_id;
    let failed =
        |why: String| Refusal::new(Code::WorkspaceFailed, why).detail("attempt_id", id.to_string());
    let has = has_worktrees(world, id).await.map_err(|error| failed(error.to_string()))?;
    if !has {
        let why = "the attempt has no worktrees yet, or not any more".to_owned();
        return Err(failed(why).hint("Call follow_up to make them; a preview runs in them."));
    }
    let provision = Provision::of(world, attempt).await.map_err(failed)?;
    let mut servers = attempt.repos.iter().filter_map(|it| {
        let settings = &provision.repos.get(&it.name)?.settings;
        let command = settings.dev_server.run.as_ref()?;
        repo.is_none_or(|name| name == it.name).then_some((it, settings, command))
    });
    let Some((found, settings, command)) = servers.next() else {
        let message = "no dev server is configured for the attempt's repository".to_owned();
        return Err(Refusal::new(Code::InvalidArgument, message).hint(
            "Set dev_server.run in the repository's provost.toml, or under \
             [projects.NAME.repos.REPO] in config.toml; it counts for new attempts.",
        ));
    };
    if servers.next().is_some() {
        let message = "several repositories of the attempt have a dev server".to_owned();
        return Err(Refusal::new(Code::InvalidArgument, message).hint("Name the repository."));
    }
    if command.is_repos && !is_trusted(world, found, settings).await? {
        let message =
            format!("the commands of the provost.toml of {} are not approved", found.path);
        return Err(Refusal::new(Code::NotPermitted, message)
            .hint(format!("A person runs {}, which shows and approves them.", trust_command(id))));
    }
    Ok(found.name.clone())
}
