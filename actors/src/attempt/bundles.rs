//! What other hosts of a board need to continue an attempt, as bundles (gitformat-bundle(5)) in rows: the
//! commit that the attempt begins from, unless a remote has that, and the snapshot of its newest turn.
//! What has no bundle may be on a remote.
//!
//! ```text
//!  base commit:  no bundle needed ◀─yes─ a recorded remote has it
//!                bundle on top of the newest earlier base commit that has a bundle,
//!                  else on top of what a remote has, else with its whole history (256 MiB at most)
//!  snapshot:     bundle on top of the base commit (64 MiB at most); larger: only its row, and a remote
//! ```
//!
//! `Bundle::needs` chains the bundles; `chained` follows the chain down to a commit that is here.

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

/// The largest bundle, in bytes, of a turn's snapshot, and of the history up to a base commit.
const TURN_MAX: u64 = 64 << 20;
const BASE_MAX: u64 = 256 << 20;

/// How many branches of remotes are looked at for a commit to build on. An argument of git-for-each-ref(1).
const TIPS: &str = "--count=50";

/// Why a bundle can't be written, or a commit can't be had from one.
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

/// Writes the snapshots of a turn as bundles. Empty for a host without a lease, whose board no other host
/// shares. A snapshot that can't be written is logged and left out: this host's own references have it.
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

/// Writes a bundle of a commit for hosts that do not have it: once for each commit, and only if no recorded
/// remote is known to have it. A start calls this for its base commits before the attempt is written down; a
/// finish calls it for commits that another host needs.
///
/// # Errors
/// The commit or the store can't be read, or the store does not take the bundle.
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
        // Another start has written it meanwhile.
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

/// The folders of references that git keeps for recorded remotes.
fn remote_places(remotes: &BTreeMap<String, String>) -> Vec<String> {
    remotes.keys().map(|name| format!("refs/remotes/{name}/")).collect()
}

/// Whether one of these references has the commit, as of the last fetch. No remote is asked.
async fn on_a_remote(path: &Path, commit: &str, places: &[String]) -> Result<bool, GitError> {
    if places.is_empty() {
        return Ok(false);
    }
    let mut args = vec!["for-each-ref", "--count=1", "--contains", commit];
    args.extend(places.iter().map(String::as_str));
    Ok(!git::run(path, &args).await?.is_empty())
}

/// The newest ancestor of a commit that recorded remotes have, as of the last fetch.
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
    // git fails if there is none.
    Ok(git::run(path, &args).await.ok().filter(|found| !found.is_empty()))
}

/// Writes what a reference has beyond the commit `needs`. With more than `max` bytes, nothing but its size is
/// kept (`sha256` is `None`).
async fn keep(
    world: &World,
    path: &Path,
    reference: &str,
    (commit, needs): (&str, Option<&str>),
    max: u64,
) -> Result<Bundle, BundleError> {
    let scratch = world.settings.folders.scratch.clone();
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

/// The content of a bundle as a temporary file. `Damaged`: the parts do not add up to the hash.
async fn content(world: &World, sha256: &str) -> Result<NamedTempFile, BundleError> {
    let scratch = world.settings.folders.scratch.clone();
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

/// Makes sure that this host has the repository of an attempt and, in it, the commit that the attempt
/// begins from. A host without a lease has both anyway. `is_agents`: an agent wrote that commit, so the
/// target branch of a mirror does not move to it. `Err` is a sentence.
pub async fn ensure_base(world: &World, repo: &AttemptRepo, is_agents: bool) -> Result<(), String> {
    if !world.host.has_lease {
        return Ok(());
    }
    have_commit(world, repo, &repo.base_commit).await?;
    let path = Path::new(&repo.path);
    if !world.settings.worktrees.places.is_mirror(path) {
        return Ok(());
    }
    follow(path, repo, is_agents).await.map_err(|error| error.to_string())
}

/// Makes sure that this host has a commit of an attempt's repository: from a bundle, or from a remote.
/// Makes a mirror first where this host has no repository. `Err` is a sentence.
pub async fn have_commit(world: &World, repo: &AttemptRepo, commit: &str) -> Result<(), String> {
    let path = Path::new(&repo.path);
    if world.settings.worktrees.places.is_mirror(path) {
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

/// Takes in the bundles that lead to a commit, the oldest first. A commit that has no bundle is fetched
/// from a remote; the inner `Err` says why that failed.
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
        bundle::take_in(path, &world.settings.folders.scratch, file.path(), what).await?;
    }
    Ok(Ok(()))
}

/// Fetches a commit from the first recorded remote that has it. `why` says why there is no bundle, and begins
/// the list of failures. `Err` is part of a sentence.
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

/// Fetches a commit from one remote, by a reference there or by its name. The message of a failure has the
/// remote's name in place of its URL, which may contain a token. `Err` is part of a sentence.
async fn fetched_from(
    world: &World,
    repo: &AttemptRepo,
    (name, url): (&str, &str),
    there: &str,
    what: (&str, &str),
) -> Result<(), String> {
    let scratch = &world.settings.folders.scratch;
    let fetched = match check_url(url) {
        Ok(()) => {
            let fetched = bundle::fetch(Path::new(&repo.path), scratch, url, there, what).await;
            fetched.map_err(|error| error.to_string())
        }
        Err(why) => Err(why),
    };
    fetched.map_err(|why| format!("remote {name}: {}", why.replace(url, "its URL")))
}

/// Moves the target branch of a mirror forward to the base commit, unless an agent wrote that commit. So
/// the branch is at the newest commit of a person's that an attempt has begun from here.
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

/// Makes sure that this host has the snapshot of an attempt's turn. `Err` is a sentence.
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
        bundle::take_in(path, &world.settings.folders.scratch, file.path(), what).await?;
        Ok::<_, BundleError>(())
    };
    taken.await.map_err(|error| lacks(error.to_string()))
}

/// Fetches a snapshot whose bundle has no content on the board, from the remote that has it. `Err` is
/// part of a sentence.
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
