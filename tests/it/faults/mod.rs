//! The fault matrix of the README: each fault brought about for real, and what
//! was promised checked from outside. One module a kind of fault.

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
