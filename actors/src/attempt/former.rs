//! The worktrees that this host still has of an attempt that is on another host now. A collection takes
//! them away once that host can have what the last turn left.

use super::collect::{kept, look};
use super::message::{CollectVerdict, Collection};
use super::prepare::has_worktrees;
use super::remove_worktrees::taken_away;
use crate::journal::{Attempt, Phase};
use crate::world::World;

/// Moves such worktrees to the trash. They stay while no turn of the attempt has a snapshot, unless it is
/// idle: the other host could not have their work then. `None`: there are no such worktrees.
pub async fn collect_former(world: &World, attempt: &Attempt, is_dry: bool) -> Option<Collection> {
    let settings = &world.settings;
    let id = attempt.attempt_id;
    if attempt.host == world.host.id || !has_worktrees(world, id).await.unwrap_or(false) {
        return None;
    }
    let folder = settings.folders.worktrees.join(&attempt.folder);
    let examined = async {
        let turns = world.journal.snapshot_turns(id).await.map_err(|it| it.message)?;
        if turns.is_empty() && attempt.phase != Phase::Idle {
            return Err("no turn of it has a snapshot".to_owned());
        }
        look(attempt, &folder, false).await?;
        if is_dry {
            return Ok(CollectVerdict::Collectable);
        }
        let taken = taken_away(world, attempt).await;
        taken.map_err(|error| format!("its folder can't be moved to the trash: {error}"))?;
        Ok(CollectVerdict::Collected)
    };
    let verdict = match examined.await {
        Ok(verdict) => verdict,
        Err(reason) => return Some(kept(&folder, reason)),
    };
    let reason = is_dry.then(|| format!("the attempt is on host {}", attempt.host));
    Some(Collection { verdict, reason, ..kept(&folder, String::new()) })
}
