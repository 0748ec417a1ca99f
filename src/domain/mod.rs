//! What the tools ask for, brought about: changes and starts go to the gateway,
//! reads to the store and the logs. Each method is one call and a conversion;
//! nothing is decided here.

mod approvals;
mod artifacts;
mod attempts;
mod board;
mod clarify;
mod cli_methods;
mod collect;
mod convert;
mod follow_up;
mod import;
mod logs;
mod messages;
mod reach;
mod sessions;
mod short;
mod waits;
mod work;
mod worktrees;

use std::path::PathBuf;
use std::sync::Arc;

use artifacts::Artifacts;
pub use artifacts::Guards;
use provost_actors::checks;
use provost_actors::gateway;
use provost_actors::refusal::{Code, Refusal};
use provost_actors::world::World;
use ractor::{ActorRef, RpcReplyPort};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::api::{Once, Service};
use crate::store::Store;

/// Who answers what the plans don't say, and how much a question may hold.
#[derive(Clone, Debug)]
pub struct Answers {
    /// Empty: nobody but the orchestrator and people.
    pub executor: String,
    /// Empty: one that only reads, if the executor has any.
    pub variant: String,
    /// How long a call waits for it.
    pub timeout_secs: u64,
    /// How long after that a late answer is taken; then the executor is stopped.
    pub grace_secs: u64,
    /// Question and context may be 80 % of it.
    pub token_limit: u64,
}

impl Answers {
    fn is_configured(&self) -> bool {
        !self.executor.is_empty()
    }
}

/// How many questions are looked up in plans at once: fewer than there are connections to
/// read by.
const SEARCHES: usize = 2;

/// Everything behind the tools.
pub struct Domain {
    store: Store,
    gateway: ActorRef<gateway::GatewayMessage>,
    checks: ActorRef<checks::ChecksMessage>,
    world: Arc<World>,
    artifacts: Artifacts,
    answers: Answers,
    /// Where the home's data lies, to be told.
    data_dir: PathBuf,
    /// Questions that are looked up at once.
    searches: Semaphore,
    /// Ends the daemon.
    ending: CancellationToken,
}

/// The actors that it asks.
pub struct Owners {
    pub gateway: ActorRef<gateway::GatewayMessage>,
    pub checks: ActorRef<checks::ChecksMessage>,
}

impl Domain {
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
        Self { store, gateway, checks, world, artifacts, answers, data_dir, searches, ending }
    }

    /// Asks the gateway. The port is answered by whoever owns what is asked for.
    async fn gateway<T: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<Result<T, Refusal>>) -> gateway::GatewayMessage,
    ) -> Result<T, Refusal> {
        ractor::call!(self.gateway, message)
            .unwrap_or_else(|_| Err(Refusal::new(Code::ShuttingDown, "the daemon is ending")))
    }
}

/// An answer in the tools' own terms.
fn answered<T, U>(answer: Once<T>, convert: impl FnOnce(T) -> U) -> Once<U> {
    Once { value: convert(answer.value), deduplicated: answer.deduplicated }
}

impl Service for Domain {}
