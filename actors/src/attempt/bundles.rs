//! What other hosts of a board need to go on with an attempt, as bundles in rows: the commit that it
//! begins from, unless a remote has it, and the snapshot of its newest turn. What is in no bundle may be
//! on a remote.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use tempfile::{NamedTempFile, TempDir};

use crate::blocking::blocking;
use crate::failpoint;
use crate::ids::RepoId;
use crate::journal::{Attempt, AttemptRepo, Bundle, Pushed, TurnBundle, TurnSnapshot};
use crate::refusal::Refusal;
use crate::workspace::bundle;
use crate::workspace::git::{self, GitError};
use crate::workspace::push::{check_url, kept};
use crate::workspace::turn_snapshot::reference;
use crate::world::World;

/// Most bytes that are kept of a turn, and of the history up to a base commit.
const TURN_MAX: u64 = 64 << 20;
const BASE_MAX: u64 = 256 << 20;

/// Tips of remotes that are looked at for what they have of a history.
const TIPS: &str = "--count=50";

/// Why a bundle can't be kept or had.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{0}")]
    Store(#[from] Refusal),
    #[error("what the board has of it is damaged")]
    Damaged,
}

/// Keeps the snapshots of a turn for other hosts. What fails leaves this host's references, and is
/// logged.
pub async fn of_turn(
    world: &World,
    attempt: &Attempt,
    turn: u32,
    snapshots: &[TurnSnapshot],
) -> Vec<TurnBundle> {
    let mut all = Vec::new();
    if !world.host.has_lease {
        return all;
    }
    for TurnSnapshot { repo: name, commit_id: commit, .. } in snapshots {
        let Some(repo) = attempt.repos.iter().find(|repo| repo.name == *name) else { continue };
        let of = reference(attempt.attempt_id, turn);
        let what = (commit.as_str(), Some(repo.base_commit.as_str()));
        match keep(world, Path::new(&repo.path), &of, what, TURN_MAX).await {
            Ok(bundle) => {
                let (repo, pushed, remote) = (repo.name.clone(), Pushed::Due, None);
                all.push(TurnBundle { repo, bundle, pushed, remote });
            }
            Err(error) => tracing::warn!(attempt = %attempt.attempt_id, turn, %error,
                "a snapshot is not kept for other hosts"),
        }
    }
    all
}

/// Keeps a commit that an attempt is to begin from for hosts that do not have the repository, once,
/// and only where no remote is known to have it.
///
/// # Errors
/// The commit or the store can't be read.
pub async fn of_base(
    world: &World,
    repo: RepoId,
    path: &Path,
    commit: &str,
) -> Result<(), BundleError> {
    let journal = &world.journal;
    if !world.host.has_lease || journal.base_bundle(repo, commit).await?.is_some() {
        return Ok(());
    }
    let remotes = remote_places(&journal.remotes(repo).await?);
    if on_a_remote(path, commit, &remotes).await? {
        return Ok(());
    }
    let (mut needs, mut is_kept) = (None, true);
    for earlier in journal.base_commits(repo).await? {
        // Another start has kept it meanwhile.
        if earlier == commit {
            return Ok(());
        }
        let is_before = ["merge-base", "--is-ancestor", &earlier, commit];
        if bundle::has(path, &earlier).await && git::run(path, &is_before).await.is_ok() {
            needs = Some(earlier);
            break;
        }
    }
    if needs.is_none() {
        needs = newest_on_a_remote(path, commit, &remotes).await?;
        is_kept = needs.is_none();
    }
    let of = bundle::base_reference(commit);
    bundle::refer(path, &of, commit).await?;
    let kept = keep(world, path, &of, (commit, needs.as_deref()), BASE_MAX).await?;
    if kept.sha256.is_none() {
        tracing::warn!(%repo, commit, bytes = kept.bytes,
            "the history of a repository without a remote is too large for other hosts");
    }
    Ok(journal.record_base_bundle(repo, &kept, is_kept).await?)
}

/// Where git keeps references for recorded remotes.
fn remote_places(remotes: &BTreeMap<String, String>) -> Vec<String> {
    remotes.keys().map(|name| format!("refs/remotes/{name}/")).collect()
}

/// Whether a reference that git keeps for a recorded remote has the commit.
async fn on_a_remote(path: &Path, commit: &str, places: &[String]) -> Result<bool, GitError> {
    if places.is_empty() {
        return Ok(false);
    }
    let mut args = vec!["for-each-ref", "--count=1", "--contains", commit];
    args.extend(places.iter().map(String::as_str));
    Ok(!git::run(path, &args).await?.is_empty())
}

