//! The owner of one repository: an actor that makes worktrees, and forgets those
//! that were taken away, one at a time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::sync::Mutex;

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
}

pub(super) enum Message {
    Add(NewWorktree, RpcReplyPort<Result<(), GitError>>),
    Forget(PathBuf, RpcReplyPort<Result<(), GitError>>),
}

struct Owner;

impl Actor for Owner {
    type Msg = Message;
    type State = PathBuf;
    type Arguments = PathBuf;

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        repo: PathBuf,
    ) -> Result<PathBuf, ActorProcessingErr> {
        Ok(repo)
    }

    // Awaiting git here is what serialises the writes.
    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        repo: &mut PathBuf,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Add(worktree, reply) => {
                let _ = reply.send(add(repo, &worktree).await);
            }
            Message::Forget(worktree, reply) => {
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
    try_add(repo, new).await
}

/// Ends the registration of a worktree that is there no more, and none but it.
async fn forget(repo: &Path, worktree: &Path) -> Result<(), GitError> {
    // git would delete what is there; it may have been made anew.
    let is_there = tokio::fs::symlink_metadata(worktree).await.is_ok();
    if is_there || proof::registration(repo, worktree).await?.is_none() {
        return Ok(());
    }
    let path = worktree.to_string_lossy();
    git::run(repo, &["worktree", "remove", "--force", &path]).await.map(drop)
}

async fn try_add(repo: &Path, new: &NewWorktree) -> Result<(), GitError> {
    let path = new.path.to_string_lossy();
    if git::branch_tip(repo, &new.branch).await.is_some() {
        git::run_fetching(repo, &["worktree", "add", "--quiet", &path, &new.branch]).await?;
    } else {
        let args =
            ["worktree", "add", "--quiet", "--no-track", "-b", &new.branch, &path, &new.base];
        git::run_fetching(repo, &args).await?;
    }
    Ok(())
}

async fn set_aside(new: &NewWorktree) -> std::io::Result<()> {
    tokio::fs::create_dir_all(&new.trash).await?;
    let name = format!("{}-{}", uuid::Uuid::now_v7(), new.branch.replace('/', "-"));
    tokio::fs::rename(&new.path, new.trash.join(name)).await
}

/// Finds the owner of a repository, or spawns it under the given supervisor.
pub struct Repositories {
    supervisor: ActorCell,
    owners: Mutex<HashMap<PathBuf, ActorRef<Message>>>,
}

impl Repositories {
    pub fn new(supervisor: ActorCell) -> Self {
        Self { supervisor, owners: Mutex::default() }
    }

    /// Adds a worktree to the repository at `repo`, after all that were asked before.
    pub async fn add_worktree(&self, repo: &Path, worktree: NewWorktree) -> Result<(), GitError> {
        let owner = self.owner(repo).await?;
        ractor::call!(owner, |reply| Message::Add(worktree, reply))
            .unwrap_or_else(|error| Err(GitError::Failed(format!("the git owner ended: {error}"))))
    }

    /// Has the repository at `repo` forget a worktree, if it is there no more.
    pub async fn forget_worktree(&self, repo: &Path, worktree: PathBuf) -> Result<(), GitError> {
        let owner = self.owner(repo).await?;
        ractor::call!(owner, |reply| Message::Forget(worktree, reply))
            .unwrap_or_else(|error| Err(GitError::Failed(format!("the git owner ended: {error}"))))
    }

    async fn owner(&self, repo: &Path) -> Result<ActorRef<Message>, GitError> {
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
    }
}
