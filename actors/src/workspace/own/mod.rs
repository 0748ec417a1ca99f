//! An attempt's own repository of one of the person's. It borrows the person's objects, and git in the
//! attempt's worktree reads and writes it alone: an agent can change nothing of the person's.
//!
//! ```text
//!  attempts/<id>/git/<repo>/
//!    common/     info by Provost, no hooks; packed-refs leads to packed/, config to settings/
//!      worktrees/tree/   git's folder of the worktree: HEAD, index, logs, modules   written in a box
//!      objects/ refs/ logs/ packed/ settings/ lfs/ rr-cache/                        written in a box
//!    kept/       Provost's own: the index that files are read with, the references that it wrote, and
//!      view/     the same repository as Provost's git reads it, by a configuration that only Provost writes
//!  worktrees/<folder>/<repo>/.git   leads to common/worktrees/tree
//!
//!  make ─▶ refresh ─▶ a turn: the agent writes ─▶ put_back ─▶ transfer ─▶ … ─▶ removed
//!             ▲                                                 │
//!             └──── the next turn; follow, if a finish has ─────┘
//!                   moved the branch before
//! ```
//!
//! A box opens whole folders. git makes its locks beside the files that it changes, or beside what a link
//! leads to, and no agent may make hooks, so those files lie in folders of their own. What an agent does
//! to its configuration is put back at a turn's end ([`put_back`]).
//!
//! The boundary is a git transfer ([`transfer`]): what an agent made reaches the person's repository only
//! as a pack whose objects git hashes again there. git that reads this repository runs in a box of the
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

/// The folder of an attempt's own repository. The value is only a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    root: PathBuf,
}

impl Own {
    /// Of the attempt with this folder, for the person's repository of this name.
    pub fn of(attempt_dir: &Path, repo: &str) -> Self {
        Self { root: attempt_dir.join(FOLDER).join(repo) }
    }

    /// The whole folder: what goes when the attempt is removed.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder that git keeps for the worktree (`GIT_DIR` in it).
    pub fn admin(&self) -> PathBuf {
        self.common().join("worktrees/tree")
    }

    /// What git takes for the folder that all worktrees share; here there is one.
    pub fn common(&self) -> PathBuf {
        self.root.join("common")
    }

    /// The agent's own objects. The borrowed ones are in the person's repository.
    pub fn objects(&self) -> PathBuf {
        self.common().join("objects")
    }

    /// The folders that a box of the attempt's agent may write. Everything beside them is Provost's.
    pub fn written(&self) -> Vec<PathBuf> {
        let common = self.common();
        let of_common = ["objects", "refs", "logs", "packed", "settings", "lfs", "rr-cache"];
        let of_common = of_common.map(|name| common.join(name));
        std::iter::once(self.admin()).chain(of_common).collect()
    }

    /// Provost's own index of the worktree. It tells which files are as they were when Provost read them
    /// last, whatever the agent does to git's index.
    pub fn index(&self) -> PathBuf {
        self.root.join("kept/index")
    }

    /// The repository as Provost's git reads it: the same content by a configuration that no agent can
    /// write.
    pub fn view(&self) -> PathBuf {
        self.root.join("kept/view")
    }

    /// The configuration as Provost has made it, to compare the agent's with.
    pub fn made_config(&self) -> PathBuf {
        self.root.join("kept/config")
    }

    /// The person's references, as they were last written for the agent.
    fn written_refs(&self) -> PathBuf {
        self.root.join("kept/refs")
    }

    /// The same of a write that has begun, and may have been cut off before the agent's list was changed
    /// or after.
    fn next_refs(&self) -> PathBuf {
        self.root.join("kept/refs.next")
    }
}

/// The folder of the own repositories, in an attempt's folder.
pub const FOLDER: &str = "git";

/// The reference of the person's repository for the commit that the attempt has checked out, as it was
/// taken over last. Only Provost uses it; it keeps the commit from git's garbage collection.
pub fn head_reference(attempt: AttemptId) -> String {
    format!("refs/provost/own/{attempt}/head")
}

/// The same for the tip of the attempt's branch. If the person's branch is elsewhere, another program has
/// moved it.
pub fn branch_reference(attempt: AttemptId) -> String {
    format!("refs/provost/own/{attempt}/branch")
}

/// The same for the commit from which the attempt began, whose objects its own repository borrows.
pub fn base_reference(attempt: AttemptId) -> String {
    format!("refs/provost/own/{attempt}/base")
}

/// The same for a commit that no branch holds, only while its snapshot is made.
pub fn lost_reference(attempt: AttemptId, number: usize) -> String {
    format!("refs/provost/own/{attempt}/lost/{number}")
}
