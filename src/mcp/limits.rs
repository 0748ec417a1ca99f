//! The limits of one connection, with their values.

use std::sync::Arc;
use std::time::Duration;

use super::backlog::Shared;
use crate::tools::{CallLimits, Rates};

/// What one connection may use.
#[derive(Clone)]
pub struct Limits {
    pub room: CallLimits,
    /// How long calls in flight may still be answered after the peer has sent its last line; calls that
    /// wait for news have one second at most.
    pub grace: Duration,
    /// The interval of progress reports of a waiting call. It is a number that no likely timeout is a
    /// multiple of: a report that a client gets at the moment of its timeout would be one for an unknown
    /// call.
    pub beat: Duration,
    /// The longest line that is read, in bytes, without its `\n`.
    pub line: usize,
    /// How long a peer may read nothing while answers wait for it; then its connection ends. A bridge
    /// connects again and repeats what was not answered.
    pub stalled: Duration,
    /// How often workers may call; the buckets are shared by all connections.
    pub rates: Arc<Rates>,
    /// The limit for large answers, shared by all connections.
    pub shared: Shared,
}

impl Limits {
    /// The limits of a connection with the values that all connections have; `rates` and `shared` are the
    /// daemon's only ones.
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
