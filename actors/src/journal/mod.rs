//! What the actors need written down: plain records, and a small trait beside the records of each resource.
//! The store behind the traits is outside this crate, so that the actors know no database.
//!
//! Every method may be refused with a fault of the store itself: `internal`, `storage_full`, `db_locked` or
//! `db_unavailable`. Methods that write do so in one transaction: all of it or nothing. A method with a
//! [`Key`] also keeps its answer there, and gives that answer when the call is repeated.

mod approvals;
mod attempts;
mod bundles;
pub mod checks;
mod finishes;
mod hosts;
mod placement;
mod probes;
mod provisions;
mod questions;
mod requests;
mod snapshots;
mod tasks;

pub use approvals::{Approval, ApprovalStatus, Approvals, Decision};
pub use attempts::*;
pub use bundles::{Bundle, Bundles, DuePush, MovedFrom, Pushed, TurnBundle};
pub use checks::{CheckRun, CheckVerdict, Checks, Receipt};
pub use finishes::*;
pub use hosts::Hosts;
pub use placement::{
    Claimed, LOSSES_MAX, LostAttempt, LostAttemptAction, MaxRunning, Placement, Room, Waiting,
    chosen, lost,
};
pub use probes::{ConflictPair, InConflict, OtherSide, Probe, Probes};
pub use provisions::{PORTS_IN_BLOCK, Provisions, ScriptRow};
pub use questions::*;
pub use requests::*;
pub use snapshots::{DueSnapshot, Snapshots, TurnSnapshot};
pub use tasks::{
    AttemptRepo, Priority, Repo, ReviewState, StartContext, Task, TaskStatus, Tasks, Unmet,
};

/// All of the traits, so that one object can be shared by the actors. The store implements it.
pub trait Journal:
    Tasks
    + Attempts
    + Processes
    + Sessions
    + Approvals
    + Checks
    + Finishes
    + Snapshots
    + Bundles
    + Probes
    + Provisions
    + Deliveries
    + Consultations
    + Hosts
    + Placement
    + Requests
    + Send
    + Sync
    + 'static
{
}
