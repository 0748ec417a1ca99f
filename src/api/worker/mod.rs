//! The worker API: the calls of the agent that does a task, with the field names of its
//! specification.

pub mod completed;
pub mod done;
pub mod failure;
pub mod inbox;
pub mod issue;
pub mod late;
pub mod next;
pub mod observation;
pub mod path;
pub mod question;
pub mod receipt;
pub mod report;
pub mod reported;
pub mod status;
pub mod ticket;
pub mod tools;
pub mod verification;
