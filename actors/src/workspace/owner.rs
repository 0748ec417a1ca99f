//! Makes the worktrees of attempts, each with a repository of its own ([`super::own`]), and runs the
//! changes of one repository of the person's one after the other ([`Repositories`]).

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::git::{self, GitError};
use super::own::make::{Beginning, kept, link, make};
use super::own::{Own, branch_reference, head_reference};
use super::scratch_repo::{self, ScratchRepo};
use super::{references, regular};
use crate::blocking::{blocking, lock};
use crate::ids::AttemptId;

/// A worktree to be made, for one repository of an attempt.
#[derive(Clone, Debug)]
pub struct NewWorktree {
    pub attempt: AttemptId,
    /// The attempt's own repository, which is made with it.
    pub own: Own,
    /// The worktree's folder.
    pub path: PathBuf,
    /// The attempt's branch, without `refs/heads/`.
    pub branch: String,
    /// The commit from which the attempt begins.
    pub base: String,
    /// The folder to which everything goes that is in the way. Nothing is deleted.
    pub trash: PathBuf,
    /// The folder for scratch repositories.
    pub scratch: PathBuf,
}

/// What a turn of an attempt left in a repository. A worktree is made again from it: on another host, or
/// where the folder was lost.
#[derive(Clone, Debug)]
pub struct Snapshotted {
    /// The commit of its files; its first parent is the commit that was checked out. `None`: no turn has
    /// left anything.
    pub commit: Option<String>,
    /// A reference. Below it, the tip of the branch is kept where the branch has something else.
    pub kept: String,
}

/// Lets the changes of a repository take turns: git locks its files only for moments, and fails when two
/// writers meet.
#[derive(Default)]
pub struct Repositories {
    /// By the shared folder of a repository: a lock that the current change holds.
    turns: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
}

