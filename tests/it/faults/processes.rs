//! Whatever becomes of executors and of what they start.
