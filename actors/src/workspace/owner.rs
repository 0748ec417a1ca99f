//! The owner of one repository: an actor that makes worktrees, and forgets those
//! that were taken away, one at a time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::sync::Mutex;

use super::aside::{self, AsideError};
use super::git::{self, GitError};
use super::proof;

/// A worktree to be made.
#[derive(Clone, Debug)]
pub struct NewWorktree {
    pub path: PathBuf,
    pub branch: String,
    /// The commit to start from.
    pub base: String,
    /// Where something that stands in the way is moved.
    pub trash: PathBuf,
    /// Takes a repository of ours while the files are laid out.
    pub scratch: PathBuf,
}

pub(super) enum GitMessage {
    Add(NewWorktree, RpcReplyPort<Result<(), GitError>>),
    Forget(PathBuf, RpcReplyPort<Result<(), GitError>>),
}

struct Owner;

impl Actor for Owner {
    type Msg = GitMessage;
    type State = PathBuf;
    type Arguments = PathBuf;

    async fn pre_start(
        &self,
        _: ActorRef<GitMessage>,
        repo: PathBuf,
    ) -> Result<PathBuf, ActorProcessingErr> {
        Ok(repo)
    }

    // Awaiting git here is what serialises the writes.
    async fn handle(
        &self,
        _: ActorRef<GitMessage>,
        message: GitMessage,
        repo: &mut PathBuf,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            GitMessage::Add(worktree, reply) => {
                let _ = reply.send(add(repo, &worktree).await);
            }
            GitMessage::Forget(worktree, reply) => {
                let _ = reply.send(forget(repo, &worktree).await);
            }
        }
        Ok(())
    }
}

/// Makes the worktree, also when an earlier try was cut off in the middle.
/// Only called while nothing has run in it yet.
async fn add(repo: &Path, new: &NewWorktree) -> Result<(), GitError> {
    if try_add(repo, new).await.is_ok() {
        return Ok(());
    }
    if tokio::fs::symlink_metadata(&new.path).await.is_ok() {
        set_aside(new).await.map_err(|error| {
            GitError::Failed(format!("{} is in the way: {error}", new.path.display()))
        })?;
    }
    // A try that was killed leaves its entry behind, and locked; forced twice it
    // goes, and none but it. Mostly there is none, and that is no fault.
    let path = new.path.to_string_lossy();
    let _ = git::run(repo, &["worktree", "remove", "--force", "--force", &path]).await;
    let added = try_add(repo, new).await;
    // Only this attempt writes its branch, and git has waited longer for the lock than a
    // git that is ended can hold it: the lock was left by one that was killed.
    if added.is_err()
        && let Ok(common) = git::common_dir(repo).await
        && let lock = common.join(format!("refs/heads/{}.lock", new.branch))
        && tokio::fs::remove_file(lock).await.is_ok()
    {
        return try_add(repo, new).await;
    }
    added
}

/// Ends the registration of a worktree that is gone, and no other.
async fn forget(repo: &Path, worktree: &Path) -> Result<(), GitError> {
    // git would delete what is there; it may have been made anew.
    let is_there = tokio::fs::symlink_metadata(worktree).await.is_ok();
    if is_there || proof::registration(repo, worktree).await?.is_none() {
        return Ok(());
    }
    let path = worktree.to_string_lossy();
    git::run(repo, &["worktree", "remove", "--force", &path]).await.map(drop)
}

/// git makes the worktree empty: laying out the files itself, it would run the filters
/// of the repository's configuration, which agents can write.
async fn try_add(repo: &Path, new: &NewWorktree) -> Result<(), GitError> {
    let path = new.path.to_string_lossy();
    let add = ["worktree", "add", "--quiet", "--no-checkout"];
    let what: &[&str] = if git::branch_tip(repo, &new.branch).await?.is_some() {
        &[&path, &new.branch]
    } else {
        &["--no-track", "-b", &new.branch, &path, &new.base]
    };
    git::run(repo, &[&add, what].concat()).await?;
    let laid_out = aside::lay_out(&new.path, &new.scratch).await;
    if laid_out.is_err() {
        // Nothing has run in it, and it may be what fills the disk.
        let _ = git::run(repo, &["worktree", "remove", "--force", "--force", &path]).await;
    }
    laid_out.map_err(|error| match error {
        AsideError::Git(error) => error,
        AsideError::Io(error) => GitError::Failed(error.to_string()),
    })
}

async fn set_aside(new: &NewWorktree) -> std::io::Result<()> {
    tokio::fs::create_dir_all(&new.trash).await?;
    let name = format!("{}-{}", uuid::Uuid::now_v7(), new.branch.replace('/', "-"));
    tokio::fs::rename(&new.path, new.trash.join(name)).await
}

/// Finds the owner of a repository, or spawns it under the given supervisor.
pub struct Repositories {
    supervisor: ActorCell,
    owners: Mutex<HashMap<PathBuf, ActorRef<GitMessage>>>,
}

impl Repositories {
    pub fn new(supervisor: ActorCell) -> Self {
        Self { supervisor, owners: Mutex::default() }
    }

    /// Adds a worktree to the repository at `repo`, after all that were asked before.
    pub async fn add_worktree(&self, repo: &Path, worktree: NewWorktree) -> Result<(), GitError> {
        let owner = self.owner(repo).await?;
        ractor::call!(owner, |reply| GitMessage::Add(worktree, reply))
            .unwrap_or_else(|error| Err(GitError::Failed(format!("the git owner ended: {error}"))))
    }

    /// Ends the registration of a worktree in the repository at `repo`, if it is gone.
    pub async fn forget_worktree(&self, repo: &Path, worktree: PathBuf) -> Result<(), GitError> {
        let owner = self.owner(repo).await?;
        ractor::call!(owner, |reply| GitMessage::Forget(worktree, reply))
            .unwrap_or_else(|error| Err(GitError::Failed(format!("the git owner ended: {error}"))))
    }

    async fn owner(&self, repo: &Path) -> Result<ActorRef<GitMessage>, GitError> {
        let key = git::common_dir(repo).await?;
        let mut owners = self.owners.lock().await;
        if let Some(owner) = owners.get(&key)
            && owner.get_status() == ractor::ActorStatus::Running
        {
            return Ok(owner.clone());
        }
        let (owner, _) = Actor::spawn_linked(None, Owner, repo.to_owned(), self.supervisor.clone())
            .await
            .map_err(|error| GitError::Failed(error.to_string()))?;
        owners.insert(key, owner.clone());
        Ok(owner)
    }
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
