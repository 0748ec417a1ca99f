//! The worker API brought about: who calls and in which project, then the store's
//! one transaction.

mod scope;
mod tickets;
