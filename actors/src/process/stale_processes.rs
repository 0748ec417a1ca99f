//! What still runs of a home and is not, or no longer, of its host: it has to end before the host may
//! be registered, since another host may have its attempt.

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

const ENDED: &str = "it was ended: its host was given up, or another one has its attempt";
const DELETED: &str = " (deleted)";

impl Shims {
    /// The folders below these ones, `<owner>/<process>` each, of processes that may have something
    /// alive.
    pub async fn alive_below(&self, homes: &[PathBuf]) -> io::Result<BTreeSet<PathBuf>> {
        let homes = homes.to_vec();
        blocking(move || Ok(homes.iter().filter_map(|it| fs::canonicalize(it).ok()).collect()))
            .await
            .map(|homes: Vec<PathBuf>| alive_below(&homes))
    }

    /// Kills all that is alive of the process of a folder. `Err` is a sentence: something may be.
    pub async fn end_stale(&self, dir: &Path) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", dir.display());
        let adopted = self.adopt(dir).await;
        let killed = match &adopted {
            Ok(Adopted::Live(shim)) => shim.control.kill_tree().await.ok(),
            _ => None,
        };
        let report = match (killed, adopted) {
            (Some(report), _) => report,
            // Without a shim, or that one has just ended.
            (None, Ok(Adopted::Live(_) | Adopted::Lost { .. } | Adopted::Ended(_))) => {
                self.sweep(dir, ENDED).await.map_err(|error| failed(&error))?.report
            }
            // Its folder was deleted, or its shim does not answer.
            (None, Ok(Adopted::NeverStarted) | Err(_)) => {
                if let Some(marker) = marker_of(dir) {
                    self.sweep_deleted(marker).await.map_err(|error| failed(&error))?;
                }
                KillReport::default()
            }
        };
        if report.survivors.is_empty() {
            return Ok(());
        }
        Err(failed(&format!("these can't be killed: {:?}", report.survivors)))
    }
}

fn alive_below(homes: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut found: BTreeSet<PathBuf> = homes.iter().flat_map(|home| without_end(home)).collect();
    let own = geteuid().as_raw();
    for pid in proc::all() {
        // The owner first: to read what another one's process shows may block.
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

/// The folders of what was started and has no record of its end.
fn without_end(home: &Path) -> Vec<PathBuf> {
    let below = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    let processes = below(home).flat_map(|owner| below(&owner.path()).collect::<Vec<_>>());
    let is_open =
        |dir: &PathBuf| dir.join(Started::FILE).exists() && !dir.join(ExitRecord::FILE).exists();
    processes.map(|entry| entry.path()).filter(is_open).collect()
}

fn marker_of(dir: &Path) -> Option<Marker> {
    let name = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
    let attempt = name(dir.parent()?)?.parse().ok()?;
    Some(Marker { attempt, process: name(dir)?.parse().ok()? })
}