impl Repositories {
    /// Runs a change after all earlier ones of this repository. It runs to its end even if the caller is
    /// dropped, so that no change stops halfway.
    ///
    /// # Errors
    /// Those of the change; or its task panicked.
    pub async fn in_turn<T, E>(
        &self,
        repo: &Path,
        change: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<GitError> + Send + 'static,
    {
        let key = git::common_dir(repo).await?;
        let turn = Arc::clone(lock(&self.turns).entry(key).or_default());
        let changed = tokio::spawn(async move {
            let _turn = turn.lock_owned().await;
            change.await
        });
        changed.await.map_err(|error| GitError::Failed(error.to_string()))?
    }
}

/// Makes a worktree of the repository at `repo`, also after an interrupted try: the branch is new, or
/// where that try left it. Call it only while nothing has run in the worktree. No other start has to wait
/// for it.
///
/// # Errors
/// git fails, or what is in the way can't be moved. What was made until then is removed again.
pub async fn add_worktree(repo: &Path, new: &NewWorktree) -> Result<(), GitError> {
    set_aside(new).await.map_err(|error| in_the_way(new, &error))?;
    let branch = format!("refs/heads/{}", new.branch);
    let begin = || {
        let kept = kept(new.attempt, &new.base, &new.base);
        let commands = format!("create {branch} {}\n{kept}", new.base);
        references::all(repo, &new.scratch, commands, "provost: start")
    };
    let tip = match begin().await {
        Ok(()) => new.base.clone(),
        Err(GitError::Failed(said)) => match git::branch_tip(repo, &new.branch).await? {
            Some(tip) => {
                let kept = kept(new.attempt, &tip, &new.base);
                references::all(repo, &new.scratch, kept, "provost: start").await?;
                tip
            }
            // There is no such branch, but its lock: a killed git left it. Only this attempt makes a branch
            // of this name, and git has waited longer than a git that is being ended can hold the lock.
            None if references::cut_off(repo, &branch, &said).await? => {
                begin().await?;
                new.base.clone()
            }
            None => return Err(GitError::Failed(said)),
        },
        Err(error) => return Err(error),
    };
    restore_worktrees(repo, new, &tip).await
}

/// Makes the worktree again as a turn left it, wherever its branch is now. What was not committed then is
/// in the files, and is not committed now. If the attempt's own repository is there (only the worktree
/// was lost), it stays.
pub async fn restore_worktree(
    repo: &Path,
    new: &NewWorktree,
    left: &Snapshotted,
) -> Result<(), GitError> {
    let is_there = tokio::fs::symlink_metadata(new.own.admin().join("HEAD")).await.is_ok();
    if is_there {
        set_worktree_aside(new).await.map_err(|error| in_the_way(new, &error))?;
        return lay_again(repo, new, left).await;
    }
    let head = match &left.commit {
        Some(commit) => {
            let parent = format!("{commit}^1");
            git::run(repo, &["rev-parse", "--verify", "--quiet", &parent]).await?
        }
        None => new.base.clone(),
    };
    let branch = format!("refs/heads/{}", new.branch);
    // The branch goes back to what was checked out. If it has moved since, its tip is kept first.
    let tip = git::ref_tip(repo, &branch).await?.filter(|tip| *tip != head);
    if let Some(tip) = tip {
        references::set(repo, &format!("{}/{tip}", left.kept), &tip, None, "provost").await?;
    }
    let commands = format!("update {branch} {head}\n{}", kept(new.attempt, &head, &new.base));
    references::all(repo, &new.scratch, commands, "provost").await?;
    set_aside(new).await.map_err(|error| in_the_way(new, &error))?;
    restore_worktrees(repo, new, &head).await?;
    match &left.commit {
        Some(commit) => {
            scratch_repo::bring(repo, &new.path, &new.own.admin(), commit, &new.scratch).await
        }
        None => Ok(()),
    }
}

/// Makes the own repository and the worktree with the files of a commit. After a failure, both are
/// removed.
async fn restore_worktrees(repo: &Path, new: &NewWorktree, commit: &str) -> Result<(), GitError> {
    let common = git::common_dir(repo).await?;
    let aside = ScratchRepo::for_files(&common, &new.scratch).await?;
    let (own, worktree) = (&new.own, &*new.path);
    let beginning = Beginning { own, worktree, branch: &new.branch, commit };
    let admin = own.admin();
    let made = async {
        make(repo, &common, &aside.settings, &beginning).await?;
        scratch_repo::restore_worktrees(aside, worktree, &admin, commit).await?;
        keep_index(own).await
    };
    let made = made.await;
    if made.is_err() {
        // Nothing has run in it, so nothing is lost, and half a worktree may have filled the disk.
        take_away(new).await;
    }
    made
}

/// Makes the worktree of an own repository that is there, with the files of the snapshot.
async fn lay_again(repo: &Path, new: &NewWorktree, left: &Snapshotted) -> Result<(), GitError> {
    let common = git::common_dir(repo).await?;
    let tip = references::tips(repo, &[&head_reference(new.attempt)]).await?.into_values().next();
    let commit = left.commit.clone().or(tip).unwrap_or_else(|| new.base.clone());
    let (own, path) = (new.own.clone(), new.path.clone());
    blocking(move || link(&own, &path)).await?;
    let aside =
        ScratchRepo::for_files(&common, &new.scratch).await?.of_own(&new.own.admin()).await?;
    // The files are written by a scratch index. The agent's own index still says what it had staged.
    let index = aside.path().join("index");
    let mut git = aside.writing(&new.path);
    git.command.env("GIT_INDEX_FILE", &index);
    git.text(&["read-tree", "--reset", "-u", &commit]).await?;
    Ok(())
}

/// Copies git's fresh index for Provost's use: the files are as this index says.
async fn keep_index(own: &Own) -> Result<(), GitError> {
    let (from, to) = (own.admin().join("index"), own.index());
    Ok(blocking(move || regular::copy(&from, &to)).await?)
}

/// Deletes the references that kept what a removed worktree borrowed. Idempotent.
///
/// # Errors
/// git can't read or change them.
pub async fn forget_worktree(repo: &Path, attempt: AttemptId) -> Result<(), GitError> {
    for name in [head_reference, branch_reference, super::own::base_reference] {
        references::delete(repo, &name(attempt)).await?;
    }
    Ok(())
}

/// Removes the worktree and the own repository, as far as they can be removed.
async fn take_away(new: &NewWorktree) {
    for path in [new.path.clone(), new.own.root().to_owned()] {
        let _ = tokio::fs::remove_dir_all(path).await;
    }
}

/// What is at the worktree's path can't be moved away.
fn in_the_way(new: &NewWorktree, error: &io::Error) -> GitError {
    GitError::Failed(format!("{} is in the way: {error}", new.path.display()))
}

/// Moves the worktree and the own repository of an earlier try to the trash.
async fn set_aside(new: &NewWorktree) -> io::Result<()> {
    set_worktree_aside(new).await?;
    away(new, new.own.root(), "git").await
}

/// Moves what is at the worktree's path to the trash.
async fn set_worktree_aside(new: &NewWorktree) -> io::Result<()> {
    away(new, &new.path, "files").await
}

/// Moves what is at a path to the trash, under a new name that ends with `what`. Nothing there is no
/// error.
async fn away(new: &NewWorktree, path: &Path, what: &str) -> io::Result<()> {
    if tokio::fs::symlink_metadata(path).await.is_err() {
        return Ok(());
    }
    tokio::fs::create_dir_all(&new.trash).await?;
    let name = format!("{}-{}-{what}", uuid::Uuid::now_v7(), new.branch.replace('/', "-"));
    tokio::fs::rename(path, new.trash.join(name)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn git(dir: &Path, args: &[&str]) -> String {
        git::run(dir, args).await.unwrap()
    }

    fn new(dir: &Path, name: &str, base: String) -> NewWorktree {
        NewWorktree {
            attempt: AttemptId::new(),
            own: Own::of(&dir.join("attempt").join(name), "repo"),
            path: dir.join(name),
            branch: format!("provost/{name}"),
            base,
            trash: dir.join("trash"),
            scratch: dir.join("scratch"),
        }
    }

    #[tokio::test]
    async fn a_worktree_that_was_cut_off_in_the_middle_is_made_again() {
        let scratch = tempfile::tempdir().unwrap();
        let repo = scratch.path().join("repo");
        std::fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "--quiet"]).await;
        let who = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
        let commit = [&who[..], &["commit", "--quiet", "--allow-empty", "-m", "first"]].concat();
        git(&repo, &commit).await;
        let base = git(&repo, &["rev-parse", "HEAD"]).await;
        let tree = new(scratch.path(), "tree", base.clone());
        add_worktree(&repo, &tree).await.unwrap();
        std::fs::write(tree.path.join("half"), "").unwrap();
        add_worktree(&repo, &tree).await.unwrap();
        assert!(!tree.path.join("half").exists());
        assert_eq!(std::fs::read_dir(&tree.trash).unwrap().count(), 2, "moved, not deleted");
        assert_eq!(git(&tree.path, &["branch", "--show-current"]).await, "provost/tree");
        std::fs::remove_dir_all(&tree.path).unwrap();
        add_worktree(&repo, &tree).await.unwrap();
        assert!(tree.path.join(".git").exists());

        // The lock of a branch that was about to be made.
        let other = new(scratch.path(), "other", base);
        std::fs::write(repo.join(".git/refs/heads/provost/other.lock"), "").unwrap();
        add_worktree(&repo, &other).await.unwrap();
        assert_eq!(git(&other.path, &["branch", "--show-current"]).await, "provost/other");
    }

