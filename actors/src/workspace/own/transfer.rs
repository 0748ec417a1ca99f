//! Takes over what an agent has committed: the only way from an attempt's own repository to the person's.
//!
//! ```text
//!  pack-objects, in the attempt's box ─▶ a pack ─▶ receive-pack of the person's repository
//!   reads what the agent wrote           limited     hashes each object again, checks it and that nothing
//!                                                    is missing, then moves references by compare-and-swap
//! ```
//!
//! git's own receive-pack(1) keeps the pack in quarantine until all is checked. An agent that tampers
//! with its objects, alternates or references achieves only that its transfer is refused.

use std::fmt::Write as _;
use std::path::Path;

use crate::blocking::blocking;
use crate::failpoint;
use crate::sandbox::Sandbox;
use crate::workspace::git::{self, Git, GitError};
use crate::workspace::references;
use crate::workspace::source::Source;

use super::{branch_reference, head_reference, held, lfs};

/// Most bytes of a pack.
const PACK_MAX: u64 = 4 << 30;
/// How many of the person's newest branches are named as known: their commits need not be in a pack.
const KNOWN: &str = "--count=100";
/// What git finds odd in an object, but not dangerous: an agent may commit it (git-fsck(1), "FSCK
/// MESSAGES").
const ODD: [&str; 4] =
    ["zeroPaddedFilemode", "missingSpaceBeforeDate", "badTimezone", "nulInCommit"];

/// Where an attempt is, by commits that the person's repository has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heads {
    /// The commit that is checked out; on a branch without a commit, the tip of the attempt's branch.
    pub head: String,
    /// The commit to which the attempt's branch was moved in the person's repository. `Err`: it was left
    /// where it is.
    pub branch: Result<String, Left>,
    /// The branch that is checked out, by its full name. `None`: HEAD is detached.
    pub shows: Option<String>,
}

/// The person's branch of the attempt stays where it is, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Part of a sentence.
    pub why: String,
}

/// Takes over what the attempt has checked out, and its branch. Where nothing has moved, only tips are
/// compared.
///
/// # Errors
/// git refuses an object, or the attempt's repository can't be read. A branch that another program has
/// moved is no error, see [`Heads::branch`].
pub async fn take_over(source: &Source, common: &Path) -> Result<Heads, GitError> {
    let held = held::held(&source.own, common, &source.worktree()).await?;
    let (there, known) = tokio::try_join!(tips(source, held.as_ref()), Known::of(source))?;
    let branch = there.branch.clone();
    let head = there.head.or(there.branch).unwrap_or_else(|| source.base.clone());
    // If the agent has renamed or deleted its branch, its HEAD counts as the branch: the work is there.
    let branch = branch.unwrap_or_else(|| head.clone());
    let mut moves = Vec::new();
    if known.head.as_ref() != Some(&head) {
        moves.push((head_reference(source.attempt), known.head.clone(), head.clone()));
    }
    let left = known.left(source, &branch);
    if left.is_none() {
        if known.branch.as_ref() != Some(&branch) {
            moves.push((branch_reference(source.attempt), known.branch.clone(), branch.clone()));
        }
        if known.shown.as_ref() != Some(&branch) {
            moves.push((source.branch_ref(), known.shown.clone(), branch.clone()));
        }
    }
    let mut left = left;
    if !moves.is_empty() {
        let tips = [&head, &branch];
        let tips = tips.into_iter().take(if left.is_some() { 1 } else { 2 }).cloned().collect();
        let refused = receive(source, common, held.as_ref(), &moves, Revisions::tips(tips)).await?;
        for (name, why) in refused {
            if name != source.branch_ref() {
                return Err(GitError::Failed(format!("{name} was not moved: {why}")));
            }
            left = Some(Left { why });
        }
        let (own, person) = (source.own.clone(), common.to_owned());
        blocking(move || lfs::take_over(&own, &person)).await?;
        failpoint::hit("transfer", "taken");
    }
    Ok(Heads { head, branch: left.map_or(Ok(branch), Err), shows: there.shows })
}

