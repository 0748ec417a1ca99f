//! What still runs from before, in a box that holds less than that of the turn which begins: it could
//! run what the turn writes, and so it is ended first.

use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::message::{TurnEvent, TurnHandle};
use super::provision::preview::Previewing;
use crate::blocking::blocking;
use crate::event::{Event, Timestamp};
use crate::ids::ProcessId;
use crate::journal::Attempt;
use crate::log::process_dir;
use crate::process::records::{self, Started};
use crate::sandbox::Level;
use crate::world::World;

/// How long what has to end may take, beside the grace of a dev server.
const PATIENCE: Duration = Duration::from_mins(1);

/// What runs of an attempt when a turn is planned: earlier turns, each with a channel that closes
/// once nothing of it is alive, and the dev server.
#[derive(Default)]
pub struct Earlier {
    pub turns: Vec<(ProcessId, watch::Receiver<()>)>,
    pub preview: Option<Previewing>,
}

/// Ends what runs in a box that holds less than that of the newest turn. Setup and cleanup scripts
/// are no part of it: they have the worktrees to themselves, as this has. `Err` is a sentence.
pub async fn make_way(
    world: &World,
    attempt: &Attempt,
    earlier: Earlier,
    handle: &TurnHandle,
) -> Result<(), String> {
    // Without its executor the turn fails anyway.
    let Some(executor) = world.executors.get(&attempt.executor) else { return Ok(()) };
    let level = executor.sandbox(attempt.process.variant.as_deref()).level;
    let dir = world.settings.attempt_dir(attempt.attempt_id);
    let (mut turns, mut gone) = (Vec::new(), Vec::new());
    for (process, alive) in earlier.turns {
        if held(&dir, process).await < level {
            turns.push(process);
            gone.push(alive);
        }
    }
    let mut preview = earlier.preview;
    let serving = preview.as_ref().map(|it| it.seen.borrow().process_id);
    if let Some(process) = serving
        && held(&dir, process).await >= level
    {
        preview = None;
    }
    if turns.is_empty() && preview.is_none() {
        return Ok(());
    }
    if !turns.is_empty() {
        let what = "What an earlier turn had left running was ended";
        note(world, attempt, level, what).await;
        handle.send(TurnEvent::MakeWay(turns));
    }
    if let Some(preview) = &preview {
        note(world, attempt, level, "The dev server was stopped").await;
        preview.stop();
    }
    let ended = async {
        for mut alive in gone {
            while alive.changed().await.is_ok() {}
        }
        if let Some(preview) = preview {
            preview.ended().await;
        }
    };
    let patience = world.settings.stop_grace + PATIENCE;
    timeout(patience, ended).await.map_err(|_| {
        format!(
            "its sandbox is {:?}, and what runs of this attempt with less can't be ended: stop the \
             attempt until nothing survives, then send the prompt again",
            level.word()
        )
    })
}

/// The level that a process began in. One without a record may have no box.
async fn held(attempt_dir: &Path, process: ProcessId) -> Level {
    let dir = process_dir(attempt_dir, process);
    let started = blocking(move || records::read::<Started>(&dir, Started::FILE)).await;
    let receipt = started.ok().flatten().and_then(|started| started.sandbox);
    receipt.map(|receipt| receipt.level).unwrap_or_default()
}

async fn note(world: &World, attempt: &Attempt, level: Level, what: &str) {
    let text = format!(
        "{what}, because this turn's sandbox, {:?}, holds more than its own.",
        level.word()
    );
    let (process, turn) = (attempt.process.process_id, attempt.process.turn);
    let noted = async {
        let log = world.logs.get(attempt.attempt_id).await?;
        let entry = Event::SystemMessage { text };
        blocking(move || log.append(process, turn, Timestamp::now(), entry)).await
    };
    if let Err(error) = noted.await {
        tracing::warn!(%process, %error, "what was ended for a turn can't be logged");
    }
}