    struct Scene {
        scratch: tempfile::TempDir,
        repo: PathBuf,
    }

    impl Scene {
        /// A repository with one file, `a`.
        async fn new() -> Self {
            let scratch = tempfile::tempdir().unwrap();
            let repo = scratch.path().join("repo");
            std::fs::create_dir(&repo).unwrap();
            git(&repo, &["init", "--quiet", "--initial-branch=main"]).await;
            for (key, value) in [("user.name", "t"), ("user.email", "t@localhost")] {
                git(&repo, &["config", key, value]).await;
            }
            std::fs::write(repo.join("a"), "text\n").unwrap();
            git(&repo, &["add", "--all"]).await;
            git(&repo, &["commit", "--quiet", "--message=first"]).await;
            Self { scratch, repo }
        }

        async fn worktree(&self, repo: &Path) -> NewWorktree {
            new(self.scratch.path(), "tree", git(repo, &["rev-parse", "main"]).await)
        }
    }

    #[tokio::test]
    async fn nothing_that_the_repository_configures_runs_while_a_worktree_is_made() {
        let scene = Scene::new().await;
        let ran = scene.scratch.path().join("ran");
        let trap = format!("touch {}; cat", ran.display());
        for key in [
            "filter.ev.smudge",
            "filter.ev.process",
            "core.fsmonitor",
            "core.sshCommand",
            "credential.helper",
            "core.alternateRefsCommand",
        ] {
            git(&scene.repo, &["config", key, &trap]).await;
        }
        let attributes = scene.repo.join(".git/info/attributes");
        std::fs::create_dir_all(attributes.parent().unwrap()).unwrap();
        std::fs::write(attributes, "* filter=ev\n").unwrap();
        let new = scene.worktree(&scene.repo).await;
        add_worktree(&scene.repo, &new).await.unwrap();
        assert_eq!(std::fs::read_to_string(new.path.join("a")).unwrap(), "text\n");
        assert!(!ran.exists());
        assert_eq!(git(&new.path, &["-c", "core.attributesFile=/dev/null", "ls-files"]).await, "a");
    }

