//! What workers change: each call one transaction, with all that follows from it.

mod handles;
mod reports;
mod scope;
mod tickets;

pub use handles::Prefix;
pub(super) use handles::next as next_handle;
