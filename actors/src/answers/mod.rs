//! Answers to workers' questions: [`Consultant`] has the configured executor answer, and
//! [`Courier`] delivers answers to the attempts that asked. Their tasks outlive the calls
//! that begin them; after a restart each resumes what the store says is open.

mod consultant;
mod courier;

pub use consultant::Consultant;
pub use courier::Courier;
