//! Implements the worker API: finds out who calls and in which project (`scope`), then makes the store's
//! one transaction. The rules are in `crate::work`.

mod asking;
mod checks;
mod consult;
mod inbox;
mod next;
mod plans;
mod question;
mod reports;
mod scope;
