//! Makes what a turn starts from: the worktrees, the manifest and environment of its
//! process, and the files that the launch leaves in the process's folder.
//!
//! ```text
//!  in the attempt's folder         the folder      the worktrees
//!  nothing                         -               are made (`worktrees`, `restored`)
//!  worktrees.json (the marker)     there           are whole; agents may have worked in them
//!    with is_provided = false      there           are made, and still to be provided for
//!  collected.json                  gone            were collected; made again when a turn needs them
//!  collected.json                  there           a collection was cut off: the marker is put back
//! ```

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::blocking::blocking;
use crate::event::{Event, Timestamp};
use crate::executor::{Executor, Launch, McpServer, Stdin, Turn};
use crate::failpoint;
use crate::ids::AttemptId;
use crate::journal::{Attempt, Process};
use crate::process::Marker;
use crate::process::records::{self, Manifest, StdinSource};
use crate::refusal::Refusal;
use crate::secret::Secrets;
use crate::workspace::git::{self, GitError};
use crate::workspace::{own, refuse_links};
use crate::world::{ActorSettings, CLI_FILES, World};

use super::locks;
use super::message::TurnHandle;
use super::moved;
use super::provision::{self, Provision, SetupSignals};
use super::recap::Beginning;
use super::remove_worktrees::{COLLECTED, MARKER, take_away_unmarked};
use super::sandbox_plan::SandboxPlan;
use super::variables;

/// The file with the launch state of the normalizer, in the process's folder.
const LAUNCH_STATE: &str = "dialogue.json";

/// Makes the attempt's worktrees and provides for them, or, if they are there, brings them up to date. The
/// caller holds their lock. `Err` is a sentence; worktrees that could not be made to the end are taken away.
pub async fn worktrees(
    world: &World,
    attempt: &Attempt,
    handle: &TurnHandle,
    signals: &SetupSignals,
) -> Result<(), String> {
    let dir = world.settings.attempt_dir(attempt.attempt_id);
    let folder = world.settings.folders.worktrees.join(&attempt.folder);
    if is_made(&dir, &folder).await? {
        real_worktrees(world, attempt).await?;
        whole(world, attempt).await?;
        release_locks(world, attempt).await;
        stay_current(world, attempt).await;
        if attempt.placed_epoch == 0 || is_provided(&dir)? {
            return Ok(());
        }
        provision::provide(world, attempt, handle, signals).await?;
        return mark(&dir, attempt, true).await;
    }
    let made = async {
        moved::restore_worktrees(world, attempt, &folder).await?;
        provision::provide(world, attempt, handle, signals).await
    };
    if let Err(why) = made.await {
        // Nothing has run in them, so nothing is lost.
        take_away_unmarked(world, attempt).await;
        return Err(why);
    }
    mark(&dir, attempt, true).await
}

/// Makes the worktrees of an attempt at rest, as its last turn left them, unless they are there. They get no
/// copies, ports or setup: the next turn provides for them. `Err` is a sentence.
pub async fn restored(world: &World, attempt: &Attempt) -> Result<(), String> {
    let dir = world.settings.attempt_dir(attempt.attempt_id);
    let folder = world.settings.folders.worktrees.join(&attempt.folder);
    if is_made(&dir, &folder).await? {
        return Ok(());
    }
    if let Err(why) = moved::restore_worktrees(world, attempt, &folder).await {
        take_away_unmarked(world, attempt).await;
        return Err(why);
    }
    mark(&dir, attempt, false).await
}

/// Whether the worktrees are made: see [`has_marker`]. Makes the attempt's folder. `Err` is a sentence.
async fn is_made(dir: &Path, folder: &Path) -> Result<bool, String> {
    let readable = |error: io::Error| format!("{}: {error}", dir.display());
    tokio::fs::create_dir_all(dir).await.map_err(readable)?;
    let paths = (dir.to_owned(), folder.to_owned());
    blocking(move || has_marker(&paths.0, &paths.1)).await.map_err(readable)
}

