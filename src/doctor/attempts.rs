//! Attempts: whether rows, folders, spools, worktrees and branches agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use provost_actors::attempt::{MARKER, locks};
use provost_actors::event::Stream;
use provost_actors::log::spool::format::{INDEX, RECORD_LEN, Record, segment_path, segments};
use provost_actors::process::manifest::{ExitRecord, Manifest};
use provost_actors::workspace::git;

use super::check::{Check, Cure};
use crate::home::Home;
use crate::store::InspectedAttempt;

/// Findings of one kind that are told one by one.
const TOLD_MAX: usize = 10;
/// Of a spool's index, the newest records so many bytes long are looked at.
const INDEX_TAIL: u64 = 1 << 20;

/// What rows and folders say of each other, spools, and locks in worktrees.
pub fn on_disk(home: &Home, attempts: &[InspectedAttempt]) -> Vec<Check> {
    let mut findings = Vec::new();
    for attempt in attempts {
        let dir = home.attempts().join(&attempt.attempt_id);
        for process in attempt.processes.iter().filter(|process| process.status != "planned") {
            let folder = dir.join(&process.process_id);
            if process.closed && !folder.join(Manifest::FILE).exists() {
                // One whose worktrees could not be made has none.
                if !dir.exists() {
                    findings.push(gone(&dir));
                }
            } else if process.closed {
                findings.extend(unended(&folder));
                findings.extend(spool(&folder));
                findings.extend(half_written(&folder));
            }
        }
        if attempt.is_over() {
            findings.extend(left_locked(home, attempt));
        }
    }
    let known: BTreeSet<&str> = attempts.iter().map(|it| it.attempt_id.as_str()).collect();
    let strange = names_in(&home.attempts()).into_iter().filter(|name| !known.contains(&**name));
    findings.extend(strange.map(|name| {
        let path = home.attempts().join(name);
        Check::warn("attempts", format!("{} belongs to no attempt", path.display()))
            .hint("It is of another database, perhaps one that was replaced. Look, then delete it.")
    }));
    let known: BTreeSet<&str> = attempts.iter().map(|it| it.folder.as_str()).collect();
    let strange = names_in(&home.worktrees()).into_iter().filter(|name| !known.contains(&**name));
    findings.extend(strange.map(|name| {
        let path = home.worktrees().join(name);
        Check::warn("worktrees", format!("{} belongs to no attempt", path.display()))
            .hint("It may hold work. Look, then move it away.")
    }));
    told("attempts", findings, || format!("{} are on record, and whole on disk", attempts.len()))
}

fn gone(dir: &Path) -> Check {
    Check::warn("attempts", format!("{} is gone, and with it a log", dir.display()))
        .hint("Put it back from a backup, if there is one; nothing else depends on it.")
}

/// A process that is over has an exit record, or it never started.
fn unended(folder: &Path) -> Option<Check> {
    let is_there = folder.join(ExitRecord::FILE).exists();
    (!is_there).then(|| {
        Check::warn("attempts", format!("{} holds no exit record", folder.display()))
            .hint("How that process ended is in the attempt's status alone.")
    })
}

/// Files that somebody died while writing.
fn half_written(folder: &Path) -> Vec<Check> {
    let is_half = |name: &String| name.strip_suffix(".tmp").is_some_and(|it| it.starts_with('.'));
    let names = names_in(folder).into_iter().filter(is_half);
    names
        .map(|name| {
            let path = folder.join(name);
            Check::note("attempts", format!("{} was never finished", path.display()))
                .cure(Cure::Trash(path))
        })
        .collect()
}

/// Whether the records of a spool are whole and its segments hold what they say.
fn spool(folder: &Path) -> Option<Check> {
    let damaged = |what: String| {
        let message = format!("the spool in {} is damaged: {what}", folder.display());
        let hint = "What is whole is still served; the rest of that log is lost.";
        Check::warn("spools", message).hint(hint)
    };
    match spool_ends(folder) {
        Err(error) => Some(damaged(error.to_string())),
        Ok(None) => Some(damaged("a record of its index is not whole".to_owned())),
        Ok(Some(ends)) => ends.into_iter().find_map(|(stream, end)| {
            let held = held_to(folder, stream).ok()?;
            (held < end).then(|| damaged(format!("{} bytes of a segment are missing", end - held)))
        }),
    }
}

/// Where each stream ends by its newest records; `None`: one of them is damaged.
fn spool_ends(folder: &Path) -> io::Result<Option<Vec<(Stream, u64)>>> {
    use std::os::unix::fs::FileExt;
    let file = match fs::File::open(folder.join(INDEX)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(Vec::new())),
        Err(error) => return Err(error),
    };
    let len = file.metadata()?.len();
    let whole = len - len % RECORD_LEN as u64;
    let start = whole.saturating_sub(INDEX_TAIL);
    let mut bytes = vec![0; usize::try_from(whole - start).unwrap_or_default()];
    file.read_exact_at(&mut bytes, start)?;
    let mut ends = [(Stream::Stdout, 0), (Stream::Stderr, 0)];
    let (records, _torn) = bytes.as_chunks::<RECORD_LEN>();
    for record in records {
        let Some(record) = Record::decode(record) else { return Ok(None) };
        let end = &mut ends[usize::from(record.stream == Stream::Stderr)].1;
        *end = record.end().max(*end);
    }
    Ok(Some(ends.to_vec()))
}