    #[tokio::test]
    async fn a_partial_clone_gets_its_files_and_by_no_program_of_its_configuration() {
        let scene = Scene::new().await;
        git(&scene.repo, &["config", "uploadpack.allowFilter", "true"]).await;
        git(&scene.repo, &["config", "uploadpack.allowAnySHA1InWant", "true"]).await;
        let clone = scene.scratch.path().join("clone");
        let from = format!("file://{}", scene.repo.display());
        let path = clone.to_string_lossy().into_owned();
        let filter = ["clone", "--quiet", "--filter=blob:none", "--no-checkout", &from, &path];
        git(&scene.repo, &filter).await;
        let ran = scene.scratch.path().join("ran");
        let trap = format!("touch {}; git-upload-pack", ran.display());
        git(&clone, &["config", "remote.origin.uploadpack", &trap]).await;
        let new = scene.worktree(&clone).await;
        git(&clone, &["config", "protocol.ext.allow", "always"]).await;
        git(&clone, &["config", "remote.origin.url", &format!("ext::sh -c {trap}")]).await;
        add_worktree(&clone, &new).await.unwrap_err();
        git(&clone, &["config", "remote.origin.url", &from]).await;
        add_worktree(&clone, &new).await.unwrap();
        assert_eq!(std::fs::read_to_string(new.path.join("a")).unwrap(), "text\n");
        assert!(!ran.exists());
        // What was fetched is kept.
        assert_eq!(git(&clone, &["cat-file", "-p", "main:a"]).await, "text");
    }

    #[tokio::test]
    async fn many_worktrees_at_once_and_one_that_has_its_branch_are_whole() {
        let scene = Scene::new().await;
        let base = git(&scene.repo, &["rev-parse", "main"]).await;
        let numbered =
            |number: usize| new(scene.scratch.path(), &format!("tree-{number}"), base.clone());
        git(&scene.repo, &["branch", "provost/tree-3", "main"]).await;
        std::fs::create_dir(scene.scratch.path().join("tree-4")).unwrap();
        std::fs::write(scene.scratch.path().join("tree-4/other"), "").unwrap();
        let mut all = tokio::task::JoinSet::new();
        for number in 0..8 {
            let (repo, new) = (scene.repo.clone(), numbered(number));
            all.spawn(async move { add_worktree(&repo, &new).await.unwrap() });
        }
        all.join_all().await;
        for number in 0..8 {
            let new = numbered(number);
            assert_eq!(git(&new.path, &["branch", "--show-current"]).await, new.branch);
            assert_eq!(git(&new.path, &["status", "--porcelain"]).await, "");
            assert_eq!(std::fs::read_to_string(new.path.join("a")).unwrap(), "text\n");
        }
    }

