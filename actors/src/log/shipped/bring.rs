//! Brings the copy of a log into an attempt's folder, before the log is opened there. That is needed where
//! the attempt was moved to this host, or this home has lost its log.
//!
//! ```text
//!  .log-copying ─all of the copy is there─▶ .log-copied ─the old log is put aside─▶ .log-ready ─▶ the folder
//! ```
//!
//! A crash at any point leaves one of these folders. The next call discards `.log-copying` and continues
//! from the other two.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::{Chunk, CopyState, Shipment, Shipped, ShippedLogs};
use crate::blocking::{blocking, if_there};
use crate::event::{Channel, Event, NormalizedEntry, Timestamp};
use crate::failpoint;
use crate::ids::AttemptId;
use crate::log::checkpoint::Checkpoint;
use crate::log::normalized::{Mark, NormalizedWriter, Origin, Stored, end_offset};
use crate::log::{LogError, LogLimits};
use crate::refusal::Refusal;

const COPYING: &str = ".log-copying";
const COPIED: &str = ".log-copied";
const READY: &str = ".log-ready";
/// Begins the names of the folders for logs that were put aside.
const ASIDE: &str = "log-before-";

/// Brings an attempt's log into its folder if the attempt is on this host and the copy has more than the
/// folder, or is of another home's log.
///
/// # Errors
/// Faults of the disk. Faults of the store only if the folder has no log that could be opened instead.
pub async fn bring(
    rows: &dyn ShippedLogs,
    dir: &Path,
    attempt: AttemptId,
    limits: LogLimits,
) -> Result<(), LogError> {
    let folder = dir.to_owned();
    let on_file = blocking(move || {
        install(&folder)?;
        end_offset(&folder)
    })
    .await?;
    let standing = match rows.standing(&[attempt]).await {
        Ok(standing) => standing,
        Err(refusal) if on_file.is_some() => {
            tracing::warn!(%attempt, %refusal, "its log is opened without a look at its copy");
            return Ok(());
        }
        Err(refusal) => return Err(of_rows(&refusal)),
    };
    let copies = || [Channel::Normalized, Channel::Raw].map(|it| standing.of(attempt, it));
    let is_own = copies().into_iter().flatten().all(|copy| copy.home == standing.home);
    let [normalized, raw] = copies();
    let is_whole = on_file >= normalized.map(|copy| copy.next_offset);
    if !standing.here.contains(&attempt) || is_own && is_whole {
        return Ok(());
    }
    let normalized =
        if is_own { normalized.cloned() } else { take_over(rows, &standing, attempt).await? };
    let raw_from = raw.map_or(0, |raw| raw.next_entry);
    // A process that has written lines but led to no entry yet has a raw channel alone.
    let empty = raw.map(|raw| Shipped { oldest: 0, next_entry: 0, next_offset: 0, ..raw.clone() });
    let Some(copy) = normalized.or(empty) else { return Ok(()) };
    tracing::info!(%attempt, host = copy.host, "its log is brought here from the copy");
    copied(rows, dir, &copy, raw_from, limits).await?;
    let folder = dir.to_owned();
    blocking(move || Ok(install(&folder)?)).await
}

fn of_rows(refusal: &Refusal) -> LogError {
    LogError::Copy(refusal.message.clone())
}

/// Makes the copy one of this home's log, beginning with an entry that says so. From then on the rows refuse
/// what the former host ships. Returns the copy as it is now.
///
/// # Errors
/// The copy has changed since `standing` was read.
async fn take_over(
    rows: &dyn ShippedLogs,
    standing: &CopyState,
    attempt: AttemptId,
) -> Result<Option<Shipped>, LogError> {
    let mut shipments = Vec::new();
    for channel in [Channel::Normalized, Channel::Raw] {
        let Some(copy) = standing.of(attempt, channel) else { continue };
        if copy.home == standing.home {
            continue;
        }
        let chunk = match channel {
            Channel::Normalized => gap(rows, copy).await?,
            Channel::Raw => None,
        };
        shipments.push(Shipment {
            attempt_id: attempt,
            channel,
            before: Some(copy.clone()),
            oldest: copy.oldest,
            next: chunk.as_ref().map_or(copy.end(), Chunk::end),
            last_activity_at: copy.last_activity_at,
            chunks: chunk.into_iter().collect(),
        });
    }
    let done = rows.ship(&shipments).await.map_err(|refusal| of_rows(&refusal))?;
    failpoint::hit("log", "taken_over");
    if done != shipments.len() {
        return Err(LogError::Copy("it has changed meanwhile".to_owned()));
    }
    let standing = rows.standing(&[attempt]).await.map_err(|refusal| of_rows(&refusal))?;
    Ok(standing.of(attempt, Channel::Normalized).cloned())
}

