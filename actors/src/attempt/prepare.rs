//! Makes what a turn starts from: the worktrees, and the manifest of its process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::blocking::blocking;
use crate::event::{Event, Timestamp};
use crate::executor::{Executor, McpServer, Stdin, Turn};
use crate::failpoint;
use crate::ids::AttemptId;
use crate::journal::Attempt;
use crate::process::Marker;
use crate::process::manifest::{self, Manifest, StdinSource};
use crate::secret::Secrets;
use crate::workspace::{NewWorktree, refuse_links};
use crate::world::{Settings, World};

use super::{environment, launch_state, locks, recap};

/// Written when all worktrees of an attempt are whole. Until it is there,
/// nothing has run in them and they may be made anew.
pub const MARKER: &str = "worktrees.json";
/// What the marker is called once the worktrees were taken away.
pub const COLLECTED: &str = "collected.json";

#[derive(Serialize, Deserialize)]
struct WorktreesMarker {
    attempt_id: AttemptId,
    folder: String,
}

/// Makes the attempt's worktrees, unless they are there. `Err` is a sentence.
pub async fn worktrees(world: &World, attempt: &Attempt) -> Result<(), String> {
    let dir = world.settings.attempt_dir(attempt.attempt_id);
    let folder = world.settings.worktrees_dir.join(&attempt.folder);
    let readable = |error: std::io::Error| format!("{}: {error}", dir.display());
    tokio::fs::create_dir_all(&dir).await.map_err(readable)?;
    let found = {
        let dir = dir.clone();
        let folder = folder.clone();
        blocking(move || found(&dir, &folder)).await.map_err(readable)?
    };
    if found.is_some() {
        real_worktrees(world, attempt).await?;
        release_locks(&folder, attempt).await;
        return Ok(());
    }
    tokio::fs::create_dir_all(&folder)
        .await
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    failpoint::hit("worktree", "next");
    for repo in &attempt.repos {
        let worktree = NewWorktree {
            path: folder.join(&repo.name),
            branch: attempt.branch.clone(),
            base: repo.base_commit.clone(),
            trash: world.settings.trash_dir.clone(),
            scratch: world.settings.scratch_dir.clone(),
        };
        world
            .repositories
            .add_worktree(repo.path.as_ref(), worktree)
            .await
            .map_err(|error| format!("no worktree of {} could be made: {error}", repo.path))?;
        failpoint::hit("worktree", "made");
    }
    let marker = WorktreesMarker { attempt_id: attempt.attempt_id, folder: attempt.folder.clone() };
    let written = {
        let dir = dir.clone();
        blocking(move || manifest::write_durably(&dir, MARKER, &marker)).await
    };
    written.map_err(readable)?;
    failpoint::hit("worktrees", "marked");
    Ok(())
}

/// Checks that no link is in the place of the attempt's worktrees: a turn would run
/// wherever it leads. `Err` is a sentence.
pub async fn real_worktrees(world: &World, attempt: &Attempt) -> Result<(), String> {
    let root = world.settings.worktrees_dir.clone();
    let folder = PathBuf::from(&attempt.folder);
    let below: Vec<PathBuf> = attempt.repos.iter().map(|repo| folder.join(&repo.name)).collect();
    let looked = tokio::task::spawn_blocking(move || {
        below.iter().try_for_each(|below| refuse_links(&root, below))
    });
    looked.await.map_err(|panic| panic.to_string())?
}

/// Sets aside the locks that a killed git of an earlier turn left.
async fn release_locks(folder: &Path, attempt: &Attempt) {
    for repo in &attempt.repos {
        let worktree = folder.join(&repo.name);
        let released = tokio::task::spawn_blocking(move || {
            for lock in locks::of(&worktree) {
                match locks::set_aside(&lock, &worktree) {
                    Ok(true) => {
                        tracing::warn!(lock = %lock.display(), "a stale git lock was set aside");
                    }
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(lock = %lock.display(), %error, "a stale git lock can't be set aside");
                    }
                }
            }
        });
        // A panic is logged by its hook, and git reports a lock that stays.
        let _ = released.await;
    }
}

/// The marker. After a collection that was cut off before the folder moved, it is put
/// back; after a finished one, the worktrees count as never made.
fn found(dir: &Path, folder: &Path) -> std::io::Result<Option<WorktreesMarker>> {
    let found = manifest::read(dir, MARKER)?;
    if found.is_some() {
        return Ok(found);
    }
    if dir.join(COLLECTED).exists() && folder.symlink_metadata().is_err() {
        return std::fs::remove_file(dir.join(COLLECTED)).map(|()| None);
    }
    match std::fs::rename(dir.join(COLLECTED), dir.join(MARKER)) {
        // There was no collection, or another one has just put it back.
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => manifest::read(dir, MARKER),
    }
}

