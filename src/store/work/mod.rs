//! What workers change: each call is one transaction, with all that follows from it.

mod cascade;
mod checks;
mod deliveries;
mod done;
mod failures;
mod inbox;
mod leases;
mod next;
mod notes;
mod outcome;
mod plans;
mod progress;
mod questions;
mod queue;
mod renew;
mod reports;
mod scope;
mod search;
mod task_state;
mod tickets;
mod verification;

pub(super) use cascade::{of_done, of_removed};
pub use checks::LastRun;
pub(super) use leases::let_go;
pub use plans::{NewDocument, NewPlan};
pub use questions::{NewQuestion, Question};
