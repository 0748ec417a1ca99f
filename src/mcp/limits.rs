//! What one connection may use.

use std::sync::Arc;
use std::time::Duration;

use super::backlog::Shared;
use crate::tools::{CallLimits, Rates};

/// What one connection may use.
#[derive(Clone)]
pub struct Limits {
    pub room: CallLimits,
    /// How long calls in flight may still be answered once the peer has sent
    /// its last line; those that sleep until there is news, a second at most.
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
            room: CallLimits::default(),
            grace: Duration::from_secs(4),
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
            crate::tools::Rate { agent_per_minute: 0, all_per_minute: 0, burst_per_second: 0 };
        Self::new(Arc::new(Rates::new(none)), Shared::default())
    }
}
