//! The state that an attempt's executor has of its own in a sandbox: settings, memory, credentials and
//! sessions. It begins as a copy of the person's; what the agent writes there is read by nothing
//! outside of the sandboxes of this attempt. Two things leave it: a renewed token, as data, and the
//! session of an attempt that another one begins from.
//!
//! ```text
//!  ~/.agent ──copies, at the first turn──▶ attempts/<id>/state/agent ◀──▶ the program, in its sandbox
//!     │ ▲                                        │        ▲
//!     │ └──── a renewed token, validated ────────┘        │ a session, for a fork
//!     └────── what the person has renewed ──────▶         └── attempts/<other>/state
//! ```

mod begin;
mod credentials;
mod files;
mod in_step;
mod sessions;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::blocking::{blocking, lock};
use crate::ids::AttemptId;
use crate::journal::Attempt;
use crate::process::records;
use crate::sandbox::places::{Person, meets};
use crate::sandbox::{Access, Rule, StatePlace};
use crate::workspace::removal;
use crate::world::{ActorSettings, World};
use files::Root;
use in_step::Agreed;

/// The folder of the state, in the attempt's folder.
const FOLDER: &str = "state";
/// What is known of the state, beside it: no sandboxed process can write that file.
const RECORD: &str = "state.json";
/// The pause between two comparisons of the credentials while a turn runs.
const LOOK: Duration = Duration::from_secs(15);

/// All attempts share the person's credentials, so one of them is compared at a time. Held for moments, by
/// blocking threads alone.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    #[serde(default)]
    credentials: Agreed,
}

/// An attempt's state, made ready for a turn.
#[derive(Debug)]
pub struct OwnState {
    pub folder: PathBuf,
    /// The variables by which the program finds it.
    pub env: BTreeMap<String, String>,
    /// What of the person's may be read where the person has it.
    pub read: Vec<PathBuf>,
    /// What of the person's the copy lacks. Only the turn that made the state knows it.
    pub left_out: Vec<String>,
}

impl OwnState {
    /// What a sandbox opens for this state.
    pub fn rules(&self) -> impl Iterator<Item = Rule> {
        let own = Rule { path: self.folder.clone(), access: Access::Write };
        let read = self.read.iter().cloned().map(|path| Rule { path, access: Access::Read });
        std::iter::once(own).chain(read)
    }
}

/// The session that a turn resumes: the attempt in whose state it is looked for, the executor's id of it, and
/// the working folder of the turn, which the name of its files may contain.
#[derive(Clone, Debug)]
pub struct Session {
    pub of: AttemptId,
    pub id: String,
    pub cwd: PathBuf,
}

/// Makes the state if it is missing, brings its credentials up to date, and copies the session if it is
/// elsewhere. `None`: the executor has no state that is known. `Err` is a sentence.
pub async fn of_turn(
    world: &World,
    attempt: AttemptId,
    places: Vec<StatePlace>,
    session: Option<Session>,
) -> Result<Option<OwnState>, String> {
    if places.is_empty() {
        return Ok(None);
    }
    let settings = world.settings.clone();
    let made = blocking(move || {
        let _one = lock(&ONE_AT_A_TIME);
        made(&settings, attempt, &places, session.as_ref())
    });
    let cannot = |error: io::Error| format!("the state of the agent can't be made: {error}");
    made.await.map(Some).map_err(cannot)
}

/// The same, blocking. A state appears whole, by a rename: one that a crash left half made is made again.
fn made(
    settings: &ActorSettings,
    attempt: AttemptId,
    places: &[StatePlace],
    session: Option<&Session>,
) -> io::Result<OwnState> {
    let person = Person::of(&settings.launch.environment);
    let dir = settings.attempt_dir(attempt);
    let folder = dir.join(FOLDER);
    let mut left_out = Vec::new();
    let mut record = records::read::<Record>(&dir, RECORD)?.unwrap_or_default();
    if !folder.is_dir() {
        let half = dir.join(format!(".{FOLDER}"));
        if half.exists() {
            fs::remove_dir_all(&half)?;
        }
        begin::private(&half)?;
        left_out = begin::fill(&half, places, &person)?;
        record = Record::default();
        fs::rename(half, &folder)?;
    }
    let root = Root::open(&folder)?;
    in_step::keep(&root, places, &person, &mut record.credentials, true)?;
    records::write_durably(&dir, RECORD, &record)?;
    if let Some(session) = session {
        bring(settings, &root, places, session)?;
    }
    let variable = |place: &StatePlace| {
        let own = folder.join(&place.folder).to_string_lossy().into_owned();
        Some((place.variable.clone()?, own))
    };
    let env = places.iter().filter_map(variable).collect();
    let read = places.iter().flat_map(|place| begin::open(place, &person));
    let read = read.filter(|path| !meets(path, &settings.folders.private)).collect();
    Ok(OwnState { folder, env, read, left_out })
}

