//! Work and locks that block, for callers that must not block for long: actors and async tasks.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Runs blocking work on a thread of the runtime's pool, within the caller's tracing span. If the caller is
/// dropped, the work runs to its end nevertheless.
///
/// # Errors
/// The work's own; an `io::Error` if it panicked.
pub async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<io::Error> + Send + 'static,
{
    let span = tracing::Span::current();
    let work = move || span.in_scope(work);
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Locks a mutex whether or not an earlier holder has panicked. Only for data that is consistent at every
/// point where a holder can panic.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes `None` of "not found".
///
/// # Errors
/// All other errors.
pub fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}
