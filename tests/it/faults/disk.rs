//! Faults of the disk and of the home's files.
