//! Processes with a folder and no row. Rows are written first, so a part of the database was
//! lost: that is logged, and nothing is done about it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use provost_actors::ids::{AttemptId, ProcessId};
use provost_actors::process::records::ExitRecord;

use crate::store::Store;

/// Logs each of them.
pub async fn report(attempts: PathBuf, store: &Store) {
    let Ok(folders) = tokio::task::spawn_blocking(move || folders(&attempts)).await else { return };
    let ids: Vec<String> = folders.keys().cloned().collect();
    let unknown = match store.unknown_processes(&ids).await {
        Ok(unknown) => unknown,
        Err(error) => return tracing::warn!(%error, "processes' folders can't be compared"),
    };
    for folder in unknown.iter().filter_map(|id| folders.get(id)) {
        let ended = tokio::fs::try_exists(folder.join(ExitRecord::FILE)).await;
        tracing::error!(
            folder = %folder.display(),
            has_ended = ended.unwrap_or(false),
            "the database has no row for a process, so a part of it was lost. The process's \
             output is in the folder; if it runs, it is not supervised",
        );
    }
}

/// The folders of processes, by process id.
fn folders(attempts: &Path) -> HashMap<String, PathBuf> {
    let below = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    let named = |entry: &fs::DirEntry| entry.file_name().into_string().ok();
    let attempts = below(attempts)
        .filter(|entry| named(entry).is_some_and(|name| name.parse::<AttemptId>().is_ok()));
    let processes = attempts.flat_map(|attempt| below(&attempt.path()).collect::<Vec<_>>());
    processes
        .filter_map(|entry| Some((named(&entry)?, entry.path())))
        .filter(|(name, _)| name.parse::<ProcessId>().is_ok())
        .collect()
}