/// The newest commit before this one that a recorded remote has, as far as git knows.
async fn newest_on_a_remote(
    path: &Path,
    commit: &str,
    places: &[String],
) -> Result<Option<String>, GitError> {
    if places.is_empty() {
        return Ok(None);
    }
    let mut args = vec!["for-each-ref", TIPS, "--sort=-creatordate", "--format=%(objectname)"];
    args.extend(places.iter().map(String::as_str));
    let tips = git::run(path, &args).await?;
    if tips.is_empty() {
        return Ok(None);
    }
    let args: Vec<&str> = ["merge-base", commit].into_iter().chain(tips.lines()).collect();
    // There may be none.
    Ok(git::run(path, &args).await.ok().filter(|found| !found.is_empty()))
}

/// Keeps what a reference holds beyond a commit.
async fn keep(
    world: &World,
    path: &Path,
    reference: &str,
    (commit, needs): (&str, Option<&str>),
    max: u64,
) -> Result<Bundle, BundleError> {
    let scratch = world.settings.scratch_dir.clone();
    let made = move || {
        std::fs::create_dir_all(&scratch)?;
        TempDir::with_prefix_in("bundle-", &scratch)
    };
    let dir = blocking(made).await?;
    let file = dir.path().join("bundle");
    bundle::write(path, &file, reference, needs).await?;
    let of = file.clone();
    let (sha256, bytes) = blocking(move || bundle::digest(&of)).await?;
    let commit_id = commit.to_owned();
    let needs = needs.map(str::to_owned);
    if bytes > max {
        return Ok(Bundle { commit_id, needs, sha256: None, bytes });
    }
    for (number, part) in (0..).zip(bundle::parts(&file)?) {
        world.journal.keep_part(&sha256, number, &part?).await?;
        failpoint::hit("bundle", "part");
    }
    Ok(Bundle { commit_id, needs, sha256: Some(sha256), bytes })
}

/// The content of a bundle, as a file.
async fn content(world: &World, sha256: &str) -> Result<NamedTempFile, BundleError> {
    let scratch = world.settings.scratch_dir.clone();
    let made = move || {
        std::fs::create_dir_all(&scratch)?;
        NamedTempFile::with_prefix_in("bundle-", &scratch)
    };
    let mut file = blocking(made).await?;
    for number in 0.. {
        let Some(part) = world.journal.part(sha256, number).await? else { break };
        file.write_all(&part)?;
    }
    let of = file.path().to_owned();
    let (found, _) = blocking(move || bundle::digest(&of)).await?;
    if found == sha256 { Ok(file) } else { Err(BundleError::Damaged) }
}

/// Has the repository of an attempt on this host, where the host has no other one, and in it the
/// commit that the attempt begins from. `is_agents`: an agent wrote that commit, so a mirror's target
/// branch does not follow it. `Err` is a sentence.
pub async fn ensure_base(world: &World, repo: &AttemptRepo, is_agents: bool) -> Result<(), String> {
    if !world.host.has_lease {
        return Ok(());
    }
    have_commit(world, repo, &repo.base_commit).await?;
    let path = Path::new(&repo.path);
    if !world.settings.places.is_mirror(path) {
        return Ok(());
    }
    follow(path, repo, is_agents).await.map_err(|error| error.to_string())
}

/// Has a commit that was kept for other hosts in the repository of an attempt, and that repository.
/// `Err` is a sentence.
pub async fn have_commit(world: &World, repo: &AttemptRepo, commit: &str) -> Result<(), String> {
    let path = Path::new(&repo.path);
    if world.settings.places.is_mirror(path) {
        let made = bundle::make_mirror(path, commit.len() == 64).await;
        made.map_err(|error| format!("no mirror of {} can be made: {error}", repo.board_path))?;
    }
    if bundle::has(path, commit).await {
        return Ok(());
    }
    let lacks =
        |why: String| format!("this host can't get commit {commit} of {}: {why}", repo.board_path);
    let chained = chained(world, repo, commit).await.map_err(|error| lacks(error.to_string()))?;
    chained.map_err(lacks)
}

/// Takes in the bundles that end in a commit. What the board has no bundle of comes from a remote; the
/// inner `Err` says why it does not.
async fn chained(
    world: &World,
    repo: &AttemptRepo,
    commit: &str,
) -> Result<Result<(), String>, BundleError> {
    let path = Path::new(&repo.path);
    let mut chain = Vec::new();
    let mut next = Some(commit.to_owned());
    while let Some(commit) = next.take() {
        if bundle::has(path, &commit).await {
            break;
        }
        let why = match world.journal.base_bundle(repo.repo_id, &commit).await? {
            Some(found) if found.sha256.is_some() => {
                next.clone_from(&found.needs);
                chain.push(found);
                continue;
            }
            Some(found) => format!("its history has {} bytes, which are not kept", found.bytes),
            None => "the board has no bundle of it".to_owned(),
        };
        if let Err(why) = fetched(world, repo, &commit, why).await {
            return Ok(Err(why));
        }
    }
    for found in chain.into_iter().rev() {
        let file = content(world, found.sha256.as_deref().unwrap_or_default()).await?;
        let named = bundle::base_reference(&found.commit_id);
        let what = (named.as_str(), found.commit_id.as_str());
        bundle::take_in(path, &world.settings.scratch_dir, file.path(), what).await?;
    }
    Ok(Ok(()))
}

