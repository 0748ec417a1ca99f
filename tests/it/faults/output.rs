//! Whatever executors may write, and however much.
