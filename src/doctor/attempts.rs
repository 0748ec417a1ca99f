//! The checks of attempts: whether rows, folders, spools, worktrees and branches agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use provost_actors::attempt::{MARKER, locks};
use provost_actors::blocking::if_there;
use provost_actors::event::Stream;
use provost_actors::log::spool::format::{
    FixedRecord, INDEX, RECORD_LEN, Record, segment_path, segments,
};
use provost_actors::process::records::{ExitRecord, Manifest};
use provost_actors::workspace::git;
use provost_actors::workspace::own::Own;

use super::check::Check;
use super::home::to_trash;
use crate::home::Home;
use crate::store::InspectedAttempt;

/// How many findings of one kind are listed; the others are only counted. What can be fixed is always
/// listed.
const LISTED_MAX: usize = 10;
/// How many bytes at the end of a spool's index are examined: the doctor must be quick also with large
/// spools.
const INDEX_TAIL: u64 = 1 << 20;

/// Compares rows with folders, and examines the spools of ended processes and the locks of ended
/// attempts. Blocking.
pub fn on_disk(home: &Home, attempts: &[InspectedAttempt]) -> Vec<Check> {
    let mut findings = Vec::new();
    for attempt in attempts {
        let dir = home.attempts().join(&attempt.attempt_id);
        for process in attempt.processes.iter().filter(|it| it.closed && it.status != "planned") {
            let folder = dir.join(&process.process_id);
            if folder.join(Manifest::FILE).exists() {
                findings.extend(of_process(&folder));
            } else if !dir.exists() {
                // A process whose worktrees could not be made has a folder without a manifest: that is no
                // fault.
                let message = format!("{} is missing, and its log with it", dir.display());
                let hint = "Restore it from a backup if there is one; nothing else depends on it.";
                findings.push(Check::warn("attempts", message, hint));
            }
        }
        if attempt.is_over() {
            findings.extend(abandoned_locks(home, attempt));
        }
    }
    let ids = attempts.iter().map(|it| it.attempt_id.as_str()).collect();
    let hint = "It is from another database, perhaps a replaced one. Look, then delete it.";
    findings.extend(unknown("attempts", &home.attempts(), &ids, hint));
    let folders = attempts.iter().map(|it| it.folder.as_str()).collect();
    let hint = "It may hold work. Look, then move it away.";
    findings.extend(unknown("worktrees", &home.worktrees(), &folders, hint));
    let well = format!("{} are on record, and complete on disk", attempts.len());
    listed("attempts", findings, well)
}

/// The entries of a folder that belong to no attempt.
fn unknown(name: &str, folder: &Path, known: &BTreeSet<&str>, hint: &str) -> Vec<Check> {
    let entries = names_in(folder).into_iter().filter(|name| !known.contains(&**name));
    let message = |entry| format!("{} belongs to no attempt", folder.join(entry).display());
    entries.map(|entry: String| Check::warn(name, message(entry), hint)).collect()
}

/// The findings in the folder of a process that has ended.
fn of_process(folder: &Path) -> Vec<Check> {
    let mut findings = Vec::new();
    if !folder.join(ExitRecord::FILE).exists() {
        let message = format!("{} has no exit record", folder.display());
        let hint = "Only the attempt's status says how that process ended.";
        findings.push(Check::warn("attempts", message, hint));
    }
    if let Some(damage) = damage_of_spool(folder) {
        let message = format!("the spool in {} is damaged: {damage}", folder.display());
        let hint = "The undamaged part is still served; the rest of that log is lost.";
        findings.push(Check::warn("spools", message, hint));
    }
    // A `.NAME.tmp` is left if its writer died before it renamed the file.
    let is_half = |name: &String| name.strip_suffix(".tmp").is_some_and(|it| it.starts_with('.'));
    findings.extend(names_in(folder).into_iter().filter(is_half).map(|name| {
        let path = folder.join(name);
        let message = format!("{} was never finished", path.display());
        Check::note("attempts", message, "").cure(move |home| to_trash(home, &path))
    }));
    findings
}

/// What is damaged in a spool: an index record is invalid, or a segment is shorter than the index says.
/// `None`: no damage in the examined part.
fn damage_of_spool(folder: &Path) -> Option<String> {
    let ends = match spool_ends(folder) {
        Err(error) => return Some(error.to_string()),
        Ok(None) => return Some("its index has a damaged record".to_owned()),
        Ok(Some(ends)) => ends,
    };
    ends.into_iter().find_map(|(stream, end)| {
        let stored = match segments(folder, stream).ok()?.last() {
            Some(start) => start + fs::metadata(segment_path(folder, stream, *start)).ok()?.len(),
            None => 0,
        };
        (stored < end).then(|| format!("{} bytes of a segment are missing", end - stored))
    })
}

