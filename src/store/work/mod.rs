//! What workers change: each call one transaction, with all that follows from it.

mod handles;
mod inbox;
mod plans;
mod questions;
mod reports;
mod scope;
mod tickets;

pub use handles::Prefix;
pub use plans::{NewDocument, NewPlan};
pub use questions::{NewQuestion, Question, Sending};
pub(super) use handles::next as next_handle;