/// Copies a session that is not there yet: from the state of its attempt, or else, if that attempt had no
/// state of its own, from the person's.
fn bring(
    settings: &ActorSettings,
    root: &Root,
    places: &[StatePlace],
    session: &Session,
) -> io::Result<()> {
    let person = Person::of(&settings.launch.environment);
    let source = Root::open(&settings.attempt_dir(session.of).join(FOLDER)).ok();
    for place in places.iter().filter(|place| !place.sessions.is_empty()) {
        let (patterns, id) = (below(place), &session.id);
        if sessions::has(root, &patterns, id)? {
            continue;
        }
        if let Some(source) = &source
            && sessions::has(source, &patterns, id)?
        {
            sessions::copy(source, root, &patterns, id, &session.cwd)?;
        } else if let Ok(from) = person.path(&place.from)
            && let Ok(theirs) = Root::open(&from)
        {
            let own = root.below(Path::new(&place.folder))?;
            sessions::copy(&theirs, &own, &place.sessions, id, &session.cwd)?;
        }
    }
    Ok(())
}

/// The patterns of a place's sessions, relative to the state's folder.
fn below(place: &StatePlace) -> Vec<String> {
    place.sessions.iter().map(|pattern| format!("{}/{pattern}", place.folder)).collect()
}

/// Whether a session is in an attempt's own state: only a sandboxed process may read it there. `false` also
/// if that can't be read.
pub async fn holds(world: &World, of: AttemptId, places: Vec<StatePlace>, id: String) -> bool {
    let folder = world.settings.attempt_dir(of).join(FOLDER);
    let looked = blocking(move || {
        let Ok(root) = Root::open(&folder) else { return Ok(false) };
        for place in &places {
            if sessions::has(&root, &below(place), &id)? {
                return Ok::<_, io::Error>(true);
            }
        }
        Ok(false)
    });
    looked.await.unwrap_or(false)
}

/// Compares the credentials every 15 seconds, until nothing of a turn is alive; then once more.
pub async fn keep_in_step(world: Arc<World>, attempt: Attempt, mut alive: watch::Receiver<()>) {
    loop {
        let is_over = timeout(LOOK, alive.changed()).await.is_ok();
        in_step(&world, &attempt).await;
        if is_over {
            return;
        }
    }
}

/// Compares the credentials once: a token that was renewed on one side goes to the other. What fails is
/// logged.
pub async fn in_step(world: &World, attempt: &Attempt) {
    with_state(world, attempt, |root, places, person, dir| {
        let mut record = records::read::<Record>(dir, RECORD)?.unwrap_or_default();
        let before = serde_json::to_vec(&record)?;
        in_step::keep(root, places, person, &mut record.credentials, false)?;
        if serde_json::to_vec(&record)? == before {
            return Ok(());
        }
        records::write_durably(dir, RECORD, &record)
    })
    .await;
}

/// Removes the credentials and caches of an attempt of which nothing runs. Its next turn writes the
/// credentials again.
pub async fn tidy(world: &World, attempt: &Attempt) {
    with_state(world, attempt, |root, places, person, dir| {
        for cache in places.iter().filter(|place| place.is_cache()) {
            // Best effort: a cache that stays does no harm.
            let _ = removal::remove(&dir.join(FOLDER).join(&cache.folder));
        }
        let mut record = records::read::<Record>(dir, RECORD)?.unwrap_or_default();
        in_step::keep(root, places, person, &mut record.credentials, false)?;
        in_step::forget(root, places)
    })
    .await;
}

/// Does something with the state of an attempt, if it has one. What fails is logged.
async fn with_state(
    world: &World,
    attempt: &Attempt,
    work: impl FnOnce(&Root, &[StatePlace], &Person<'_>, &Path) -> io::Result<()> + Send + 'static,
) {
    let Some(executor) = world.executors.get(&attempt.executor) else { return };
    let wanted = executor.sandbox(attempt.process.variant.as_deref());
    if wanted.state.iter().all(|place| place.credentials.is_empty() && !place.is_cache()) {
        return;
    }
    let (settings, id) = (world.settings.clone(), attempt.attempt_id);
    let done = blocking(move || {
        let _one = lock(&ONE_AT_A_TIME);
        let dir = settings.attempt_dir(id);
        let Ok(root) = Root::open(&dir.join(FOLDER)) else { return Ok(()) };
        work(&root, &wanted.state, &Person::of(&settings.launch.environment), &dir)
    });
    if let Err(error) = done.await {
        tracing::warn!(attempt = %id, %error, "its credentials are not in step with the person's");
    }
}