/// Writes the marker, durably: from here on the worktrees are whole. Its epoch tells worktrees of before
/// a move to another host from later ones (`moved::forget_former`). `Err` is a sentence.
async fn mark(dir: &Path, attempt: &Attempt, is_provided: bool) -> Result<(), String> {
    let marker = json!({
        "attempt_id": attempt.attempt_id, "folder": attempt.folder, "epoch": attempt.epoch,
        "is_provided": is_provided,
    });
    let path = dir.to_owned();
    let written = blocking(move || records::write_durably(&path, MARKER, &marker)).await;
    written.map_err(|error| format!("{}: {error}", dir.display()))?;
    failpoint::hit("worktrees", "marked");
    Ok(())
}

/// Whether the worktrees were provided for; `true` for a marker of before this was noted. `Err` is a
/// sentence.
fn is_provided(dir: &Path) -> Result<bool, String> {
    let marker = records::read::<Value>(dir, MARKER);
    let marker = marker.map_err(|error| format!("{}: {error}", dir.display()))?;
    Ok(marker.is_none_or(|marker| marker["is_provided"] != false))
}

/// Checks that no link is in the place of a worktree: an agent could have put one there, so that Provost's
/// next step would reach elsewhere. `Err` is a sentence.
pub async fn real_worktrees(world: &World, attempt: &Attempt) -> Result<(), String> {
    let root = world.settings.folders.worktrees.clone();
    let folder = PathBuf::from(&attempt.folder);
    let below: Vec<PathBuf> = attempt.repos.iter().map(|repo| folder.join(&repo.name)).collect();
    let looked = tokio::task::spawn_blocking(move || {
        below.iter().try_for_each(|below| refuse_links(&root, below))
    });
    looked.await.map_err(|panic| panic.to_string())?
}

/// Makes worktrees again whose folder somebody has deleted, as the last turn with a snapshot left them. `Err`
/// is a sentence.
pub(super) async fn whole(world: &World, attempt: &Attempt) -> Result<(), String> {
    let folder = world.settings.folders.worktrees.join(&attempt.folder);
    for repo in &attempt.repos {
        let worktree = folder.join(&repo.name);
        if tokio::fs::symlink_metadata(&worktree).await.is_err() {
            tracing::warn!(attempt = %attempt.attempt_id, worktree = %worktree.display(),
                "a worktree is gone; it is made again");
            moved::lay_again(world, attempt, repo).await?;
        }
    }
    Ok(())
}

/// Puts back what git opens by name in the worktrees (an agent may have changed it), and brings the person's
/// branches in the attempt's own repositories up to date. An agent can work without, so a failure is logged.
async fn stay_current(world: &World, attempt: &Attempt) {
    for repo in &attempt.repos {
        let source = world.settings.source(attempt, repo);
        let current = async {
            let common = git::common_dir(&source.repo).await?;
            let (of, lender) = (source.clone(), common);
            blocking(move || own::put_back(&of, &lender)).await?;
            own::refresh(&source.repo, &source.own, &source.branch).await
        };
        if let Err(error) = current.await {
            let error: GitError = error;
            tracing::warn!(attempt = %attempt.attempt_id, %error, repo = repo.path,
                "its branches are not those of today");
        }
    }
}

/// Sets aside the index locks that a killed git of an earlier turn left.
pub(super) async fn release_locks(world: &World, attempt: &Attempt) {
    for repo in &attempt.repos {
        let source = world.settings.source(attempt, repo);
        let released = tokio::task::spawn_blocking(move || {
            for lock in locks::of(&source.own) {
                let is_aside = locks::set_aside(&lock, &source.worktree());
                tracing::warn!(lock = %lock.display(), ?is_aside, "a git lock was left behind");
            }
        });
        // A panic is logged by the panic hook, and git reports a lock that stays.
        let _ = released.await;
    }
}