/// Fetches a commit from a recorded remote. `Err` is part of a sentence.
async fn fetched(
    world: &World,
    repo: &AttemptRepo,
    commit: &str,
    why: String,
) -> Result<(), String> {
    let remotes = world.journal.remotes(repo.repo_id).await.map_err(|refusal| refusal.message)?;
    let mut failures = vec![why];
    let there = format!("refs/heads/{}", repo.target_branch);
    let named = bundle::base_reference(commit);
    for (name, url) in &remotes {
        let what = (named.as_str(), commit);
        match fetched_from(world, repo, (name, url), &there, what).await {
            Ok(()) => return Ok(()),
            Err(why) => failures.push(why),
        }
    }
    Err(failures.join("; "))
}

/// Fetches a commit by a reference of one remote. `Err` is part of a sentence.
async fn fetched_from(
    world: &World,
    repo: &AttemptRepo,
    (name, url): (&str, &str),
    there: &str,
    what: (&str, &str),
) -> Result<(), String> {
    let scratch = &world.settings.scratch_dir;
    let fetched = match check_url(url) {
        Ok(()) => {
            let fetched = bundle::fetch(Path::new(&repo.path), scratch, url, there, what).await;
            fetched.map_err(|error| error.to_string())
        }
        Err(why) => Err(why),
    };
    fetched.map_err(|why| format!("remote {name}: {}", why.replace(url, "its URL")))
}

/// A mirror's target branch is at the newest base commit that an attempt has begun from here, unless an
/// agent wrote that.
async fn follow(path: &Path, repo: &AttemptRepo, is_agents: bool) -> Result<(), GitError> {
    let (base, branch) = (&repo.base_commit, format!("refs/heads/{}", repo.target_branch));
    let is_newer = match git::ref_tip(path, &branch).await? {
        Some(_) if is_agents => false,
        Some(tip) => {
            let is_before = ["merge-base", "--is-ancestor", &tip, base];
            tip != *base && git::run(path, &is_before).await.is_ok()
        }
        None => true,
    };
    if is_newer { bundle::refer(path, &branch, base).await } else { Ok(()) }
}

/// Has the snapshot of an attempt's turn in this host's repository. `Err` is a sentence.
pub async fn have_turn(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    (turn, commit): (u32, &str),
) -> Result<(), String> {
    let path = Path::new(&repo.path);
    if bundle::has(path, commit).await {
        return Ok(());
    }
    let lacks = |why: String| {
        format!("this host can't get what turn {turn} left in {}: {why}", repo.board_path)
    };
    let found = world.journal.turn_bundles(attempt.attempt_id).await;
    let found = found.map_err(|refusal| lacks(refusal.message))?;
    let found = found.into_iter().find(|it| it.repo == repo.name && it.bundle.commit_id == commit);
    let Some(found) = found else {
        return Err(lacks("the board has no bundle of it".to_owned()));
    };
    let named = reference(attempt.attempt_id, turn);
    let what = (named.as_str(), commit);
    let Some(sha256) = &found.bundle.sha256 else {
        let there = kept::reference(attempt.attempt_id, turn);
        return kept_there(world, repo, &found, &there, what).await.map_err(lacks);
    };
    let taken = async {
        let file = content(world, sha256).await?;
        bundle::take_in(path, &world.settings.scratch_dir, file.path(), what).await?;
        Ok::<_, BundleError>(())
    };
    taken.await.map_err(|error| lacks(error.to_string()))
}

/// Fetches a snapshot of which the board has no content from the remote that has it. `Err` is part of a
/// sentence.
async fn kept_there(
    world: &World,
    repo: &AttemptRepo,
    found: &TurnBundle,
    there: &str,
    what: (&str, &str),
) -> Result<(), String> {
    let bytes = found.bundle.bytes;
    let why = if bytes > TURN_MAX {
        format!("its bundle would have {bytes} bytes, and {TURN_MAX} at most are kept")
    } else {
        "its bundle was removed, because the attempt had been settled for [engine] keep_days"
            .to_owned()
    };
    let Some(name) = found.remote.as_ref().filter(|_| found.pushed == Pushed::There) else {
        return Err(format!("{why}; it is in the repository of the host that ran it"));
    };
    let remotes = world.journal.remotes(repo.repo_id).await.map_err(|refusal| refusal.message)?;
    let Some(url) = remotes.get(name) else {
        return Err(format!("{why}; remote {name}, which has it, is not recorded any more"));
    };
    let fetched = fetched_from(world, repo, (name, url), there, what).await;
    fetched.map_err(|failure| format!("{why}; {failure}"))
}