/// Whether the attempt had worktrees that were taken away.
pub async fn was_collected(world: &World, attempt: AttemptId) -> std::io::Result<bool> {
    let dir = world.settings.attempt_dir(attempt);
    Ok(tokio::fs::try_exists(dir.join(COLLECTED)).await? && !has_worktrees(world, attempt).await?)
}

/// Whether the attempt has worktrees: until then there is nothing in them.
pub async fn has_worktrees(world: &World, attempt: AttemptId) -> std::io::Result<bool> {
    let dir = world.settings.attempt_dir(attempt);
    tokio::fs::try_exists(dir.join(MARKER)).await
}

/// A process ready to be spawned.
pub struct Prepared {
    pub manifest: Manifest,
    pub secrets: Secrets,
    pub stdin: Option<Vec<u8>>,
    /// Files for the CLI, by their name in the scratch folder.
    pub files: BTreeMap<String, Vec<u8>>,
    pub dialogue: Value,
    /// The log entries that its turn begins with.
    pub opening: Vec<(Timestamp, Event)>,
}

/// What to run for the attempt's newest process. `recap` replaces its prompt. `Err` is
/// a sentence.
pub fn process(
    world: &World,
    attempt: &Attempt,
    executor: &dyn Executor,
    recap: Option<String>,
) -> Result<Prepared, String> {
    let (process, settings) = (&attempt.process, &world.settings);
    let notice = recap.as_ref().map(|_| Event::SystemMessage { text: recap::NOTICE.to_owned() });
    let prompt = recap.unwrap_or_else(|| process.prompt.clone());
    let launch = executor.launch(&Turn {
        prompt: prompt.clone(),
        variant: process.variant.clone(),
        executor_session_id: process.executor_session_id.clone(),
        cwd: working_dir(world, attempt),
        scratch: world.settings.process_dir(attempt).join(launch_state::SCRATCH),
        mcp: way_back(settings, attempt),
    })?;
    let (stdin, bytes) = match launch.stdin {
        Stdin::Empty => (StdinSource::Empty, None),
        Stdin::Bytes(bytes) => (StdinSource::File, Some(bytes)),
        Stdin::Open => (StdinSource::Pipe, None),
    };
    let command = launch.shown_as.map_or_else(
        || {
            let program = launch.program.to_string_lossy().into_owned();
            std::iter::once(program).chain(launch.args.iter().cloned()).collect()
        },
        |shown| vec![shown],
    );
    let now = Timestamp::now();
    let start =
        Event::ProcessStart { text: command.join(" "), command, run_reason: process.run_reason };
    let opening = notice.into_iter().chain([Event::UserMessage { text: prompt }, start]);
    let opening = opening.map(|event| (now, event)).collect();
    let env = environment::make(
        &settings.environment,
        &launch.env,
        settings.home_variable.as_deref(),
        attempt,
    );
    let marker = Marker { attempt: attempt.attempt_id, process: process.process_id };
    let limits = world.executors.limits(&attempt.executor);
    let command_line = (launch.program, launch.args);
    let cwd = working_dir(world, attempt);
    let (manifest, secrets) = settings.manifest(marker, command_line, env, cwd, limits);
    let manifest = Manifest {
        epoch: attempt.epoch,
        stdin,
        cwd_beneath: Some(settings.worktrees_dir.clone()),
        ..manifest
    };
    let (files, dialogue) = (launch.files, launch.dialogue);
    Ok(Prepared { manifest, secrets, stdin: bytes, files, dialogue, opening })
}

/// This daemon as a worker's MCP server. It lists its environment itself, for some CLIs
/// give their servers none of their own.
fn way_back(settings: &Settings, attempt: &Attempt) -> McpServer {
    let home = settings.home_variable.iter().map(|home| ("PROVOST_HOME".to_owned(), home.clone()));
    let own = ("PROVOST_ATTEMPT_ID".to_owned(), attempt.attempt_id.to_string());
    let folders = settings.environment.iter().filter(|(name, _)| name.starts_with("XDG_"));
    let folders = folders.map(|(name, value)| (name.clone(), value.clone()));
    McpServer {
        name: "provost",
        command: settings.program.clone(),
        args: vec!["mcp".into(), "--role".into(), "worker".into()],
        env: home.chain([own]).chain(folders).collect(),
    }
}

/// The worktree of the only repository, or the folder that holds them all.
fn working_dir(world: &World, attempt: &Attempt) -> PathBuf {
    let folder = world.settings.worktrees_dir.join(&attempt.folder);
    match attempt.repos.as_slice() {
        [only] => folder.join(&only.name),
        _ => folder,
    }
}
