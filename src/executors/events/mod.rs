//! `events`: programs that write normalized entries themselves, one JSON object
//! a line. This is what scripted executors speak.

mod normalize;

pub use normalize::normalizer;
