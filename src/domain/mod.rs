//! What each tool does. Changes of attempts go to the gateway, changes of the board and reads to the
//! store and the logs; a call about something on another host goes there (`elsewhere`). The rules are in
//! `work` and in the owners, not here: this folder translates between the types of `api` and theirs.

mod approvals;
mod artifacts;
mod attempts;
mod audit;
mod board;
mod callers;
mod clarify;
mod cli_methods;
mod collect;
mod comments;
mod compact_status;
mod conflicts;
mod conversations;
mod dashboard;
mod decisions;
mod doctor;
mod elsewhere;
mod finish;
mod hosts;
mod kept;
mod logs;
mod moved;
mod previews;
mod reach;
mod remotes;
mod remove_project;
mod repo_settings;
mod target_branch;
mod timeline;
mod users;
mod waits;
mod work;
mod worktree_commands;
mod worktrees;

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use artifacts::Artifacts;
use provost_actors::checks;
use provost_actors::gateway;
use provost_actors::world::World;
use ractor::ActorRef;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::api::{Code, Idempotent, Refusal, Service};
use crate::audit::AuditLog;
use crate::config::{Answers, Guards};
use crate::store::Store;

/// How many questions may be searched for in plans at the same time: fewer than there are read
/// connections.
const SEARCHES: usize = 2;

/// Everything behind the tools.
pub struct Domain {
    store: Store,
    gateway: ActorRef<gateway::GatewayMessage>,
    checks: ActorRef<checks::ChecksMessage>,
    world: Arc<World>,
    artifacts: Artifacts,
    answers: Answers,
    /// The folder of the home that has the database and the owner's token.
    data_dir: PathBuf,
    audit: AuditLog,
    searches: Semaphore,
    /// Where the HTTP face answers, or why it does not; empty while it starts.
    face: OnceLock<Result<String, String>>,
    /// Cancelled when the daemon ends: every wait returns then.
    ending: CancellationToken,
}

/// The actors that the domain asks.
pub struct Owners {
    pub gateway: ActorRef<gateway::GatewayMessage>,
    pub checks: ActorRef<checks::ChecksMessage>,
}

impl Domain {
    /// Nothing is read or started here. `data_dir` is the home's; `ending` is cancelled when the daemon
    /// ends.
    pub fn new(
        store: Store,
        owners: Owners,
        world: Arc<World>,
        guards: Guards,
        answers: Answers,
        data_dir: PathBuf,
        ending: CancellationToken,
    ) -> Self {
        let Owners { gateway, checks } = owners;
        let artifacts = Artifacts::new(guards);
        let searches = Semaphore::new(SEARCHES);
        let audit = AuditLog::of(&data_dir);
        Self {
            store,
            gateway,
            checks,
            world,
            artifacts,
            answers,
            data_dir,
            audit,
            searches,
            face: OnceLock::new(),
            ending,
        }
    }
}

impl Domain {
    /// Notes where the HTTP face answers, or why it does not.
    pub fn set_face(&self, face: Result<String, String>) {
        // There is one face, so a second call can't come.
        let _ = self.face.set(face);
    }
}

/// Runs blocking work on a thread of its own. `Err`: the work panicked.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Refusal::internal(error.to_string()))
}

/// Reads a list's cursor with `read`. `None`: the call has no cursor, so the list begins.
///
/// # Errors
/// The text is no cursor of this list.
fn cursor<T>(
    text: Option<impl Deref<Target = str>>,
    tool: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    let again =
        format!("Call {tool} again without cursor. It takes the next_cursor of its own last page.");
    let unknown = || {
        Refusal::new(Code::InvalidArgument, format!("`cursor` is not a cursor from {tool}"))
            .hint(again)
            .detail("path", "cursor")
    };
    read(&text).map(Some).ok_or_else(unknown)
}

/// Converts the value of an answer, and keeps whether it is a repeated one.
fn answered<T, U>(answer: Idempotent<T>, convert: impl FnOnce(T) -> U) -> Idempotent<U> {
    Idempotent { value: convert(answer.value), deduplicated: answer.deduplicated }
}

impl Service for Domain {}
