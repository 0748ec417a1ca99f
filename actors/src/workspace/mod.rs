//! The git side of an attempt: its branch and its worktrees.
//!
//! git locks its own files only for moments and fails when two writers meet, so [`Repositories`]
//! runs one change of a repository at a time. Reads go straight to git: a [`snapshot`] of a
//! worktree shows what an attempt changed, the open [`tree`] a file's content, and a [`proof`]
//! whether a removal would lose anything. What reads or writes a worktree's files does so from
//! a scratch repository (`aside`), so no program that an agent configures ever runs. Nothing is
//! deleted: what stands in a worktree's way moves to the trash folder.

pub mod advance;
mod aside;
mod beneath;
mod between;
pub mod bundle;
pub mod cache;
pub mod changes;
mod checked_out;
mod checkouts;
pub mod commit;
pub mod committed;
pub mod compared;
mod concerned;
pub mod copy;
pub mod file_versions;
pub mod folder_copy;
pub mod frozen;
pub mod git;
pub mod identity;
mod index_lock;
pub mod merge;
mod owner;
pub mod page;
mod places;
mod plain_file;
pub mod probe;
pub mod proof;
pub mod push;
pub mod quote;
mod reflink;
mod registration;
pub mod regular;
pub mod removal;
pub mod snapshot;
pub mod tree;
pub mod turn_snapshot;

pub use aside::check_out;
pub use beneath::refuse_links;
pub use checkouts::of_branch as checkouts_of;
pub use owner::{NewWorktree, Repositories, Snapshotted};
pub use places::Places;
