//! The fault matrix of `docs/reliability.md`: each test causes a fault for real, and checks
//! from outside what was promised. One module for each kind of fault.

mod clients;
mod configuration;
mod database;
mod descriptors;
mod disk;
mod identity;
mod limits;
mod output;
mod processes;
mod secrets;
mod stop;
