//! What workers change: each call is one transaction with all its consequences.

pub(super) mod checks;
mod deliveries;
mod done;
mod failures;
mod inbox;
mod leases;
mod next;
mod notes;
mod outcome;
mod plans;
mod questions;
mod queue;
mod reports;
mod scope;
mod search;
mod task_state;
mod tickets;
mod verification;

pub(super) use leases::let_go;
pub use plans::{NewDocument, NewPlan};
pub use questions::{Asking, NewQuestion, Question};
pub(super) use task_state::{after_done, after_removed};

use async_trait::async_trait;
use provost_actors::journal::checks::Submission;
use provost_actors::journal::{Idempotent, Key};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Db, Refusal, Result, RetryBudget, Store};
use crate::work::Worker;
use crate::work::report::Said;

/// A worker's report or note; each call is one transaction.
#[async_trait]
pub trait WorkerCall: Serialize + Sync {
    /// The name of the tool, which also names the crash points around the commit.
    const TOOL: &'static str;

    /// The answer of the tool, kept under the call's key.
    type Output: Serialize + DeserializeOwned + Send;

    /// The task that the call reports on, and what it says about the task; `None`: it is no report.
    fn reports_on(&self) -> Option<(&str, Said)> {
        None
    }

    /// Makes all changes of the call. `submission` is the work that is reported done, if it could be
    /// recorded.
    async fn take(
        &self,
        db: Db<'_>,
        worker: &Worker,
        submission: Option<&Submission>,
    ) -> Result<Self::Output>;

    /// Adds to a refusal what callers of this tool expect in it.
    fn refused(refusal: Refusal) -> Refusal {
        refusal
    }
}

impl Store {
    /// Makes a worker's call. If any part of it fails, nothing is changed.
    pub async fn worker_call<C: WorkerCall>(
        &self,
        key: Option<&Key>,
        worker: &Worker,
        call: &C,
        submission: Option<&Submission>,
    ) -> Result<Idempotent<C::Output>, Refusal> {
        self.keyed(RetryBudget::Short, key, C::TOOL, async |db| {
            call.take(db, worker, submission).await
        })
        .await
        .map_err(C::refused)
    }
}
