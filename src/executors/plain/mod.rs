//! `plain`: any program that writes text. stdout is what it says, stderr what
//! it reports, exit 0 is success.

mod normalize;

pub use normalize::normalizer;