/// The commits that a pack is to hold: what the tips have, without what the other side has.
pub struct Revisions {
    tips: Vec<String>,
    without: Vec<String>,
}

impl Revisions {
    /// These commits and what they build on. [`receive`] adds what the person's repository has.
    pub fn tips(tips: Vec<String>) -> Self {
        Self { tips, without: Vec::new() }
    }
}

/// Moves of references: the full name, the commit now (`None`: it does not exist), and the commit after
/// the move.
pub type Moves = [(String, Option<String>, String)];

/// Brings the objects that these references need into the person's repository, and moves the references.
/// `held` is the box for git in the attempt's repository. Returns the references that were not moved,
/// each with git's reason.
///
/// # Errors
/// The pack could not be made or was refused; then nothing has changed.
pub async fn receive(
    source: &Source,
    common: &Path,
    held: Option<&Sandbox>,
    moves: &Moves,
    mut revisions: Revisions,
) -> Result<Vec<(String, String)>, GitError> {
    let list = ["for-each-ref", KNOWN, "--sort=-committerdate", "--format=%(objectname)"];
    let kinds = ["refs/heads", "refs/provost/own"];
    let known = git::run(common, &[&list[..], &kinds].concat()).await?;
    revisions.without.extend(known.lines().map(str::to_owned));
    revisions.without.push(source.base.clone());
    let mut input = String::new();
    for tip in &revisions.tips {
        // Writing to a string can't fail.
        let _ = writeln!(input, "{tip}");
    }
    for known in &revisions.without {
        let _ = writeln!(input, "^{known}");
    }
    let pack = ["pack-objects", "--revs", "--stdout", "--thin", "--quiet", "--delta-base-offset"];
    let scratch = &source.scratch;
    let packing = held::git(&source.own, held).patient();
    let packing = packing.input(scratch, input.into_bytes()).await?;
    let request = request(moves, source.base.len() == 64);
    let file = packing.into_file(&pack, scratch, request, PACK_MAX).await?;
    let mut git = Git::new(common).patient();
    for (key, value) in [
        ("receive.fsckObjects", "true"),
        ("receive.autogc", "false"),
        ("receive.denyNonFastForwards", "false"),
        ("receive.denyCurrentBranch", "refuse"),
        ("receive.unpackLimit", "1000"),
        ("core.fsync", "all"),
    ] {
        git.command.arg("-c").arg(format!("{key}={value}"));
    }
    for odd in ODD {
        git.command.arg("-c").arg(format!("receive.fsck.{odd}=ignore"));
    }
    git.command.stdin(file);
    let args = ["receive-pack", "--stateless-rpc", "."];
    let output = git.output(&args, 1 << 20).await?;
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() || !report.contains("unpack ok") {
        let why = report.split("unpack ").nth(1).and_then(|it| it.lines().next());
        let said = why.map_or_else(|| output.failure().to_string(), str::to_owned);
        let said = format!("{said} {}", output.stderr.trim());
        return Err(GitError::Failed(format!(
            "what the agent committed can't be taken over: {said}"
        )));
    }
    Ok(refused(&report))
}

/// What a push sends before the pack (gitprotocol-pack(5)): the moves as packet lines, the first one with
/// the capabilities, then a flush.
fn request(moves: &Moves, is_sha256: bool) -> Vec<u8> {
    let none = "0".repeat(if is_sha256 { 64 } else { 40 });
    let mut request = Vec::new();
    let format = if is_sha256 { "sha256" } else { "sha1" };
    let mut wants = format!("\0 report-status object-format={format}");
    for (name, old, new) in moves {
        let line = format!("{} {new} {name}{wants}", old.as_ref().unwrap_or(&none));
        request.extend(format!("{:04x}{line}", line.len() + 4).into_bytes());
        wants = String::new();
    }
    request.extend(b"0000");
    request
}

