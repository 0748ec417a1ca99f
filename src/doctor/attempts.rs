//! Attempts: whether rows, folders, spools, worktrees and branches agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use provost_actors::attempt::{MARKER, locks};
use provost_actors::event::Stream;
use provost_actors::log::spool::format::{
    FixedRecord, INDEX, RECORD_LEN, Record, segment_path, segments,
};
use provost_actors::process::manifest::{ExitRecord, Manifest};
use provost_actors::workspace::git;

use super::check::{Check, Cure};
use crate::home::Home;
use crate::store::InspectedAttempt;

/// Findings of one kind that are listed one by one.
const LISTED_MAX: usize = 10;
/// Bytes of a spool's newest index records that are examined.
const INDEX_TAIL: u64 = 1 << 20;

/// Whether rows and folders agree, and spools and worktrees are sound.
pub fn on_disk(home: &Home, attempts: &[InspectedAttempt]) -> Vec<Check> {
    let mut findings = Vec::new();
    for attempt in attempts {
        let dir = home.attempts().join(&attempt.attempt_id);
        let processes = attempt.processes.iter();
        for process in processes.filter(|it| it.closed && it.status != "planned") {
            let folder = dir.join(&process.process_id);
            if folder.join(Manifest::FILE).exists() {
                findings.extend(without_exit_record(&folder));
                findings.extend(spool(&folder));
                findings.extend(half_written(&folder));
            } else if !dir.exists() {
                // A process whose worktrees could not be made has a folder and no manifest.
                let message = format!("{} is missing, and its log with it", dir.display());
                findings.push(Check::warn("attempts", message).hint(
                    "Restore it from a backup, if there is one; nothing else depends on it.",
                ));
            }
        }
        if attempt.is_over() {
            findings.extend(abandoned_locks(home, attempt));
        }
    }
    let ids = attempts.iter().map(|it| it.attempt_id.as_str()).collect();
    findings.extend(strangers("attempts", &home.attempts(), &ids).map(|check| {
        check.hint("It is from another database, perhaps a replaced one. Look, then delete it.")
    }));
    let folders = attempts.iter().map(|it| it.folder.as_str()).collect();
    findings.extend(
        strangers("worktrees", &home.worktrees(), &folders)
            .map(|check| check.hint("It may hold work. Look, then move it away.")),
    );
    let well = format!("{} are on record, and complete on disk", attempts.len());
    listed("attempts", findings, well)
}

/// The entries of a folder that belong to no attempt.
fn strangers<'a>(
    name: &'a str,
    folder: &'a Path,
    known: &BTreeSet<&str>,
) -> impl Iterator<Item = Check> + use<'a> {
    let strange = names_in(folder).into_iter().filter(|name| !known.contains(&**name));
    let strange: Vec<String> = strange.collect();
    strange.into_iter().map(move |entry| {
        let path = folder.join(entry);
        Check::warn(name, format!("{} belongs to no attempt", path.display()))
    })
}

/// A process that is over has an exit record, or it never started.
fn without_exit_record(folder: &Path) -> Option<Check> {
    (!folder.join(ExitRecord::FILE).exists()).then(|| {
        Check::warn("attempts", format!("{} has no exit record", folder.display()))
            .hint("Only the attempt's status says how that process ended.")
    })
}

/// Files whose writer died while writing.
fn half_written(folder: &Path) -> Vec<Check> {
    let is_half = |name: &String| name.strip_suffix(".tmp").is_some_and(|it| it.starts_with('.'));
    let check = |name: String| {
        let path = folder.join(name);
        Check::note("attempts", format!("{} was never finished", path.display()))
            .cure(Cure::Trash(path))
    };
    names_in(folder).into_iter().filter(is_half).map(check).collect()
}

/// Whether the records of a spool are valid and its segments hold what they say.
fn spool(folder: &Path) -> Option<Check> {
    let damaged = |what: String| {
        let message = format!("the spool in {} is damaged: {what}", folder.display());
        let hint = "The undamaged part is still served; the rest of that log is lost.";
        Check::warn("spools", message).hint(hint)
    };
    match spool_ends(folder) {
        Err(error) => Some(damaged(error.to_string())),
        Ok(None) => Some(damaged("its index has a damaged record".to_owned())),
        Ok(Some(ends)) => ends.into_iter().find_map(|(stream, end)| {
            let stored = stored_to(folder, stream).ok()?;
            (stored < end)
                .then(|| damaged(format!("{} bytes of a segment are missing", end - stored)))
        }),
    }
}

