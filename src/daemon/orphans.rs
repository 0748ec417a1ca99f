//! Attempts and processes that have a folder and no row. Rows are written before folders, so the board
//! was lost, or an older copy of it was put back. If attempts are missing, the daemon does not start: it
//! would not know whose work they are. If only processes are missing, the daemon logs them and does
//! nothing about them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use provost_actors::ids::{AttemptId, ProcessId};
use provost_actors::process::records::ExitRecord;

use crate::home::Home;
use crate::store::Store;

/// Why a board can't be the one of this home.
#[derive(Debug, thiserror::Error)]
pub enum LostBoard {
    #[error(
        "the board ({}) lacks {count} attempts of which this home has files ({first}): it was lost, or \
         an older copy was put back. Nothing was changed, and executors run on. Put the newest copy \
         back; or, to go on without these attempts, move their folders out of {}",
        board.display(),
        attempts.display()
    )]
    Lost { board: PathBuf, count: usize, first: String, attempts: PathBuf },
    #[error("which attempts the board has can't be read: {0}")]
    Unread(String),
}

/// Refuses a board that lacks attempts of this home. `None`: the board would be created now, so it lacks
/// all of them.
pub async fn refuse(home: &Home, store: Option<&Store>) -> Result<(), LostBoard> {
    let attempts = home.attempts();
    let names = below(&attempts).filter_map(|entry| named(&entry));
    let mut ids: Vec<String> = names.filter(|name| name.parse::<AttemptId>().is_ok()).collect();
    if let Some(store) = store {
        let unknown = store.unknown_attempts(&ids).await;
        ids = unknown.map_err(|refusal| LostBoard::Unread(refusal.message))?;
    }
    let Some(first) = ids.first().cloned() else { return Ok(()) };
    Err(LostBoard::Lost { board: home.database(), count: ids.len(), first, attempts })
}

/// Logs each process that has a folder below `attempts` and no row.
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
    let attempts = below(attempts)
        .filter(|entry| named(entry).is_some_and(|name| name.parse::<AttemptId>().is_ok()));
    let processes = attempts.flat_map(|attempt| below(&attempt.path()).collect::<Vec<_>>());
    processes
        .filter_map(|entry| Some((named(&entry)?, entry.path())))
        .filter(|(name, _)| name.parse::<ProcessId>().is_ok())
        .collect()
}

/// The entries of a folder; none if it can't be read.
fn below(dir: &Path) -> impl Iterator<Item = fs::DirEntry> + use<> {
    fs::read_dir(dir).into_iter().flatten().flatten()
}

fn named(entry: &fs::DirEntry) -> Option<String> {
    entry.file_name().into_string().ok()
}
