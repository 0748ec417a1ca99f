//! Whether a worktree may be removed: only if that loses nothing. Everything is read from a
//! [`Snapshot`], so nothing runs that the agent configured. In doubt the worktree is kept.
//!
//! A removal loses what is not committed, the worktree's own HEAD and its log, the git of its
//! submodules, and repositories in it. Branches, tags and stashes belong to the repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::git::{self, GitError};
pub use super::registration::{is_registration_of, registration};
use super::regular;
use super::snapshot::{self, Snapshot, SnapshotError, Source};
use crate::blocking::{blocking, if_there};

const STRAYS_MAX: usize = 100;
const LOG_MAX: u64 = 256 << 20;
/// git's files and folders of an operation under way.
pub(super) const UNDER_WAY: [&str; 7] = [
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
];

pub struct Proof {
    pub unsaved: Option<String>,
    /// Files and folders in it that git ignores.
    pub ignored: usize,
    snapshot: Snapshot,
    admin: PathBuf,
    common: PathBuf,
    head: String,
    strays: Vec<String>,
}

/// Why a worktree can't be removed: part of a sentence.
#[derive(Debug, thiserror::Error)]
pub enum Keep {
    #[error("{0}")]
    Because(String),
    #[error(transparent)]
    Unreadable(#[from] SnapshotError),
    #[error("git can't tell: {0}")]
    Git(#[from] GitError),
    #[error("it can't be looked into: {0}")]
    Io(#[from] std::io::Error),
}

fn because(reason: impl Into<String>) -> Keep {
    Keep::Because(reason.into())
}

pub async fn examine(source: &Source, base: &str) -> Result<Proof, Keep> {
    let common = git::common_dir(&source.repo)
        .await
        .map_err(|why| SnapshotError::Repository { repo: source.repo.clone(), why })?;
    let (_, admin) = snapshot::open_worktree(source, &common).await?;
    let (worktree, folder) = (source.worktree(), admin.clone());
    if let Some(reason) = blocking(move || obstacle(&worktree, &folder)).await? {
        return Err(Keep::Because(reason));
    }
    let head = snapshot::head(&source.repo, &admin)
        .await
        .map_err(|_| because("a branch without a commit is checked out in it"))?;
    let branch = git::branch_tip(&source.repo, &source.branch)
        .await?
        .ok_or_else(|| because(format!("its branch {} is gone", source.branch)))?;
    let snapshot = Snapshot::take(source).await?;
    let target = git::branch_tip(&source.repo, &source.target_branch)
        .await?
        .ok_or_else(|| because(format!("its target branch {} is gone", source.target_branch)))?;

    let unmerged = count(&source.repo, &[&head, &branch, "--not", &target, base]).await?;
    // The commits of the worktree's own references (gitrepository-layout(5)).
    let git_dir = admin.to_string_lossy();
    let list = ["--git-dir", &*git_dir, "for-each-ref", "--format=%(objectname)"];
    let kinds = ["refs/worktree", "refs/bisect", "refs/rewritten"];
    let own = git::run(&source.repo, &[&list[..], &kinds].concat()).await?;
    let own: Vec<&str> = std::iter::once(&*head).chain(own.lines()).collect();
    let strays = strays(source, &common, &admin, &own, &[&target, &branch, base]).await?;
    let uncommitted = uncommitted(&snapshot, &head).await?;
    let unsaved = match (uncommitted, strays.len(), unmerged) {
        (true, ..) => Some("it has changes that are not committed".to_owned()),
        (false, 1.., _) => Some("it was at commits that no branch holds".to_owned()),
        (false, 0, 1..) => Some(format!(
            "{unmerged} of its commits {} not merged into {}",
            if unmerged == 1 { "is" } else { "are" },
            source.target_branch
        )),
        (false, 0, 0) => None,
    };
    let ignored = ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"];
    let ignored = snapshot.listing(&ignored).await?;
    let ignored = ignored.split(|byte| *byte == 0).filter(|path| !path.is_empty()).count();
    Ok(Proof { unsaved, ignored, snapshot, admin, common, head, strays })
}

async fn count(repo: &Path, range: &[&str]) -> Result<usize, GitError> {
    let args = [&["rev-list", "--count", "--ignore-missing"], range].concat();
    let counted = git::run(repo, &args).await?;
    counted.parse().map_err(|_| GitError::Failed(format!("rev-list said {counted:?}")))
}

/// Whether the worktree or its index differs from HEAD, ignored files aside.
async fn uncommitted(snapshot: &Snapshot, head: &str) -> Result<bool, Keep> {
    for args in [
        &["diff", "--quiet", "--no-ext-diff", "--no-textconv", head, "--"][..],
        // A change that was staged and then undone in the file alone.
        &["diff", "--quiet", "--cached", "--no-ext-diff", head, "--"],
    ] {
        let output = snapshot.run().output(args, usize::MAX).await?;
        match output.status.code() {
            Some(0) => {}
            Some(1) => return Ok(true),
            _ => return Err(output.failure().into()),
        }
    }
    Ok(false)
}

/// The commits that the worktree's HEAD is or was at and that neither the commits `held` nor the
/// branch's own reflog hold: their record goes with the worktree.
async fn strays(
    source: &Source,
    common: &Path,
    admin: &Path,
    heads: &[&str],
    held: &[&str],
) -> Result<Vec<String>, Keep> {
    let log_of_branch = common.join("logs/refs/heads").join(&source.branch);
    let been = logged(&admin.join("logs/HEAD"))?;
    let kept = logged(&log_of_branch)?;
    let been: Vec<&String> = been.difference(&kept).collect();
    let most = format!("--max-count={}", STRAYS_MAX + 1);
    let mut args = vec!["rev-list", "--ignore-missing", &most];
    args.extend(heads);
    args.extend(been.iter().map(|commit| commit.as_str()));
    args.push("--not");
    args.extend(held);
    args.extend(kept.iter().map(String::as_str));
    let found = git::run(&source.repo, &args).await?;
    let found: Vec<String> = found.lines().map(str::to_owned).collect();
    if found.len() > STRAYS_MAX {
        return Err(because("it was at many commits that no branch holds"));
    }
    Ok(found)
}

fn logged(log: &Path) -> std::io::Result<BTreeSet<String>> {
    let bytes = if_there(regular::read(log, LOG_MAX))?.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let is_commit = |id: &&str| {
        id.len() >= 40 && id.bytes().all(|b| b.is_ascii_hexdigit()) && id.contains(|c| c != '0')
    };
    let ids = text.lines().flat_map(|line| line.split(' ').take(2));
    Ok(ids.filter(is_commit).map(str::to_owned).collect())
}

/// Why the worktree must not be removed, whatever its state.
fn obstacle(worktree: &Path, admin: &Path) -> std::io::Result<Option<String>> {
    if !is_registration_of(admin, worktree) {
        return Ok(Some("git has it registered at another place".to_owned()));
    }
    for (sign, reason) in [
        ("locked", "it is locked (`git worktree lock`)"),
        ("index.lock", "a git command is, or was, at work in it (index.lock)"),
        ("reftable", "its references are of a form (reftable) that is not looked into"),
        ("modules", "it has submodules, whose git is its own"),
    ] {
        if admin.join(sign).exists() {
            return Ok(Some(reason.to_owned()));
        }
    }
    if let Some(sign) = UNDER_WAY.iter().find(|sign| admin.join(sign).exists()) {
        return Ok(Some(format!("something is under way in it ({sign})")));
    }
    let nested = nested_repository(worktree)?;
    Ok(nested.map(|path| format!("it holds another repository, {}", path.display())))
}

/// A repository somewhere in the worktree, ignored or not. Links are not followed.
fn nested_repository(worktree: &Path) -> std::io::Result<Option<PathBuf>> {
    let mut folders = vec![worktree.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let is_top = folder == worktree;
            if !is_top && entry.file_name() == ".git" {
                return Ok(Some(folder));
            }
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(None)
}

impl Proof {
    /// Saves what a removal would lose under a reference of this name, which keeps what it held
    /// before. `None`: the branch has it all.
    pub async fn save(&self, reference: &str) -> Result<Option<String>, Keep> {
        let tree_of = format!("{}^{{tree}}", self.head);
        let before = git::run(&self.common, &["rev-parse", &tree_of]).await?;
        let index = self.snapshot.copy_index(&self.admin, "index.staged").await?;
        self.snapshot.withhold(Some(&index)).await?;
        let staged = self.write(&["write-tree"], Some(&index)).await?;
        self.snapshot.aside.keep_lfs().await?;
        self.write(&["add", "--all"], None).await?;
        self.snapshot.aside.refuse_storing_filters().await?;
        self.snapshot.withhold(None).await?;
        let tree = self.write(&["write-tree"], None).await?;
        if tree == before && staged == before && self.strays.is_empty() {
            return Ok(None);
        }
        let mut parents = vec![self.head.clone()];
        if staged != before && staged != tree {
            parents.push(self.commit(&staged, &parents, "What was staged").await?);
        }
        let earlier = format!("{reference}^{{commit}}");
        let earlier = ["rev-parse", "--verify", "--quiet", "--end-of-options", &earlier];
        parents.extend(git::run(&self.common, &earlier).await.ok());
        parents.extend(self.strays.iter().filter(|stray| **stray != self.head).cloned());
        let commit = self.commit(&tree, &parents, "What was not committed").await?;
        let args = ["update-ref", "--no-deref", "-m", "provost gc", reference, &commit];
        git::run(&self.common, &args).await?;
        Ok(Some(commit))
    }

    async fn commit(&self, tree: &str, parents: &[String], about: &str) -> Result<String, Keep> {
        let mut args = vec!["commit-tree", tree, "-m", about];
        args.extend(parents.iter().flat_map(|parent| ["-p", parent]));
        self.write(&args, None).await
    }

    /// Runs git from the scratch repository, and writes objects to the real one.
    async fn write(&self, args: &[&str], index: Option<&Path>) -> Result<String, Keep> {
        let mut git = self.snapshot.writing(&self.common.join("objects"));
        git.command
            .args(["-c", "core.fsync=all", "-c", "core.fsyncObjectFiles=true"])
            .envs(index.map(|index| ("GIT_INDEX_FILE", index)));
        Ok(git.text(args).await?)
    }
}
