//! Work and locks that block, called from where nothing may block for long.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Runs blocking work on a thread of the runtime's pool.
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

/// Locks a mutex whose data is whole at every moment at which its holder can panic.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `None` for what does not exist.
///
/// # Errors
/// All others.
pub fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}
