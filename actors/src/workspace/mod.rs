//! The git side of an attempt: its branch and its worktrees.
//!
//! ```text
//!   attempt ──▶ Repositories ──▶ one owner per repository ──▶ git
//!                  (finds or spawns)   (writes one after another)
//! ```
//!
//! git locks its own files only for moments and fails when two writers meet, so
//! all writes to one repository go through one actor, however many attempts
//! start in it at once. Reads need no owner and go straight to git: a
//! [`snapshot`] of a worktree shows what an attempt changed, the open [`tree`] what is in a
//! file, and a [`proof`] whether its removal would lose anything. A worktree
//! is [`frozen`] as a commit, and a commit laid out in a [`checkout`], beside the
//! repository and without a trace in it. What reads or lays out files does so from a
//! repository of ours (`aside`): no program that an agent configures is ever run. Nothing
//! here knows what a task or an executor is; nothing is ever deleted, what stands in
//! the way of a worktree is moved to the trash folder.

mod aside;
mod beneath;
pub mod changes;
pub mod checkout;
pub mod frozen;
pub mod git;
mod owner;
pub mod page;
pub mod proof;
pub mod quote;
pub mod regular;
pub mod snapshot;
pub mod tree;
pub mod worktree;

pub use beneath::refuse_links;
pub use owner::{NewWorktree, Repositories};
