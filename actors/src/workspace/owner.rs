//! Writes to repositories: makes worktrees, and forgets those that are gone, one change at a
//! time in each repository.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::aside::{self, Aside};
use super::git::{self, GitError};
use super::{bundle, proof};
use crate::blocking::lock;

/// git makes the worktree empty: if it wrote the files, it would run the filters of the
/// repository's configuration, which agents can write.
const ADD: [&str; 4] = ["worktree", "add", "--quiet", "--no-checkout"];

#[derive(Clone, Debug)]
pub struct NewWorktree {
    pub path: PathBuf,
    pub branch: String,
    pub base: String,
    /// Takes what stands in the way.
    pub trash: PathBuf,
    pub scratch: PathBuf,
}

/// What a turn of an attempt left in a repository.
#[derive(Clone, Debug)]
pub struct Snapshotted {
    /// The commit of its files, whose parent was checked out; `None`: no turn has left anything.
    pub commit: Option<String>,
    /// Below this reference, what its branch had beyond is kept.
    pub kept: String,
}

#[derive(Default)]
pub struct Repositories {
    /// By the folder that a repository's worktrees share.
    turns: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
}

impl Repositories {
    /// Adds a worktree to the repository at `repo`. Its branch and its registration come after all
    /// earlier changes; its files, which only this worktree has, are written beside later ones.
    /// The caller is not to be dropped meanwhile.
    pub async fn add_worktree(&self, repo: &Path, new: NewWorktree) -> Result<(), GitError> {
        let (path, fresh) = (repo.to_owned(), new.clone());
        let made = self.in_turn(repo, async move { make(&path, &fresh).await });
        // Beside it: what writes the files needs no worktree to begin with.
        let (made, aside) = tokio::join!(made, for_files(repo, &new));
        let is_made = made.is_ok();
        if is_made
            && let Ok(aside) = aside
            && aside::lay_out(aside, &new.path, &new.base).await.is_ok()
        {
            return Ok(());
        }
        // Its branch is there already, or something of an earlier try is in the way. Another
        // change could move a branch that is not new: the files are written in turn, too.
        let path = repo.to_owned();
        let again = async move {
            if is_made {
                take_away(&path, &new).await;
            }
            add(&path, &new).await
        };
        self.in_turn(repo, again).await
    }

    /// Makes the worktree anew as a turn left it, wherever its branch is now, and whatever other
    /// worktree has that. What was not committed is not committed then.
    pub async fn restore_worktree(
        &self,
        repo: &Path,
        new: NewWorktree,
        left: Snapshotted,
    ) -> Result<(), GitError> {
        let path = repo.to_owned();
        self.in_turn(repo, async move { restore(&path, &new, &left).await }).await
    }

    /// Ends the registration of a worktree in the repository at `repo`, if it is gone.
    pub async fn forget_worktree(&self, repo: &Path, worktree: PathBuf) -> Result<(), GitError> {
        let path = repo.to_owned();
        self.in_turn(repo, async move { forget(&path, &worktree).await }).await
    }

