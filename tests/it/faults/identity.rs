//! Faults of time and of names: clocks, pids, boots, locks and sockets.
