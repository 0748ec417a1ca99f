//! Faults of what Provost is given: its configuration, and the repositories it works in.
