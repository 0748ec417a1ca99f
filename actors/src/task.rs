//! Tasks whose log lines name the attempt or the call that began them.

use tokio::task::JoinHandle;
use tracing::Instrument as _;

/// Spawns a task within the span of its caller.
pub fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    tokio::spawn(work.in_current_span())
}
