//! Whether a worktree may be removed: only if that loses nothing, or after what it would lose was saved.
//! Everything is read from a [`Snapshot`], so nothing runs that the agent configured.
//!
//! A removal takes the attempt's own repository along. It loses what is not committed, and the commits
//! that only that repository has: of its HEAD, branches, tags and stashes, and of their reflogs. Other
//! repositories in the worktree go to the trash as they are.
//!
//! ```text
//!  examine ─▶ Proof ─unsaved: None─▶ remove
//!                └─unsaved: a reason─▶ keep, or save ─▶ remove
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::git::{self, GitError};
use super::own::transfer::{self, Revisions};
use super::own::{self, held, lost_reference};
use super::references;
use super::snapshot::{Snapshot, SnapshotError};
use super::source::Source;
use super::worktree_commit;

/// Most tips of lost commits: commits that only the attempt's own repository has, and on which no other
/// one builds.
const LOST_MAX: usize = 1000;
/// Bytes of the list of commits.
const LIST_MAX: usize = 64 << 20;
/// Most parents of one commit that saves others.
const PARENTS_MAX: usize = 50;

/// What was found in one worktree, and all that is needed to save it.
pub struct Proof {
    /// Why a removal would lose something: a clause for a message. `None`: it would lose nothing.
    pub unsaved: Option<String>,
    /// How many files and folders git ignores in the worktree. They are not saved.
    pub ignored: usize,
    source: Source,
    snapshot: Snapshot,
    common: PathBuf,
    /// The tips of what only the attempt's own repository has, and a commit of what is staged.
    lost: Vec<String>,
}