    #[tokio::test]
    async fn a_worktree_is_restored_as_a_turn_left_it_though_another_one_has_its_branch() {
        let scene = Scene::new().await;
        let old = scene.worktree(&scene.repo).await;
        add_worktree(&scene.repo, &old).await.unwrap();
        let commit = async |text: &str| {
            std::fs::write(old.path.join("a"), text).unwrap();
            git(&old.path, &["commit", "--quiet", "--all", "-m", text]).await;
            git(&old.path, &["rev-parse", "HEAD"]).await
        };
        let head = commit("committed").await;
        std::fs::write(old.path.join("b"), "new").unwrap();
        std::os::unix::fs::symlink("b", old.path.join("c")).unwrap();
        git(&old.path, &["add", "--all"]).await;
        let tree = git(&old.path, &["write-tree"]).await;
        let snapshot = git(&old.path, &["commit-tree", &tree, "-p", &head, "-m", "turn"]).await;
        let beyond = commit("beyond").await;
        let repo = scene.repo.to_str().unwrap();
        let push = [format!("+{beyond}:refs/heads/{}", old.branch), format!("{snapshot}:refs/x/y")];
        git(&old.path, &["push", "--quiet", repo, &push[0], &push[1]]).await;
        let (path, own) = (scene.scratch.path().join("new"), Own::of(scene.scratch.path(), "new"));
        let new = NewWorktree { own, path, ..old.clone() };
        let left = Snapshotted { commit: Some(snapshot), kept: "refs/provost/moved/x".to_owned() };
        for _ in 0..2 {
            restore_worktree(&scene.repo, &new, &left).await.unwrap();
            assert_eq!(git(&new.path, &["branch", "--show-current"]).await, old.branch);
            assert_eq!(git(&new.path, &["rev-parse", "HEAD"]).await, head);
            assert_eq!(git(&new.path, &["status", "--porcelain"]).await, "?? b\n?? c");
            assert_eq!(std::fs::read_to_string(new.path.join("a")).unwrap(), "committed");
            assert_eq!(std::fs::read_to_string(new.path.join("c")).unwrap(), "new");
        }
        let kept = format!("refs/provost/moved/x/{beyond}");
        assert_eq!(git(&scene.repo, &["rev-parse", &kept]).await, beyond);
        assert_eq!(std::fs::read_to_string(old.path.join("a")).unwrap(), "beyond");
    }

    #[tokio::test]
    async fn a_repository_of_sha_256_makes_worktrees() {
        let scene = Scene::new().await;
        let repo = scene.scratch.path().join("other");
        std::fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "--quiet", "--initial-branch=main", "--object-format=sha256"]).await;
        std::fs::write(repo.join("a"), "text\n").unwrap();
        git(&repo, &["add", "--all"]).await;
        let who = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
        git(&repo, &[&who[..], &["commit", "--quiet", "--message=first"]].concat()).await;
        let new = scene.worktree(&repo).await;
        add_worktree(&repo, &new).await.unwrap();
        assert_eq!(git(&new.path, &["status", "--porcelain"]).await, "");
    }

    #[tokio::test]
    async fn a_sparse_repository_makes_sparse_worktrees() {
        let scene = Scene::new().await;
        std::fs::create_dir(scene.repo.join("d")).unwrap();
        std::fs::write(scene.repo.join("d/b"), "").unwrap();
        git(&scene.repo, &["add", "--all"]).await;
        git(&scene.repo, &["commit", "--quiet", "--message=second"]).await;
        git(&scene.repo, &["sparse-checkout", "set", "--cone", "e"]).await;
        let new = scene.worktree(&scene.repo).await;
        add_worktree(&scene.repo, &new).await.unwrap();
        assert!(new.path.join("a").exists() && !new.path.join("d").exists());
        assert_eq!(git(&new.path, &["status", "--porcelain"]).await, "");
    }

    #[tokio::test]
    async fn only_a_branch_is_a_branch() {
        let scene = Scene::new().await;
        git(&scene.repo, &["commit", "--quiet", "--allow-empty", "--message=second"]).await;
        git(&scene.repo, &["tag", "v1"]).await;
        git(&scene.repo, &["branch", "a/b"]).await;
        let tip = async |name| git::branch_tip(&scene.repo, name).await.unwrap();
        let head = git(&scene.repo, &["rev-parse", "HEAD"]).await;
        assert_eq!(tip("main").await, Some(head.clone()));
        assert_eq!(tip("a/b").await, Some(head));
        for name in ["main~1", "main^", "main@{0}", "v1", "HEAD", "-x", "", "a", "*", "../tags/v1"]
        {
            assert_eq!(tip(name).await, None, "{name}");
        }
        assert!(git::branch_tip(scene.scratch.path(), "main").await.is_err());
    }
}
