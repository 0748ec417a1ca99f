//! The worker API brought about: who calls and in which project, then the store's
//! one transaction.

mod checks;
mod next;
mod notes;
mod reports;
mod scope;
mod tickets;