fn held_to(folder: &Path, stream: Stream) -> io::Result<u64> {
    let Some(start) = segments(folder, stream)?.last().copied() else { return Ok(0) };
    Ok(start + fs::metadata(segment_path(folder, stream, start))?.len())
}

/// Locks that a dead git left in the worktrees of an attempt that is over.
fn left_locked(home: &Home, attempt: &InspectedAttempt) -> Vec<Check> {
    let worktrees = attempt.repos.iter().map(|(name, _)| worktree(home, attempt, name));
    let locked = worktrees.flat_map(|worktree| {
        locks::of(&worktree).into_iter().map(move |it| (it, worktree.clone()))
    });
    locked
        .filter(|(lock, worktree)| locks::is_abandoned(lock, worktree))
        .map(|(lock, worktree)| {
            let message = format!("{} is held by nobody", lock.display());
            Check::warn("worktrees", message).cure(Cure::SetLockAside { lock, worktree })
        })
        .collect()
}

fn worktree(home: &Home, attempt: &InspectedAttempt, name: &str) -> PathBuf {
    home.worktrees().join(&attempt.folder).join(name)
}

/// What git knows of a repository.
struct Known {
    worktrees: BTreeSet<PathBuf>,
    branches: BTreeSet<String>,
}

/// Whether git knows the worktrees and branches of attempts.
pub async fn in_git(home: &Home, attempts: &[InspectedAttempt]) -> Vec<Check> {
    let mut repos: BTreeMap<&str, Option<Known>> = BTreeMap::new();
    let mut findings = Vec::new();
    for (_, path) in attempts.iter().flat_map(|attempt| &attempt.repos) {
        if repos.contains_key(path.as_str()) {
            continue;
        }
        let known = known_of(Path::new(path)).await;
        if let Err(error) = &known {
            let message = format!("the repository {path} can't be read: {error}");
            findings.push(Check::warn("repositories", message).hint("Put it back where it was."));
        }
        repos.insert(path, known.ok());
    }
    for attempt in attempts {
        let marker = home.attempts().join(&attempt.attempt_id).join(MARKER);
        let is_made = marker.exists();
        for (name, path) in &attempt.repos {
            if let Some(Some(known)) = repos.get(path.as_str()).filter(|_| is_made) {
                findings.extend(of_worktree(home, attempt, name, known));
            }
        }
    }
    told("worktrees", findings, || "git knows them, and their branches".to_owned())
}

async fn known_of(repo: &Path) -> Result<Known, git::GitError> {
    let worktrees = git::run(repo, &["worktree", "list", "--porcelain"]).await?;
    let worktrees = worktrees.lines().filter_map(|line| line.strip_prefix("worktree "));
    let branches = git::run(repo, &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    Ok(Known {
        worktrees: worktrees.map(PathBuf::from).collect(),
        branches: branches.await?.lines().map(str::to_owned).collect(),
    })
}

fn of_worktree(
    home: &Home,
    attempt: &InspectedAttempt,
    name: &str,
    known: &Known,
) -> Option<Check> {
    let worktree = worktree(home, attempt, name);
    let shown = worktree.display();
    let (is_there, is_known) = (worktree.is_dir(), known.worktrees.contains(&worktree));
    let warn = |message: String, hint: &str| Some(Check::warn("worktrees", message).hint(hint));
    match (is_there, is_known) {
        (false, true) => warn(
            format!("{shown} is gone, and git has it registered"),
            "Put it back; if its work is not needed, start another attempt at the task.",
        ),
        (false, false) => warn(
            format!("{shown} is gone: moved, or deleted by hand"),
            "Its branch holds what was committed. `git worktree list` tells whether it was moved.",
        ),
        (true, false) => {
            warn(format!("git does not know {shown}"), "Run `git worktree repair` with that path.")
        }
        (true, true) if !known.branches.contains(&attempt.branch) => warn(
            format!("the branch {} of {shown} is gone", attempt.branch),
            "Run `git branch` with its name in that worktree to make it anew.",
        ),
        (true, true) => None,
    }
}

/// Findings, the first of each name one by one; or that all is well.
fn told(name: &str, mut findings: Vec<Check>, well: impl FnOnce() -> String) -> Vec<Check> {
    if findings.is_empty() {
        return vec![Check::ok(name, well())];
    }
    let is_mended = |check: &Check| check.cure.is_some();
    findings.sort_by_key(|check| !is_mended(check));
    let mended = findings.iter().filter(|check| is_mended(check)).count();
    let more = findings.len().saturating_sub(TOLD_MAX.max(mended));
    findings.truncate(TOLD_MAX.max(mended));
    if more > 0 {
        findings.push(Check::warn(name, format!("and {more} more such")));
    }
    findings
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
