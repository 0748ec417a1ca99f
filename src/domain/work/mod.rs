//! Implements the worker API: who calls and in which project, then the store's one transaction.

mod asking;
mod checks;
mod consult;
mod inbox;
mod next;
mod plans;
mod question;
mod reports;
mod scope;
