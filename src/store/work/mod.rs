//! What workers change: each call one transaction, with all that follows from it.

mod cascade;
mod checks;
mod done;
mod failures;
mod handles;
mod leases;
mod next;
mod notes;
mod outcome;
mod progress;
mod queue;
mod reports;
mod scope;
mod tickets;
mod verification;

pub(super) use cascade::{of_done, of_removed};
pub use checks::LastRun;
pub use handles::Prefix;
pub(super) use handles::next as next_handle;
pub(super) use reports::last as last_report;
