//! The checkouts of a repository, and which of them a move of a branch concerns: those that show
//! it, and those in which something is under way that ends on it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::git::{self, Git, GitError};
use super::proof::UNDER_WAY;
use super::registration::{real, registered};
use super::regular;
use crate::blocking::{blocking, if_there};

/// Where git keeps the branches to which a rebase or a bisection returns.
const RETURNS: [&str; 4] = [
    "rebase-merge/head-name",
    "rebase-merge/update-refs",
    "rebase-apply/head-name",
    "BISECT_START",
];

pub struct Checkout {
    pub path: PathBuf,
    /// The folder that git keeps for it.
    pub admin: PathBuf,
    /// It is there, and shows the branch or returns to it.
    pub is_of_branch: bool,
    /// What is under way in it: git's file or folder of it.
    pub under_way: Option<&'static str>,
}

/// The folders of the checkouts that show the branch, or return to it.
pub async fn of_branch(repo: &Path, branch: &str) -> Result<Vec<PathBuf>, GitError> {
    let all = all(repo, branch).await?.into_iter();
    Ok(all.filter(|it| it.is_of_branch).map(|it| it.path).collect())
}

/// All checkouts that git has recorded.
pub async fn all(repo: &Path, branch: &str) -> Result<Vec<Checkout>, GitError> {
    let common = git::common_dir(repo).await?;
    let list = ["worktree", "list", "--porcelain", "-z"];
    let output = Git::new(repo).output(&list, usize::MAX).await?;
    if !output.status.success() {
        return Err(output.failure());
    }
    let branch = branch.to_owned();
    blocking(move || found(&common, &branch, &output.stdout)).await
}

fn found(common: &Path, branch: &str, listed: &[u8]) -> Result<Vec<Checkout>, GitError> {
    let reference = format!("refs/heads/{branch}");
    let linked = if_there(fs::read_dir(common.join("worktrees")))?.into_iter().flatten();
    let linked = linked.filter_map(|entry| Some(entry.ok()?.path()));
    let linked: HashMap<PathBuf, PathBuf> =
        linked.filter_map(|admin| Some((registered(&admin)?, admin))).collect();
    let mut found = Vec::new();
    // Each line and each entry ends with a NUL.
    let mut is_main = true;
    for lines in listed.split(|byte| *byte == 0).collect::<Vec<_>>().split(|line| line.is_empty()) {
        let value = |name: &[u8]| lines.iter().find_map(|line| line.strip_prefix(name));
        let Some(path) = value(b"worktree ") else { continue };
        let path = PathBuf::from(OsStr::from_bytes(path));
        // The main one comes first.
        let admin = match linked.get(&real(&path).join(".git")) {
            _ if std::mem::take(&mut is_main) => common.to_owned(),
            Some(admin) => admin.clone(),
            // No checkout leads there, so that it counts as another one than git lists.
            None => common.join("worktrees"),
        };
        let is_gone = value(b"prunable").is_some() || value(b"bare").is_some();
        let shows = value(b"branch ") == Some(reference.as_bytes());
        let under_way = if shows {
            UNDER_WAY.into_iter().find(|sign| admin.join(sign).exists())
        } else {
            returns(&admin, branch, &reference)
        };
        let is_of_branch = !is_gone && (shows || under_way.is_some());
        found.push(Checkout { path, admin, is_of_branch, under_way });
    }
    Ok(found)
}

/// What is under way in a checkout that ends on the branch.
fn returns(admin: &Path, branch: &str, reference: &str) -> Option<&'static str> {
    RETURNS.into_iter().find(|sign| {
        // What can't be read as text is not git's.
        let text = regular::text(&admin.join(sign)).unwrap_or_default();
        text.lines().any(|line| line == reference || line == branch)
    })
}
