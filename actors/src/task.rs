//! Tasks whose lines in the daemon's log name the attempt or the call that began them.

use tokio::task::JoinHandle;
use tracing::Instrument as _;

/// Spawns a task within the tracing span of its caller; `tokio::spawn` alone would lose that.
pub fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    tokio::spawn(work.in_current_span())
}
