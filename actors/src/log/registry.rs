//! The open logs: one [`AttemptLog`] per attempt at a time, opened at its first use.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Mutex, OnceCell};

use super::{AttemptLog, LogError, LogLimits};
use crate::blocking::{blocking, if_there};
use crate::ids::AttemptId;

/// Logs that are not in use are closed when more than this many are open.
const KEPT: usize = 32;

type Slot = Arc<OnceCell<Arc<AttemptLog>>>;

pub struct Logs {
    attempts_dir: PathBuf,
    limits: LogLimits,
    open: Mutex<HashMap<AttemptId, Slot>>,
}

impl Logs {
    pub fn new(attempts_dir: PathBuf, limits: LogLimits) -> Self {
        Self { attempts_dir, limits, open: Mutex::default() }
    }

    /// The log of an attempt, if anything was ever written to it.
    pub async fn find(&self, attempt: AttemptId) -> Result<Option<Arc<AttemptLog>>, LogError> {
        match if_there(tokio::fs::metadata(self.dir(attempt)).await)? {
            Some(_) => self.get(attempt).await.map(Some),
            None => Ok(None),
        }
    }

    fn dir(&self, attempt: AttemptId) -> PathBuf {
        self.attempts_dir.join(attempt.to_string())
    }

    pub async fn get(&self, attempt: AttemptId) -> Result<Arc<AttemptLog>, LogError> {
        let slot = {
            let mut open = self.open.lock().await;
            if open.len() > KEPT {
                let is_used = |log: &Arc<AttemptLog>| Arc::strong_count(log) > 1;
                open.retain(|_, slot| {
                    Arc::strong_count(slot) > 1 || slot.get().is_some_and(is_used)
                });
            }
            Arc::clone(open.entry(attempt).or_default())
        };
        let opened = slot.get_or_try_init(async || {
            let (dir, limits) = (self.dir(attempt), self.limits);
            blocking(move || AttemptLog::open(&dir, limits)).await.map(Arc::new)
        });
        opened.await.cloned()
    }
}