/// Where each stream ends, by its newest records. `None`: a record is damaged.
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

fn stored_to(folder: &Path, stream: Stream) -> io::Result<u64> {
    let Some(start) = segments(folder, stream)?.last().copied() else { return Ok(0) };
    Ok(start + fs::metadata(segment_path(folder, stream, start))?.len())
}

/// Locks that a dead git left in the worktrees of an attempt that is over.
fn abandoned_locks(home: &Home, attempt: &InspectedAttempt) -> Vec<Check> {
    let mut checks = Vec::new();
    for worktree in attempt.repos.iter().map(|(name, _)| worktree(home, attempt, name)) {
        for lock in locks::of(&worktree) {
            if locks::is_abandoned(&lock, &worktree) {
                let message = format!("no process holds the lock {}", lock.display());
                let cure = Cure::SetLockAside { lock, worktree: worktree.clone() };
                checks.push(Check::warn("worktrees", message).cure(cure));
            }
        }
    }
    checks
}

fn worktree(home: &Home, attempt: &InspectedAttempt, name: &str) -> PathBuf {
    home.worktrees().join(&attempt.folder).join(name)
}

/// What git knows of a repository.
struct GitState {
    worktrees: BTreeSet<PathBuf>,
    branches: BTreeSet<String>,
}

/// Whether git knows the worktrees and branches of attempts.
pub async fn in_git(home: &Home, attempts: &[InspectedAttempt]) -> Vec<Check> {
    let mut repos: BTreeMap<&str, Option<GitState>> = BTreeMap::new();
    let mut findings = Vec::new();
    for attempt in attempts {
        let is_made = home.attempts().join(&attempt.attempt_id).join(MARKER).exists();
        for (name, path) in &attempt.repos {
            if !repos.contains_key(path.as_str()) {
                let known = known_of(Path::new(path)).await.map_err(|error| {
                    let message = format!("the repository {path} can't be read: {error}");
                    let check = Check::warn("repositories", message);
                    findings.push(check.hint("Move it back to where it was."));
                });
                repos.insert(path, known.ok());
            }
            if let Some(Some(known)) = repos.get(path.as_str()).filter(|_| is_made) {
                findings.extend(of_worktree(home, attempt, name, known));
            }
        }
    }
    listed("worktrees", findings, "git knows them and their branches".to_owned())
}

async fn known_of(repo: &Path) -> Result<GitState, git::GitError> {
    let worktrees = git::run(repo, &["worktree", "list", "--porcelain"]).await?;
    let worktrees = worktrees.lines().filter_map(|line| line.strip_prefix("worktree "));
    let branches = git::run(repo, &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    Ok(GitState {
        worktrees: worktrees.map(PathBuf::from).collect(),
        branches: branches.await?.lines().map(str::to_owned).collect(),
    })
}

fn of_worktree(
    home: &Home,
    attempt: &InspectedAttempt,
    name: &str,
    known: &GitState,
) -> Option<Check> {
    let worktree = worktree(home, attempt, name);
    let shown = worktree.display();
    let (is_there, is_known) = (worktree.is_dir(), known.worktrees.contains(&worktree));
    let warn = |message: String, hint: &str| Some(Check::warn("worktrees", message).hint(hint));
    match (is_there, is_known) {
        (false, true) => warn(
            format!("{shown} is missing, but git has it registered"),
            "Restore it; if its work is not needed, start another attempt at the task.",
        ),
        (false, false) => warn(
            format!("{shown} is missing: moved or deleted by hand"),
            "Its branch has its commits. `git worktree list` shows whether it was moved.",
        ),
        (true, false) => {
            warn(format!("git does not know {shown}"), "Run `git worktree repair` with that path.")
        }
        (true, true) if !known.branches.contains(&attempt.branch) => warn(
            format!("the branch {} of {shown} is missing", attempt.branch),
            "Run `git branch` with its name in that worktree to create it again.",
        ),
        (true, true) => None,
    }
}

/// The findings, of which at most [`LISTED_MAX`] that can't be fixed are listed; or that
/// all is well.
fn listed(name: &str, mut findings: Vec<Check>, well: String) -> Vec<Check> {
    if findings.is_empty() {
        return vec![Check::ok(name, well)];
    }
    findings.sort_by_key(|check| !check.fixable);
    let most = findings.iter().filter(|check| check.fixable).count().max(LISTED_MAX);
    let more = findings.len().saturating_sub(most);
    findings.truncate(most);
    if more > 0 {
        findings.push(Check::warn(name, format!("{more} more of these")));
    }
    findings
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
