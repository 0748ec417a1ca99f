//! A model server without a model: real coding-agent CLIs talk to it in tests,
//! on loopback and without a key. What it answers is scripted by a word in the
//! prompt, such as `[[edit]]`; [`scenario`] lists them.
//!
//! Data flows one way: a [`dialect`] reads an HTTP request into a
//! [`Request`](conversation::Request), the scenario makes a
//! [`Plan`](conversation::Plan) of it, and the dialect says that again in its own
//! terms. All of this is pure; only [`ModelServer`] knows sockets and clocks.

pub mod conversation;
pub mod dialect;
pub mod scenario;
mod serve;
mod tools;

pub use serve::ModelServer;