/// The end of each stream, in bytes, by its newest index records. `None`: a record is damaged.
fn spool_ends(folder: &Path) -> io::Result<Option<[(Stream, u64); 2]>> {
    let mut ends = [(Stream::Stdout, 0), (Stream::Stderr, 0)];
    let Some(file) = if_there(fs::File::open(folder.join(INDEX)))? else { return Ok(Some(ends)) };
    let len = file.metadata()?.len();
    let whole = len - len % RECORD_LEN as u64;
    let start = whole.saturating_sub(INDEX_TAIL);
    let mut bytes = vec![0; usize::try_from(whole - start).unwrap_or_default()];
    file.read_exact_at(&mut bytes, start)?;
    for record in bytes.as_chunks::<RECORD_LEN>().0 {
        let Some(record) = Record::decode(record) else { return Ok(None) };
        let end = &mut ends[usize::from(record.stream == Stream::Stderr)].1;
        *end = record.end().max(*end);
    }
    Ok(Some(ends))
}

/// Git's lock files that a dead git left behind in the repositories of an attempt that has ended.
fn abandoned_locks(home: &Home, attempt: &InspectedAttempt) -> Vec<Check> {
    let mut checks = Vec::new();
    for (name, _) in &attempt.repos {
        let (worktree, own) = (worktree(home, attempt, name), own(home, attempt, name));
        for lock in locks::of(&own) {
            if locks::is_abandoned(&lock, &worktree) {
                let message = format!("no process holds the lock {}", lock.display());
                let (worktree, own) = (worktree.clone(), own.clone());
                // Renamed and not deleted: the doctor deletes nothing in a repository.
                let set_aside = move |_: &Home| {
                    if locks::of(&own).contains(&lock) && locks::set_aside(&lock, &worktree)? {
                        Ok("renamed".to_owned())
                    } else {
                        Err(io::Error::other("a process may hold it"))
                    }
                };
                checks.push(Check::warn("worktrees", message, "").cure(set_aside));
            }
        }
    }
    checks
}

fn worktree(home: &Home, attempt: &InspectedAttempt, name: &str) -> PathBuf {
    home.worktrees().join(&attempt.folder).join(name)
}

fn own(home: &Home, attempt: &InspectedAttempt, name: &str) -> Own {
    Own::of(&home.attempts().join(&attempt.attempt_id), name)
}

/// Examines whether the worktrees, the own repositories and the branches of attempts exist. Runs git once
/// for each repository.
pub async fn in_git(home: &Home, attempts: &[InspectedAttempt]) -> Vec<Check> {
    let mut branches: BTreeMap<&str, Option<BTreeSet<String>>> = BTreeMap::new();
    let mut findings = Vec::new();
    for attempt in attempts {
        let is_made = home.attempts().join(&attempt.attempt_id).join(MARKER).exists();
        for (name, path) in &attempt.repos {
            if !branches.contains_key(path.as_str()) {
                let found = branches_of(Path::new(path)).await.map_err(|error| {
                    let message = format!("the repository {path} can't be read: {error}");
                    let hint = "Move it back to where it was.";
                    findings.push(Check::warn("repositories", message, hint));
                });
                branches.insert(path, found.ok());
            }
            if let Some(Some(branches)) = branches.get(path.as_str()).filter(|_| is_made) {
                let worktree = worktree(home, attempt, name);
                let has_own = own(home, attempt, name).admin().exists();
                let has_branch = branches.contains(&attempt.branch);
                findings.extend(of_worktree(&worktree, &attempt.branch, has_own, has_branch));
            }
        }
    }
    listed(
        "worktrees",
        findings,
        "they, their repositories and their branches are there".to_owned(),
    )
}

async fn branches_of(repo: &Path) -> Result<BTreeSet<String>, git::GitError> {
    let listed = git::run(repo, &["for-each-ref", git::BRANCH, "refs/heads"]).await?;
    Ok(listed.lines().map(str::to_owned).collect())
}

/// What is missing of one worktree. Most of it is made again by the attempt's next turn.
fn of_worktree(worktree: &Path, branch: &str, has_own: bool, has_branch: bool) -> Option<Check> {
    let shown = worktree.display();
    let (message, hint) = match (worktree.is_dir(), has_own) {
        (_, false) => (
            format!(
                "{shown} has no git repository of its own: an earlier version of Provost made it"
            ),
            "Finish the attempt, or run `provost rm` for it, with the version that made it.",
        ),
        (false, true) => (
            format!("{shown} is missing: moved or deleted by hand"),
            "The attempt's next turn or finish makes it again, as its last turn left it.",
        ),
        (true, true) if !has_branch => (
            format!("the branch {branch} of {shown} is missing"),
            "The attempt's next turn or finish makes it again.",
        ),
        (true, true) => return None,
    };
    Some(Check::warn("worktrees", message, hint))
}

/// The findings, of which at most [`LISTED_MAX`] can't be fixed; without findings, one line that all is
/// well.
fn listed(name: &str, mut findings: Vec<Check>, well: String) -> Vec<Check> {
    if findings.is_empty() {
        return vec![Check::ok(name, well)];
    }
    findings.sort_by_key(|check| !check.fixable);
    let most = findings.iter().filter(|check| check.fixable).count().max(LISTED_MAX);
    let more = findings.len().saturating_sub(most);
    findings.truncate(most);
    if more > 0 {
        findings.push(Check::warn(name, format!("{more} more of these"), ""));
    }
    findings
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