/// Why a worktree can't be removed now: part of a sentence.
#[derive(Debug, thiserror::Error)]
pub enum KeepReason {
    /// It has something that can't be saved.
    #[error("{0}")]
    Because(String),
    #[error(transparent)]
    Unreadable(#[from] SnapshotError),
    #[error("git can't tell: {0}")]
    Git(#[from] GitError),
    #[error("it can't be looked into: {0}")]
    Io(#[from] std::io::Error),
}

/// Finds out what a removal of this worktree would lose. What the agent committed is taken over first,
/// and what git opens there by name is put back. Call it while nothing runs in the worktree.
pub async fn examine(source: &Source) -> Result<Proof, KeepReason> {
    let base = &*source.base;
    own::settle(source).await?;
    let snapshot = Snapshot::take_from(source, Some(base)).await?;
    let common = snapshot.aside.common.clone();
    let head = &snapshot.head;
    let target = git::branch_tip(&source.repo, &source.target_branch).await?;
    let branch = git::branch_tip(&source.repo, &source.branch).await?;
    let mut unmerged = vec![&**head];
    unmerged.extend(branch.as_deref());
    unmerged.extend(["--not", base, &*snapshot.base]);
    unmerged.extend(target.as_deref());
    let unmerged = count(&source.repo, &unmerged).await?;
    let held: Vec<&str> = target.iter().chain(&branch).map(String::as_str).collect();
    let lost = lost(source, &common, &[&held[..], &[base]].concat()).await?;
    let staged = staged(source, &common).await?;
    let uncommitted = uncommitted(&snapshot).await? || staged.is_some();
    let lost: Vec<String> = lost.into_iter().chain(staged).collect();
    let nested = snapshot.nested.first().map(|path| String::from_utf8_lossy(path).into_owned());
    let unsaved = match (uncommitted, lost.len(), unmerged) {
        (true, ..) => Some("it has changes that are not committed".to_owned()),
        (false, 1.., _) => Some("it was at commits that no branch holds".to_owned()),
        (false, 0, 1..) => Some(format!(
            "{unmerged} of its commits {} not merged into {}",
            if unmerged == 1 { "is" } else { "are" },
            source.target_branch
        )),
        (false, 0, 0) if source.own.admin().join("modules").symlink_metadata().is_ok() => {
            Some("it has submodules, whose git is its own".to_owned())
        }
        (false, 0, 0) => nested.map(|path| format!("it holds another repository, {path}")),
    };
    let ignored = ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"];
    let ignored = snapshot.listing(&ignored).await?;
    let ignored = ignored.split(|byte| *byte == 0).filter(|path| !path.is_empty()).count();
    Ok(Proof { unsaved, ignored, source: source.clone(), snapshot, common, lost })
}

/// The number of commits in a range.
async fn count(repo: &Path, range: &[&str]) -> Result<usize, GitError> {
    let args = [&["rev-list", "--count", "--ignore-missing"], range].concat();
    let counted = git::run(repo, &args).await?;
    counted.parse().map_err(|_| GitError::Failed(format!("rev-list said {counted:?}")))
}

/// Whether the files differ from HEAD; ignored files do not count.
async fn uncommitted(snapshot: &Snapshot) -> Result<bool, KeepReason> {
    let args = ["diff", "--quiet", "--no-ext-diff", "--no-textconv", &snapshot.head, "--"];
    let output = snapshot.run().output(&args, usize::MAX).await?;
    match output.status.code() {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        _ => Err(output.failure().into()),
    }
}

/// The tips of the commits that the attempt's own repository has, or had checked out, beyond the commits
/// `kept` and what the person's references have.
async fn lost(source: &Source, common: &Path, kept: &[&str]) -> Result<Vec<String>, KeepReason> {
    let held = held::held(&source.own, common, &source.worktree()).await?;
    let mut list = vec!["rev-list", "--parents", "--ignore-missing", "--all", "--reflog", "HEAD"];
    // What a reference of the person's has is not lost.
    let tips =
        ["for-each-ref", "--format=%(objectname)", "refs/heads", "refs/tags", "refs/remotes"];
    let tips = git::run(common, &tips).await?;
    list.push("--not");
    list.extend(kept);
    list.push("--stdin");
    let listing = held::git(&source.own, held.as_ref()).patient();
    let not = tips.lines().map(|tip| format!("^{tip}\n")).collect::<Vec<_>>().concat();
    let listing = listing.input(&source.scratch, not.into_bytes()).await?;
    let output = listing.output(&list, LIST_MAX).await?;
    if !output.status.success() {
        return Err(output.failure().into());
    }
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let (mut found, mut parents) = (Vec::new(), BTreeSet::new());
    for line in listed.lines() {
        let mut commits = line.split(' ');
        found.extend(commits.next());
        parents.extend(commits);
    }
    let tips = found.into_iter().filter(|commit| !parents.contains(commit));
    let tips: Vec<String> = tips.map(str::to_owned).collect();
    if tips.len() > LOST_MAX {
        let why = format!("it was at more than {LOST_MAX} commits that no branch holds");
        return Err(KeepReason::Because(why));
    }
    Ok(tips)
}

/// A commit, in the attempt's own repository, of what is staged there; `None`: the index is as HEAD, or
/// can't be a tree.
async fn staged(source: &Source, common: &Path) -> Result<Option<String>, KeepReason> {
    let held = held::held(&source.own, common, &source.worktree()).await?;
    let git = || {
        let mut git = held::git(&source.own, held.as_ref());
        for who in ["AUTHOR", "COMMITTER"] {
            git.command.env(format!("GIT_{who}_NAME"), "Provost");
            git.command.env(format!("GIT_{who}_EMAIL"), "provost@localhost");
            // With a fixed date, the same index gives the same commit.
            git.command.env(format!("GIT_{who}_DATE"), "@0 +0000");
        }
        git
    };
    let same = ["diff-index", "--cached", "--quiet", "HEAD", "--"];
    if git().output(&same, 0).await?.status.code() != Some(1) {
        return Ok(None);
    }
    // An index with a conflict can't be written as a tree: nothing is staged then.
    let Ok(tree) = git().text(&["write-tree"]).await else { return Ok(None) };
    let commit = ["commit-tree", &*tree, "-p", "HEAD", "-m", "What was staged"];
    Ok(Some(git().text(&commit).await?))
}

impl Proof {
    /// Saves what a removal would lose, as a commit under this reference. What the reference had before
    /// becomes a parent, so that nothing of it is lost. Returns the commit; `None`: the branch has
    /// everything.
    pub async fn save(&self, reference: &str) -> Result<Option<String>, KeepReason> {
        let (head, objects) = (&self.snapshot.head, self.common.join("objects"));
        let tree_of = format!("{head}^{{tree}}");
        let before = git::run(&self.common, &["rev-parse", &tree_of]).await?;
        let tree = worktree_commit::write_tree(&self.snapshot, &objects).await?;
        if tree == before && self.lost.is_empty() {
            return Ok(None);
        }
        self.take_lost().await?;
        let mut parents = vec![head.clone()];
        parents.extend(references::tips(&self.source.repo, &[reference]).await?.into_values());
        // More than `PARENTS_MAX` commits are saved in groups, each as the parents of a commit of its
        // own.
        let mut lost: Vec<String> = self.lost.iter().filter(|it| *it != head).cloned().collect();
        while lost.len() > PARENTS_MAX {
            let some = lost.split_off(lost.len() - PARENTS_MAX);
            let tree = git::run(&self.common, &["rev-parse", &tree_of]).await?;
            lost.insert(0, self.commit(&tree, &some, "What no branch held").await?);
        }
        parents.extend(lost);
        let commit = self.commit(&tree, &parents, "What was not committed").await?;
        references::set(&self.source.repo, reference, &commit, None, "provost gc").await?;
        for number in 0..self.lost.len() {
            let name = lost_reference(self.source.attempt, number);
            references::delete(&self.source.repo, &name).await?;
        }
        Ok(Some(commit))
    }

    /// Brings the commits that only the attempt's own repository has into the person's. References of
    /// Provost's hold them until the saving commit does.
    async fn take_lost(&self) -> Result<(), KeepReason> {
        let names: Vec<String> = (0..self.lost.len())
            .map(|number| lost_reference(self.source.attempt, number))
            .collect();
        let every: Vec<&str> = names.iter().map(String::as_str).collect();
        if names.is_empty() {
            return Ok(());
        }
        let mut known = references::tips(&self.source.repo, &every).await?;
        let moves: Vec<_> = names
            .iter()
            .zip(&self.lost)
            .map(|(name, commit)| (name.clone(), known.remove(name), commit.clone()))
            .filter(|(_, old, new)| old.as_ref() != Some(new))
            .collect();
        let held = held::held(&self.source.own, &self.common, &self.source.worktree()).await?;
        let revisions = Revisions::tips(self.lost.clone());
        let source = &self.source;
        let left =
            transfer::receive(source, &self.common, held.as_ref(), &moves, revisions).await?;
        match left.into_iter().next() {
            Some((_, why)) => Err(KeepReason::Because(format!("a commit can't be kept: {why}"))),
            None => Ok(()),
        }
    }

    /// Makes a commit durably in the person's repository, by Provost.
    async fn commit(
        &self,
        tree: &str,
        parents: &[String],
        about: &str,
    ) -> Result<String, KeepReason> {
        let mut args = vec!["commit-tree", tree, "-m", about];
        args.extend(parents.iter().flat_map(|parent| ["-p", parent]));
        let mut git = self.snapshot.writing(&self.common.join("objects"));
        git.command.args(["-c", "core.fsync=all", "-c", "core.fsyncObjectFiles=true"]);
        Ok(git.text(&args).await?)
    }
}
