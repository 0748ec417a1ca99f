//! The checkouts (worktrees) of a repository, and which of them a move of a branch concerns: those that
//! have the branch checked out, and those in which an operation is under way that returns to the branch.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::git::{self, Git, GitError};
use super::own::{held, transfer};
use super::regular;
use super::source::Source;
use super::under_way::SIGNS;
use crate::blocking::{blocking, if_there};
use crate::sandbox::Sandbox;

/// Where git writes down the branch to which a rebase or a bisection returns. Until then HEAD is
/// detached, so `git worktree list` does not show the branch.
const RETURNS: [&str; 4] = [
    "rebase-merge/head-name",
    "rebase-merge/update-refs",
    "rebase-apply/head-name",
    "BISECT_START",
];

/// A checkout of a repository, in its relation to one branch.
pub struct Checkout {
    /// The folder with the files.
    pub path: PathBuf,
    /// The folder that git keeps for it: HEAD, the index, its lock (gitrepository-layout(5)).
    pub admin: PathBuf,
    /// It exists, and has the branch checked out or returns to it.
    pub is_of_branch: bool,
    /// The file or folder by which git records an operation under way in it, such as `MERGE_HEAD`.
    pub under_way: Option<&'static str>,
    pub whose: Whose,
}

/// Whose checkout it is, which decides how git changes its files.
pub enum Whose {
    /// A checkout of the person's: git changes its files outside of any box.
    Persons,
    /// An attempt's worktree: git changes its files in this box. `None`: the machine can hold no box.
    Attempts(Option<Sandbox>),
}

/// An attempt's worktree as a checkout of the attempt's branch. What the agent committed is taken over
/// first, into the person's repository with the shared folder `common`.
pub async fn of_attempt(source: &Source, common: &Path) -> Result<Checkout, GitError> {
    let heads = transfer::take_over(source, common).await?;
    let (path, admin) = (source.worktree(), source.own.admin());
    let held = held::held(&source.own, common, &path).await?;
    let under_way = SIGNS.into_iter().find(|sign| admin.join(sign).symlink_metadata().is_ok());
    // A detached HEAD would not follow the branch. During an operation git may return to the branch.
    let is_of_branch =
        heads.shows.map_or(under_way.is_some(), |shown| shown == source.branch_ref());
    Ok(Checkout { path, admin, is_of_branch, under_way, whose: Whose::Attempts(held) })
}

/// The folders of the checkouts of the person's that have the branch checked out, or return to it.
pub async fn of_branch(repo: &Path, branch: &str) -> Result<Vec<PathBuf>, GitError> {
    let all = all(repo, branch).await?.into_iter();
    Ok(all.filter(|it| it.is_of_branch).map(|it| it.path).collect())
}

/// All checkouts that git has recorded for the person's repository, in relation to this branch. Worktrees
/// of attempts are not among them: they use repositories of their own.
pub async fn all(repo: &Path, branch: &str) -> Result<Vec<Checkout>, GitError> {
    let common = git::common_dir(repo).await?;
    let list = ["worktree", "list", "--porcelain", "-z"];
    let output = Git::new(repo).output(&list, usize::MAX).await?;
    if !output.status.success() {
        return Err(output.failure());
    }
    let (repo, branch) = (repo.to_owned(), branch.to_owned());
    blocking(move || found(&repo, &common, &branch, &output.stdout)).await
}

