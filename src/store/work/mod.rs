//! What workers change: each call one transaction, with all that follows from it.

mod deliveries;
mod handles;
mod inbox;
mod plans;
mod questions;
mod reports;
mod scope;
mod tickets;

pub use deliveries::Sending;
pub use handles::Prefix;
pub(super) use handles::next as next_handle;
pub use plans::{NewDocument, NewPlan};
pub use questions::{NewQuestion, Question};