/// The entry that takes the place of what a copy may lack. `None` for a copy without entries: there is no
/// process and turn to name.
async fn gap(rows: &dyn ShippedLogs, copy: &Shipped) -> Result<Option<Chunk>, LogError> {
    let held = copy.oldest..copy.next_entry;
    let newest = rows.chunks(copy.attempt_id, copy.channel, held, true).await;
    let newest = newest.map_err(|refusal| of_rows(&refusal))?;
    let Some(last) = newest.first().map(Chunk::entries).transpose()?.and_then(|mut it| it.pop())
    else {
        return Ok(None);
    };
    let damaged = |error: serde_json::Error| LogError::Damaged(error.to_string());
    let Stored { process, turn, .. } = last.parse().map_err(damaged)?;
    let text = format!(
        "host {} was lost: its output after entry {} is not in this log",
        copy.host, last.index
    );
    let entry = NormalizedEntry {
        entry_index: copy.next_entry,
        at: Timestamp::now(),
        execution_process_id: process,
        turn,
        event: Event::SystemMessage { text },
    };
    let json = serde_json::to_string(&entry).map_err(damaged)?;
    let origin = serde_json::to_string(&Origin::Daemon).map_err(damaged)?;
    Ok(Some(Chunk::of(copy.end(), 1, format!("{json}\t{origin}\n").as_bytes())?))
}

/// Writes the copy to a folder beside the log, whole and on the disk, and then renames the folder.
async fn copied(
    rows: &dyn ShippedLogs,
    dir: &Path,
    copy: &Shipped,
    raw_from: u64,
    limits: LogLimits,
) -> Result<(), LogError> {
    let copying = dir.join(COPYING);
    let mut writer = blocking({
        let copying = copying.clone();
        move || {
            if_there(fs::remove_dir_all(&copying))?;
            fs::create_dir_all(&copying)?;
            let end = Mark::default();
            NormalizedWriter::open(&copying, limits.spool_max_bytes, end, |_, _| {})
        }
    })
    .await?;
    let mut at = copy.oldest;
    while at < copy.next_entry {
        let wanted = at..copy.next_entry;
        let chunks = rows.chunks(copy.attempt_id, copy.channel, wanted, false).await;
        let chunks = chunks.map_err(|refusal| of_rows(&refusal))?;
        let Some(end) = chunks.last().map(|last| last.end().entry) else {
            return Err(LogError::Copy(format!("it lacks entry {at}")));
        };
        at = end;
        writer = blocking(move || {
            for chunk in chunks {
                writer.copy(chunk.first, &chunk.text()?)?;
            }
            Ok::<_, LogError>(writer)
        })
        .await?;
    }
    let copied = dir.join(COPIED);
    blocking(move || {
        let mut checkpoint = Checkpoint::new(0, writer.close()?, [].into());
        checkpoint.raw_from = Some(raw_from);
        checkpoint.write(&copying, true)?;
        failpoint::hit("log", "copied");
        Ok(fs::rename(&copying, &copied)?)
    })
    .await
}

/// Moves a copied log to its place, as far as an earlier call has not done it. The log that was there stays,
/// in a folder of its own.
fn install(dir: &Path) -> io::Result<()> {
    let (copied, ready) = (dir.join(COPIED), dir.join(READY));
    if copied.try_exists()? {
        put_aside(dir)?;
        fs::rename(&copied, &ready)?;
    }
    let Some(files) = if_there(fs::read_dir(&ready))? else { return Ok(()) };
    failpoint::hit("log", "ready");
    for file in files {
        let file = file?;
        fs::rename(file.path(), dir.join(file.file_name()))?;
    }
    File::open(dir)?.sync_all()?;
    fs::remove_dir(&ready)
}

/// Moves the files of the present log to a folder that nothing reads.
fn put_aside(dir: &Path) -> io::Result<()> {
    let mut found = Vec::new();
    for file in fs::read_dir(dir)? {
        let name = file?.file_name();
        let is_log = name.to_str().is_some_and(|name| {
            name.starts_with("normalized") || ["raw.idx", "checkpoint.json"].contains(&name)
        });
        if is_log {
            found.push(name);
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let aside = dir.join(format!("{ASIDE}{}", Timestamp::now().millis()));
    fs::create_dir_all(&aside)?;
    found.iter().try_for_each(|name| fs::rename(dir.join(name), aside.join(name)))
}
