//! What the actors need written down: plain records, and a small trait beside the records
//! of each resource. The store behind the traits is outside this crate; nothing here
//! touches a database. Refusals are for the caller: a fault of the store itself comes as
//! `internal`, `storage_full` or `db_locked`.

mod approvals;
mod attempts;
pub mod checks;
mod processes;
mod requests;
mod sessions;
mod tasks;

pub use approvals::{Approval, ApprovalStatus, Approvals, Decision};
pub use attempts::{Attempt, AttemptRepo, AttemptStarted, AttemptStopped, Attempts, Phase, State};
pub use checks::{CheckRun, CheckVerdict, Checks, Receipt};
pub use processes::{Change, Outcome, Process, Processes, Quota};
pub use requests::{Begun, Intent, Key, Once, Requests, Resolved, recalled, remembered, resolve};
pub use sessions::{FollowUp, FollowUpAction, FollowedUp, Next, Past, Sessions, Turnover, Waiting};
pub use tasks::{Priority, Repo, Standing, StartContext, Task, TaskStatus, Tasks, Unmet};

/// The durable memory of the actors, where one object is handed around.
pub trait Journal:
    Tasks + Attempts + Processes + Sessions + Approvals + Checks + Requests + Send + Sync + 'static
{
}

impl<T> Journal for T where
    T: Tasks
        + Attempts
        + Processes
        + Sessions
        + Approvals
        + Checks
        + Requests
        + Send
        + Sync
        + 'static
{
}
