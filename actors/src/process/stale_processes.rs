//! Processes that still run in a home although its host does not own their attempts (any more). They have to
//! end before the daemon registers the host, since another host may run the same attempts.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use super::kill::KillReport;
use super::proc;
use super::records::{ExitRecord, Started};
use super::shims::{Adopted, Shims};
use super::tree::Marker;
use crate::blocking::blocking;

/// The reason in the exit record of a process that was ended here.
const ENDED: &str = "it was ended: its host was given up, or another one has its attempt";
/// What the kernel appends to the target of a link in `/proc` whose file was deleted (proc_pid_exe(5)).
const DELETED: &str = " (deleted)";

impl Shims {
    /// The process folders (`<home>/<attempt or check run>/<process>`) of which something may be alive: those
    /// without an exit record, and those that a running shim or a marker in an environment names. A folder in
    /// the result may be deleted by now.
    pub async fn alive_below(&self, homes: &[PathBuf]) -> io::Result<BTreeSet<PathBuf>> {
        let homes = homes.to_vec();
        blocking(move || Ok(homes.iter().filter_map(|it| fs::canonicalize(it).ok()).collect()))
            .await
            .map(|homes: Vec<PathBuf>| alive_below(&homes))
    }

    /// Kills all that is alive of the process of a folder. `Err` is a sentence without its full stop:
    /// something may be alive, and the caller tries again.
    pub async fn end_stale(&self, dir: &Path) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", dir.display());
        let adopted = self.adopt(dir).await;
        let killed = match &adopted {
            Ok(Adopted::Live(shim)) => shim.control.kill_tree().await.ok(),
            _ => None,
        };
        let report = match (killed, adopted) {
            (Some(report), _) => report,
            // There is no shim, or it ended before the kill.
            (None, Ok(Adopted::Live(_) | Adopted::Lost { .. } | Adopted::Ended(_))) => {
                self.sweep(dir, ENDED).await.map_err(|error| failed(&error))?.report
            }
            // The folder was deleted, or its shim does not answer: the marker leads to both.
            (None, Ok(Adopted::NeverStarted) | Err(_)) => match marker_of(dir) {
                Some(marker) => {
                    self.sweep_deleted(marker).await.map_err(|error| failed(&error))?.report
                }
                None => KillReport::default(),
            },
        };
        if report.survivors.is_empty() {
            return Ok(());
        }
        Err(failed(&format!("these can't be killed: {:?}", report.survivors)))
    }
}

/// The search: the folders without an end, and one look at every process of this user. A shim leads to its
/// folder by its working folder, any other process by its marker.
fn alive_below(homes: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut found: BTreeSet<PathBuf> = homes.iter().flat_map(|home| without_end(home)).collect();
    let own = geteuid().as_raw();
    for pid in proc::all() {
        // The owner is checked first: reading files of another user's process may block.
        if proc::real_uid(pid) != Some(own) {
            continue;
        }
        let folder = if proc::is_shim(pid) {
            fs::read_link(format!("/proc/{pid}/cwd")).ok()
        } else {
            Marker::of(&proc::environ(pid)).and_then(|marker| {
                let below = format!("{}/{}", marker.attempt, marker.process);
                homes.iter().map(|home| home.join(&below)).find(|folder| folder.exists())
            })
        };
        let folder = folder.map(|it| {
            let text = it.to_string_lossy();
            PathBuf::from(text.strip_suffix(DELETED).unwrap_or(&text))
        });
        found.extend(folder.filter(|folder| homes.iter().any(|home| folder.starts_with(home))));
    }
    found
}

/// The folders of processes that were started and have no exit record.
fn without_end(home: &Path) -> Vec<PathBuf> {
    let below = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    let processes = below(home).flat_map(|owner| below(&owner.path()).collect::<Vec<_>>());
    let is_open =
        |dir: &PathBuf| dir.join(Started::FILE).exists() && !dir.join(ExitRecord::FILE).exists();
    processes.map(|entry| entry.path()).filter(is_open).collect()
}

/// The marker that belongs to a folder's name. `None`: the names are no ids.
fn marker_of(dir: &Path) -> Option<Marker> {
    let name = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
    let attempt = name(dir.parent()?)?.parse().ok()?;
    Some(Marker { attempt, process: name(dir)?.parse().ok()? })
}
