//! An attempt's logs.
pub mod spool;