/// Reads the output of `git worktree list --porcelain -z`. Blocking.
fn found(
    repo: &Path,
    common: &Path,
    branch: &str,
    listed: &[u8],
) -> Result<Vec<Checkout>, GitError> {
    let reference = format!("refs/heads/{branch}");
    let linked = if_there(fs::read_dir(common.join("worktrees")))?.into_iter().flatten();
    let linked = linked.filter_map(|entry| Some(entry.ok()?.path()));
    let linked: HashMap<PathBuf, PathBuf> =
        linked.filter_map(|admin| Some((registered(&admin)?, admin))).collect();
    let mut found = Vec::new();
    // Each line ends with a NUL, and each entry with one more.
    let mut is_main = true;
    for lines in listed.split(|byte| *byte == 0).collect::<Vec<_>>().split(|line| line.is_empty()) {
        let value = |name: &[u8]| lines.iter().find_map(|line| line.strip_prefix(name));
        let Some(path) = value(b"worktree ") else { continue };
        let mut path = PathBuf::from(OsStr::from_bytes(path));
        // The main checkout comes first (git-worktree(1)), and its folder is the shared one.
        let admin = match linked.get(&real(&path).join(".git")) {
            _ if std::mem::take(&mut is_main) => {
                // With `--separate-git-dir`, git lists the main checkout by its git folder.
                if !leads_to(&path, common)? && leads_to(repo, common)? {
                    repo.clone_into(&mut path);
                }
                common.to_owned()
            }
            Some(admin) => admin.clone(),
            // No folder of git's leads back to this checkout. The parent folder replaces it: no `.git` leads
            // to it, so `leads_to` later finds that this is another checkout than git lists.
            None => common.join("worktrees"),
        };
        let is_gone = value(b"prunable").is_some() || value(b"bare").is_some();
        let shows = value(b"branch ") == Some(reference.as_bytes());
        let under_way = if shows {
            SIGNS.into_iter().find(|sign| admin.join(sign).exists())
        } else {
            returns(&admin, branch, &reference)
        };
        let is_of_branch = !is_gone && (shows || under_way.is_some());
        let whose = Whose::Persons;
        found.push(Checkout { path, admin, is_of_branch, under_way, whose });
    }
    Ok(found)
}

/// The record of an operation under way that ends on the branch.
fn returns(admin: &Path, branch: &str, reference: &str) -> Option<&'static str> {
    RETURNS.into_iter().find(|sign| {
        // git writes names of branches as text; a file that is no text is not git's.
        let text = regular::text(&admin.join(sign)).unwrap_or_default();
        text.lines().any(|line| line == reference || line == branch)
    })
}

/// The `.git` of the worktree that this folder of the repository is for.
fn registered(admin: &Path) -> Option<PathBuf> {
    let link = regular::text(&admin.join("gitdir")).ok()?;
    // The path is relative with `worktree.useRelativePaths` (git-config(1)).
    Some(real(admin.join(link.trim_end()).parent()?).join(".git"))
}

/// A path without links and `..`, as far as it exists; the rest is kept.
fn real(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, there)) = there else { return path.to_owned() };
    match path.strip_prefix(above) {
        Ok(rest) if !rest.as_os_str().is_empty() => there.join(rest),
        _ => there,
    }
}

/// Whether the `.git` of a checkout is the folder `admin`, or a file that leads to it. `false` where
/// there is no `.git`.
pub(super) fn leads_to(path: &Path, admin: &Path) -> io::Result<bool> {
    let link = path.join(".git");
    let Some(found) = if_there(fs::metadata(&link))? else { return Ok(false) };
    let led = if found.is_dir() {
        link
    } else {
        let text = regular::text(&link)?;
        let Some(led) = text.strip_prefix("gitdir: ") else { return Ok(false) };
        path.join(led.trim_end_matches('\n'))
    };
    Ok(if_there(led.canonicalize())? == Some(admin.canonicalize()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::snapshot::tests::Scene;

    #[test]
    fn an_attempt_has_its_branch_checked_out_only_where_its_head_is_on_it_or_returns_to_it() {
        let scene = Scene::new(&[(b"a", b"a\n")]);
        let common = scene.source.repo.join(".git");
        let is_of_branch = || {
            let found = scene.runtime.block_on(of_attempt(&scene.source, &common));
            found.unwrap().is_of_branch
        };
        assert!(is_of_branch());
        scene.git(&["checkout", "--quiet", "--detach"]);
        assert!(!is_of_branch());
        let rebase = scene.source.own.admin().join("rebase-merge");
        fs::create_dir(&rebase).unwrap();
        assert!(is_of_branch());
        fs::remove_dir(rebase).unwrap();
        scene.git(&["checkout", "--quiet", "-b", "other"]);
        assert!(!is_of_branch());
        scene.git(&["checkout", "--quiet", &scene.source.branch]);
        assert!(is_of_branch());
    }
}
