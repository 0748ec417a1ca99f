//! An attempt's own repository of one of the person's. It borrows the person's objects, and is all that
//! git in the attempt's worktree reads and writes: an agent can change nothing of the person's.
//!
//! ```text
//!  attempts/<id>/git/<repo>/
//!    common/     info by Provost, no hooks; packed-refs leads to packed/, config to settings/
//!      worktrees/tree/   git's folder of the worktree: HEAD, index, logs, modules   written in a box
//!      objects/ refs/ logs/ packed/ settings/ lfs/ rr-cache/                        written in a box
//!    kept/       Provost's own: the index that files are read with, the references that it wrote, and
//!      view/     the same repository as Provost's git reads it, by a configuration that only Provost writes
//!  worktrees/<folder>/<repo>/.git   leads to common/worktrees/tree
//! ```
//!
//! A box opens whole folders. git makes its locks beside the files that it changes, or beside what a link
//! leads to, and no agent may make hooks, so those files lie in folders of their own. What an agent does to its
//! configuration is put back at a turn's end ([`put_back`]).
//!
//! The boundary is a git transfer ([`transfer`]): what an agent made reaches the person's repository only
//! as a pack whose objects git names anew there. git that reads this repository runs in a box of the
//! attempt's ([`held`]); Provost itself opens only files right below these folders, and follows no link.

mod follow;
pub mod held;
pub mod lfs;
mod list;
pub mod make;
mod put_back;
mod refs;
pub mod transfer;

use std::path::{Path, PathBuf};

use crate::ids::AttemptId;

pub use follow::follow;
pub use put_back::{clear_nested, put_back, settle};
pub use refs::refresh;

/// Where an attempt's own repository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    root: PathBuf,
}

impl Own {
    /// That of a repository's name, for an attempt with this folder.
    pub fn of(attempt_dir: &Path, repo: &str) -> Self {
        Self { root: attempt_dir.join(FOLDER).join(repo) }
    }

    /// All of it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// git's folder of the worktree.
    pub fn admin(&self) -> PathBuf {
        self.common().join("worktrees/tree")
    }

    /// What git takes for the shared folder of worktrees.
    pub fn common(&self) -> PathBuf {
        self.root.join("common")
    }

    pub fn objects(&self) -> PathBuf {
        self.common().join("objects")
    }

    /// The folders that a box of the attempt's agent may write.
    pub fn written(&self) -> Vec<PathBuf> {
        let common = self.common();
        let of_common = ["objects", "refs", "logs", "packed", "settings", "lfs", "rr-cache"];
        let of_common = of_common.map(|name| common.join(name));
        std::iter::once(self.admin()).chain(of_common).collect()
    }

    /// Provost's own index of the worktree: it says which files are as they were when they were read.
    pub fn index(&self) -> PathBuf {
        self.root.join("kept/index")
    }

    /// The repository as Provost's git reads it.
    pub fn view(&self) -> PathBuf {
        self.root.join("kept/view")
    }

    /// The configuration as Provost has made it.
    pub fn made_config(&self) -> PathBuf {
        self.root.join("kept/config")
    }

    /// The person's references, as they were written for the agent.
    fn written_refs(&self) -> PathBuf {
        self.root.join("kept/refs")
    }
}

/// In an attempt's folder: its own repositories.
pub const FOLDER: &str = "git";

/// A reference of the person's repository that Provost alone uses: the commit that the attempt has
/// checked out.
pub fn head_reference(attempt: AttemptId) -> String {
    format!("refs/provost/own/{attempt}/head")
}

/// The same for its branch, as it was taken over last.
pub fn branch_reference(attempt: AttemptId) -> String {
    format!("refs/provost/own/{attempt}/branch")
}

/// The same for the commit that it began from, whose objects it borrows.
pub fn base_reference(attempt: AttemptId) -> String {
    format!("refs/provost/own/{attempt}/base")
}

/// The same for a commit that nothing else holds, while its snapshot is made.
pub fn lost_reference(attempt: AttemptId, number: usize) -> String {
    format!("refs/provost/own/{attempt}/lost/{number}")
}
