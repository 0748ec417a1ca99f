//! What one connection may use.

use std::sync::Arc;
use std::time::Duration;

use super::backlog::Shared;
use super::rates::Rates;

/// What one connection may use.
#[derive(Clone)]
pub struct Limits {
    /// Calls in flight; more are refused as `rate_limited`.
    pub calls: usize,
    /// Waiting calls in flight: they sleep until there is news, cost next to nothing, and do
    /// not count as `calls`.
    pub sleepers: usize,
    /// The longest a call may take.
    pub time: Duration,
    /// How long calls in flight may still be answered once the peer has sent
    /// its last line.
    pub grace: Duration,
    /// The interval of a sleeping call's progress reports. No likely timeout is a multiple of
    /// it: a client may take a report right before the answer for one of an unknown call.
    pub beat: Duration,
    /// The longest line that is read, in bytes, without its `\n`.
    pub line: usize,
    /// How long a peer may leave what waits for it unread, before its connection ends.
    /// A bridge connects again and repeats what was not answered.
    pub stalled: Duration,
    /// How often workers may call, over all connections.
    pub rates: Arc<Rates>,
    /// What the answers of all connections may hold in memory.
    pub shared: Shared,
}

impl Limits {
    /// Those of one connection, under those of all.
    pub fn new(rates: Arc<Rates>, shared: Shared) -> Self {
        Self {
            calls: 256,
            sleepers: 2048,
            time: Duration::from_mins(10),
            grace: Duration::from_secs(1),
            beat: Duration::from_secs(7),
            line: 16 * 1024 * 1024,
            stalled: Duration::from_mins(1),
            rates,
            shared,
        }
    }
}

#[cfg(test)]
impl Default for Limits {
    fn default() -> Self {
        let none =
            super::rates::Rate { agent_per_minute: 0, all_per_minute: 0, burst_per_second: 0 };
        Self::new(Arc::new(Rates::new(none)), Shared::default())
    }
}