    /// Runs a change after all earlier ones of this repository, even if the caller is dropped.
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

/// Makes the worktree, also after an interrupted try. Only called while nothing has run in it.
async fn add(repo: &Path, new: &NewWorktree) -> Result<(), GitError> {
    if try_add(repo, new).await.is_ok() {
        return Ok(());
    }
    if tokio::fs::symlink_metadata(&new.path).await.is_ok() {
        set_aside(new).await.map_err(|error| {
            GitError::Failed(format!("{} is in the way: {error}", new.path.display()))
        })?;
    }
    take_away(repo, new).await;
    let added = try_add(repo, new).await;
    // Only this attempt writes its branch, and git has waited longer for the lock than a git
    // that is being ended can hold it: a killed git left the lock.
    if added.is_err()
        && let Ok(common) = git::common_dir(repo).await
        && let lock = common.join(format!("refs/heads/{}.lock", new.branch))
        && tokio::fs::remove_file(lock).await.is_ok()
    {
        return try_add(repo, new).await;
    }
    added
}

async fn restore(repo: &Path, new: &NewWorktree, left: &Snapshotted) -> Result<(), GitError> {
    let head = match &left.commit {
        Some(commit) => {
            let parent = format!("{commit}^1");
            git::run(repo, &["rev-parse", "--verify", "--quiet", &parent]).await?
        }
        None => new.base.clone(),
    };
    let branch = format!("refs/heads/{}", new.branch);
    let tip = git::ref_tip(repo, &branch).await?.filter(|tip| *tip != head);
    if let Some(tip) = tip {
        bundle::refer(repo, &format!("{}/{tip}", left.kept), &tip).await?;
    }
    bundle::refer(repo, &branch, &head).await?;
    if tokio::fs::symlink_metadata(&new.path).await.is_ok() {
        set_aside(new).await?;
    }
    take_away(repo, new).await;
    let path = new.path.to_string_lossy();
    // The worktree that another host had may be registered, with this branch.
    git::run(repo, &[&ADD[..], &["--force", &path, &new.branch]].concat()).await?;
    lay_out(repo, new, &head).await?;
    match &left.commit {
        Some(commit) => aside::bring(repo, &new.path, commit, &new.scratch).await,
        None => Ok(()),
    }
}

/// Ends the registration of a worktree that is gone, and no other.
async fn forget(repo: &Path, worktree: &Path) -> Result<(), GitError> {
    // git would delete a folder that was created again.
    let is_there = tokio::fs::symlink_metadata(worktree).await.is_ok();
    if is_there || proof::registration(repo, worktree).await?.is_none() {
        return Ok(());
    }
    let path = worktree.to_string_lossy();
    git::run(repo, &["worktree", "remove", "--force", &path]).await.map(drop)
}

async fn try_add(repo: &Path, new: &NewWorktree) -> Result<(), GitError> {
    let path = new.path.to_string_lossy();
    let commit = if let Some(tip) = git::branch_tip(repo, &new.branch).await? {
        git::run(repo, &[&ADD[..], &[&path, &new.branch]].concat()).await?;
        tip
    } else {
        make(repo, new).await?;
        new.base.clone()
    };
    let laid_out = lay_out(repo, new, &commit).await;
    if laid_out.is_err() {
        take_away(repo, new).await;
    }
    laid_out
}

/// Takes a worktree away whose files could not be written: nothing has run in it, and it may fill
/// the disk.
async fn take_away(repo: &Path, new: &NewWorktree) {
    let path = new.path.to_string_lossy();
    // A killed try leaves a locked entry, which only goes when forced twice.
    let _ = git::run(repo, &["worktree", "remove", "--force", "--force", &path]).await;
}

/// Makes an empty worktree with a new branch. git refuses, before it makes anything, where the
/// branch is there already.
async fn make(repo: &Path, new: &NewWorktree) -> Result<(), GitError> {
    let path = new.path.to_string_lossy();
    let what = ["--no-track", "-b", &new.branch, &path, &new.base];
    git::run(repo, &[&ADD[..], &what].concat()).await.map(drop)
}

async fn lay_out(repo: &Path, new: &NewWorktree, commit: &str) -> Result<(), GitError> {
    aside::lay_out(for_files(repo, new).await?, &new.path, commit).await
}

async fn for_files(repo: &Path, new: &NewWorktree) -> Result<Aside, GitError> {
    Aside::for_files(&git::common_dir(repo).await?, &new.scratch).await
}

async fn set_aside(new: &NewWorktree) -> std::io::Result<()> {
    tokio::fs::create_dir_all(&new.trash).await?;
    let name = format!("{}-{}", uuid::Uuid::now_v7(), new.branch.replace('/', "-"));
    tokio::fs::rename(&new.path, new.trash.join(name)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn git(dir: &Path, args: &[&str]) -> String {
        git::run(dir, args).await.unwrap()
    }

    #[tokio::test]
    async fn a_worktree_that_was_cut_off_in_the_middle_is_made_anew() {
        let scratch = tempfile::tempdir().unwrap();
        let repo = scratch.path().join("repo");
        std::fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "--quiet"]).await;
        let who = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
        let commit = [&who[..], &["commit", "--quiet", "--allow-empty", "-m", "first"]].concat();
        git(&repo, &commit).await;
        let new = NewWorktree {
            path: scratch.path().join("tree"),
            branch: "provost/x".to_owned(),
            base: git(&repo, &["rev-parse", "HEAD"]).await,
            trash: scratch.path().join("trash"),
            scratch: scratch.path().join("scratch"),
        };
        add(&repo, &new).await.unwrap();
        // What a `git worktree add` that is killed leaves: its lock.
        git(&repo, &["worktree", "lock", "--reason", "initializing", "tree"]).await;
        std::fs::write(new.path.join("half"), "").unwrap();
        add(&repo, &new).await.unwrap();
        assert!(!new.path.join("half").exists());
        assert_eq!(std::fs::read_dir(&new.trash).unwrap().count(), 1, "moved, not deleted");
        assert_eq!(git(&new.path, &["branch", "--show-current"]).await, "provost/x");
        std::fs::remove_dir_all(&new.path).unwrap();
        git(&repo, &["worktree", "lock", "tree"]).await;
        add(&repo, &new).await.unwrap();
        assert!(new.path.join(".git").exists());

        // The lock of a branch that was about to be made.
        let new = NewWorktree {
            path: scratch.path().join("other"),
            branch: "provost/y".to_owned(),
            ..new
        };
        std::fs::write(repo.join(".git/refs/heads/provost/y.lock"), "").unwrap();
        add(&repo, &new).await.unwrap();
        assert_eq!(git(&new.path, &["branch", "--show-current"]).await, "provost/y");
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
            NewWorktree {
                path: self.scratch.path().join("tree"),
                branch: "provost/x".to_owned(),
                base: git(repo, &["rev-parse", "main"]).await,
                trash: self.scratch.path().join("trash"),
                scratch: self.scratch.path().join("scratch"),
            }
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
        add(&scene.repo, &new).await.unwrap();
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
        add(&clone, &new).await.unwrap_err();
        git(&clone, &["config", "remote.origin.url", &from]).await;
        add(&clone, &new).await.unwrap();
        assert_eq!(std::fs::read_to_string(new.path.join("a")).unwrap(), "text\n");
        assert!(!ran.exists());
        // What was fetched is kept.
        assert_eq!(git(&clone, &["cat-file", "-p", "main:a"]).await, "text");
    }