/// Whether the marker is there. After a collection that was cut off before the folder moved, the marker
/// is put back; after a complete one, the worktrees count as never made. Blocking.
fn has_marker(dir: &Path, folder: &Path) -> io::Result<bool> {
    let (marker, collected) = (dir.join(MARKER), dir.join(COLLECTED));
    if marker.try_exists()? {
        return Ok(true);
    }
    if collected.exists() && folder.symlink_metadata().is_err() {
        return fs::remove_file(collected).map(|()| false);
    }
    match fs::rename(collected, &marker) {
        // There was no collection, or another call has just put the marker back.
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => marker.try_exists(),
    }
}

/// Whether the attempt's worktrees were collected, and not made again since.
pub async fn was_collected(world: &World, attempt: AttemptId) -> io::Result<bool> {
    let dir = world.settings.attempt_dir(attempt);
    Ok(tokio::fs::try_exists(dir.join(COLLECTED)).await? && !has_worktrees(world, attempt).await?)
}

/// Whether the worktrees are gone and nothing has their place: a collection that was cut off has left nothing
/// to do. `true` also for an attempt without a row.
pub async fn is_gone(world: &World, attempt: AttemptId) -> Result<bool, Refusal> {
    let unreadable = |error: io::Error| Refusal::internal(format!("attempt {attempt}: {error}"));
    if has_worktrees(world, attempt).await.map_err(unreadable)? {
        return Ok(false);
    }
    let Some(row) = world.journal.attempt(attempt).await? else { return Ok(true) };
    let folder = world.settings.folders.worktrees.join(&row.folder);
    Ok(tokio::fs::symlink_metadata(folder).await.is_err())
}

/// Whether the attempt has whole worktrees, by their marker. The folder itself is not looked at.
pub async fn has_worktrees(world: &World, attempt: AttemptId) -> io::Result<bool> {
    let dir = world.settings.attempt_dir(attempt);
    tokio::fs::try_exists(dir.join(MARKER)).await
}

/// All that starts a process, before anything of it is on disk.
pub struct Prepared {
    pub manifest: Manifest,
    /// The values that the manifest, which is a file, names without showing them.
    pub secrets: Secrets,
    pub launch: Launch,
    /// The entries with which its part of the log begins: a notice, the prompt, what holds it, the command.
    pub opening: Vec<(Timestamp, Event)>,
}

/// What to run for the attempt's newest process. `hidden`: secrets that are not in its environment, and that
/// no output may show. `boxed`: its sandbox, if it has one. `Err` is a sentence.
pub fn process(
    world: &World,
    attempt: &Attempt,
    executor: &dyn Executor,
    beginning: Beginning,
    provision: &Provision,
    hidden: &[(String, String)],
    boxed: Option<&SandboxPlan>,
) -> Result<Prepared, String> {
    let (process, settings) = (&attempt.process, &world.settings);
    let notice = beginning.notice().map(|text| Event::SystemMessage { text: text.to_owned() });
    let (prompt, forked) = match beginning {
        Beginning::Own => (process.prompt.clone(), None),
        Beginning::Recap(prompt) | Beginning::Moved(prompt) => (prompt, None),
        Beginning::Fork(session) => (process.prompt.clone(), Some(session)),
    };
    let launch = executor.launch(&Turn {
        attempt: attempt.attempt_id.to_string(),
        number: process.turn,
        prompt: with_sandbox_notice(boxed, process, &prompt),
        variant: process.variant.clone(),
        forks: forked.is_some(),
        executor_session_id: forked.or_else(|| process.executor_session_id.clone()),
        cwd: working_dir(world, attempt),
        scratch: settings.cli_dir(attempt),
        mcp: agent_mcp_server(settings, attempt),
    })?;
    let stdin = match launch.stdin {
        Stdin::Empty => StdinSource::Empty,
        Stdin::Bytes(_) => StdinSource::File,
        Stdin::Open => StdinSource::Pipe,
    };
    let command = if let Some(shown) = &launch.shown_as {
        vec![shown.clone()]
    } else {
        let program = launch.program.to_string_lossy().into_owned();
        std::iter::once(program).chain(launch.args.iter().cloned()).collect()
    };
    let now = Timestamp::now();
    let start =
        Event::ProcessStart { text: command.join(" "), command, run_reason: process.run_reason };
    let unboxed = || executor.unboxed_reason().filter(|_| process.turn == 1).map(str::to_owned);
    let held =
        boxed.map(SandboxPlan::notice).or_else(unboxed).map(|text| Event::SystemMessage { text });
    let opening = [Event::UserMessage { text: prompt }].into_iter().chain(held).chain([start]);
    // Only the turn that made the worktree says what was not copied into it.
    let left_out = provision.left_out().filter(|_| process.turn == 1);
    let left_out = left_out.map(|text| Event::SystemMessage { text });
    let opening = notice.into_iter().chain(left_out).chain(opening);
    let opening = opening.map(|event| (now, event)).collect();
    let mut env = variables::of(settings, &launch.env, attempt, &provision.ports);
    if let Some(boxed) = boxed {
        boxed.change(&mut env);
    }
    let marker = Marker { attempt: attempt.attempt_id, process: process.process_id };
    let limits = world.executors.limits(&attempt.executor);
    let command_line = (launch.program.clone(), launch.args.clone());
    let cwd = working_dir(world, attempt);
    let (manifest, secrets) = settings.manifest(marker, command_line, env, cwd, limits, hidden);
    let manifest = Manifest {
        epoch: attempt.epoch,
        stdin,
        cwd_beneath: Some(settings.folders.worktrees.clone()),
        on_lease_late: executor.on_lease_late(),
        ..manifest
    };
    Ok(Prepared { manifest, secrets, launch, opening })
}

