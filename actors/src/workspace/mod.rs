//! The git side of an attempt: its branch, its own repository and its worktrees.
//!
//! git locks its own files only for moments, and fails when two writers meet, so [`Repositories`] runs
//! one change of a repository at a time. Reads go straight to git: a [`snapshot`] of a worktree shows
//! what an attempt changed, the open [`tree`] a file's content, and a [`proof`] whether a removal would
//! lose anything.
//!
//! ```text
//!  git                              runs git: its environment, its deadline, its keeper
//!  scratch_repo settings            where git reads and writes the files of worktrees, and by which settings
//!  beneath tree regular plain_file  open what an agent can write, without links
//!  owner own                        make a worktree and its own repository; take over an agent's commits
//!  copy cache folder_copy           what a new worktree gets
//!  snapshot changes compared        what an attempt changed
//!  commit ─▶ merge ─▶ advance|push  the steps of a finish; parting: since which commit the work counts
//!  turn_snapshot worktree_commit    keep what a worktree has; proof: before it is removed
//! ```
//!
//! Whatever reads or writes a worktree's files does so from a scratch repository, so no program that an
//! agent configures ever runs. Nothing is deleted: what is in a worktree's way moves to the trash folder.

pub mod advance;
pub mod beneath;
mod between;
pub mod bundle;
pub mod cache;
pub mod changes;
mod checkouts;
pub mod commit;
pub mod committed;
pub mod compared;
pub mod copy;
pub mod file_versions;
pub mod folder_copy;
pub mod git;
pub mod identity;
pub mod index_lock;
pub mod kept_refs;
pub mod left_out;
mod links;
mod locked_checkout;
pub mod merge;
pub mod own;
mod owner;
pub mod page;
pub mod parting;
mod places;
mod plain_file;
pub mod probe;
pub mod proof;
pub mod push;
pub mod quote;
mod references;
mod reflink;
pub mod regular;
pub mod removal;
mod scratch_repo;
mod settings;
pub mod signing;
pub mod snapshot;
pub mod source;
mod switch_paths;
pub mod tree;
pub mod turn_snapshot;
pub mod under_way;
pub mod worktree_commit;

pub use beneath::refuse_links;
pub use checkouts::of_branch as checkouts_of;
pub use owner::{
    NewWorktree, Repositories, Snapshotted, add_worktree, forget_worktree, restore_worktree,
};
pub use places::Places;
pub use scratch_repo::check_out;
pub use settings::files as settings_files;