    #[tokio::test]
    async fn many_worktrees_at_once_and_one_that_has_its_branch_are_whole() {
        let scene = Scene::new().await;
        let repositories = Arc::new(Repositories::default());
        let first = scene.worktree(&scene.repo).await;
        let numbered = |number: usize| NewWorktree {
            path: scene.scratch.path().join(format!("tree-{number}")),
            branch: format!("provost/{number}"),
            ..first.clone()
        };
        git(&scene.repo, &["branch", "provost/3", "main"]).await;
        std::fs::create_dir(scene.scratch.path().join("tree-4")).unwrap();
        std::fs::write(scene.scratch.path().join("tree-4/other"), "").unwrap();
        let mut all = tokio::task::JoinSet::new();
        for number in 0..8 {
            let (repositories, repo) = (Arc::clone(&repositories), scene.repo.clone());
            let new = numbered(number);
            all.spawn(async move { repositories.add_worktree(&repo, new).await.unwrap() });
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
        add(&scene.repo, &old).await.unwrap();
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
        let new = NewWorktree { path: scene.scratch.path().join("new"), ..old.clone() };
        let left = Snapshotted { commit: Some(snapshot), kept: "refs/provost/moved/x".to_owned() };
        for _ in 0..2 {
            let repositories = Repositories::default();
            let restored = repositories.restore_worktree(&scene.repo, new.clone(), left.clone());
            restored.await.unwrap();
            assert_eq!(git(&new.path, &["branch", "--show-current"]).await, "provost/x");
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
        Repositories::default().add_worktree(&repo, new.clone()).await.unwrap();
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
        add(&scene.repo, &new).await.unwrap();
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