/// The prompt as the agent gets it: a new conversation begins with what the sandbox forbids.
fn with_sandbox_notice(boxed: Option<&SandboxPlan>, process: &Process, prompt: &str) -> String {
    let notice = boxed.and_then(|boxed| boxed.agent_notice);
    match notice.filter(|_| process.executor_session_id.is_none()) {
        Some(notice) => format!("{notice}\n\n{prompt}"),
        None => prompt.to_owned(),
    }
}

/// This daemon as the MCP server of the attempt's worker. Its environment is spelled out, because some CLIs
/// give their servers none of their own.
fn agent_mcp_server(settings: &ActorSettings, attempt: &Attempt) -> McpServer {
    let home =
        settings.launch.home_variable.iter().map(|home| ("PROVOST_HOME".to_owned(), home.clone()));
    let own = ("PROVOST_ATTEMPT_ID".to_owned(), attempt.attempt_id.to_string());
    let folders = settings.launch.environment.iter().filter(|(name, _)| name.starts_with("XDG_"));
    let folders = folders.map(|(name, value)| (name.clone(), value.clone()));
    McpServer {
        name: "provost",
        command: settings.launch.program.clone(),
        args: vec!["mcp".into(), "--role".into(), "worker".into()],
        env: home.chain([own]).chain(folders).collect(),
    }
}

/// Where the attempt's processes start: the worktree of its only repository, or the folder that holds all.
pub(super) fn working_dir(world: &World, attempt: &Attempt) -> PathBuf {
    let folder = world.settings.folders.worktrees.join(&attempt.folder);
    match attempt.repos.as_slice() {
        [only] => folder.join(&only.name),
        _ => folder,
    }
}

/// Writes the launch state and the files for the CLI, for their owner alone. What an earlier try wrote is
/// overwritten. Blocking.
pub fn write_launch_state(dir: &Path, launch: &Launch) -> io::Result<()> {
    let private = |folder: &Path| DirBuilder::new().recursive(true).mode(0o700).create(folder);
    if !launch.dialogue.is_null() {
        private(dir)?;
        records::write_durably(dir, LAUNCH_STATE, &launch.dialogue)?;
    }
    for (name, bytes) in &launch.files {
        let folder = dir.join(CLI_FILES);
        private(&folder)?;
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        options.open(folder.join(name))?.write_all(bytes)?;
    }
    Ok(())
}

/// The launch state of a process; null if its executor has none. Also for `provost replay`. Blocking.
///
/// # Errors
/// It can't be read.
pub fn read_launch_state(dir: &Path) -> io::Result<Value> {
    Ok(records::read(dir, LAUNCH_STATE)?.unwrap_or(Value::Null))
}
