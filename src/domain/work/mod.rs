//! The worker API brought about: who calls and in which project, then the store's
//! one transaction.

mod consult;
mod immediate;
mod inbox;
mod plans;
mod question;
mod scope;
mod tickets;