/// The references that receive-pack did not move, from its report: `ng <name> <reason>`.
fn refused(report: &str) -> Vec<(String, String)> {
    let lines = report.lines().filter_map(|line| line.split_once("ng refs/"));
    let named = lines.filter_map(|(_, rest)| rest.split_once(' '));
    named.map(|(name, why)| (format!("refs/{name}"), why.to_owned())).collect()
}

/// The tips in the attempt's own repository, as the agent left them.
struct Tips {
    head: Option<String>,
    branch: Option<String>,
    shows: Option<String>,
}

/// Reads the tips. A name that is no commit has none.
async fn tips(source: &Source, held: Option<&Sandbox>) -> Result<Tips, GitError> {
    let names = format!("HEAD^{{commit}}\n{}^{{commit}}\n", source.branch_ref());
    let git = || held::git(&source.own, held);
    let asking = git().input(&source.scratch, names.into_bytes()).await?;
    let found = asking.text(&["cat-file", "--batch-check=%(objectname)"]);
    let shown = async {
        match git().text(&["symbolic-ref", "--quiet", "HEAD"]).await {
            Ok(name) => Ok(Some(name)),
            // HEAD is detached: a commit, no branch.
            Err(GitError::Failed(_)) => Ok(None),
            Err(error) => Err(error),
        }
    };
    let (found, shows) = tokio::try_join!(found, shown)?;
    let mut lines = found.lines().map(|line| {
        let is_one = line.bytes().all(|byte| byte.is_ascii_hexdigit()) && line.len() >= 40;
        is_one.then(|| line.to_owned())
    });
    let mut next = || lines.next().flatten();
    Ok(Tips { head: next(), branch: next(), shows })
}

/// The tips that the person's repository has.
struct Known {
    head: Option<String>,
    /// The attempt's branch, when it was taken over last.
    branch: Option<String>,
    /// The attempt's branch as the person has it now.
    shown: Option<String>,
}

impl Known {
    /// Reads the tips.
    async fn of(source: &Source) -> Result<Self, GitError> {
        let [head, branch] = [head_reference, branch_reference].map(|name| name(source.attempt));
        let shown = source.branch_ref();
        let mut tips = references::tips(&source.repo, &[&head, &branch, &shown]).await?;
        let mut tip = |name: &str| tips.remove(name);
        Ok(Self { head: tip(&head), branch: tip(&branch), shown: tip(&shown) })
    }

    /// Why the person's branch must not be moved to this commit: it is neither where it was taken over
    /// last, nor at the base, nor there already, so another program has moved it. `None`: it may be
    /// moved.
    fn left(&self, source: &Source, to: &str) -> Option<Left> {
        let shown = self.shown.as_ref()?;
        if self.branch.as_ref() == Some(shown) || shown == to || *shown == source.base {
            return None;
        }
        let why = format!("the branch {} was moved in {}", source.branch, source.repo.display());
        Some(Left { why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_begins_with_its_moves_and_the_first_says_what_is_wanted() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let moves = [
            ("refs/a".to_owned(), None, one.clone()),
            ("refs/b".to_owned(), Some(one.clone()), two.clone()),
        ];
        let text = String::from_utf8(request(&moves, false)).unwrap();
        let first = format!("{} {one} refs/a\0 report-status object-format=sha1", "0".repeat(40));
        let second = format!("{one} {two} refs/b");
        let (a, b) = (first.len() + 4, second.len() + 4);
        assert_eq!(text, format!("{a:04x}{first}{b:04x}{second}0000"));
    }

    #[test]
    fn what_was_not_moved_has_its_reason() {
        let report =
            "000eunpack ok\n0019ok refs/provost/x\n0030ng refs/heads/y branch is checked out\n0000";
        let expected = [("refs/heads/y".to_owned(), "branch is checked out".to_owned())];
        assert_eq!(refused(report), expected);
    }
}
