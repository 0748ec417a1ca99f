//! A clean checkout of a commit in a repository of its own: it borrows the objects,
//! and has no remote, no hooks and no configuration but the person's. What is done in
//! it leaves no trace in the repository that the commit is from.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::git::{self, Git, GitError};
use super::{aside, regular};
use crate::blocking::blocking;

/// Bytes of a list of commits at which the history of a shallow clone ends.
const SHALLOW_MAX: u64 = 64 << 20;

/// A commit to be laid out.
#[derive(Clone, Debug)]
pub struct Checkout {
    /// The repository that has it.
    pub repo: PathBuf,
    pub commit: String,
    /// Where else its objects are looked for; need not be there.
    pub objects: PathBuf,
    /// Where it is laid out; must not be there.
    pub path: PathBuf,
}

/// Why a commit can't be laid out.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("git can't lay it out: {0}")]
    Git(#[from] GitError),
}

/// Lays it out.
pub async fn make(checkout: &Checkout) -> Result<(), CheckoutError> {
    let common = git::common_dir(&checkout.repo).await?;
    let format = git::run(&common, &["rev-parse", "--show-object-format"]).await?;
    {
        let checkout = checkout.clone();
        blocking(move || repository(&checkout, &common, &format)).await?;
    }
    let args = ["checkout", "--quiet", "--force", "--detach", &checkout.commit];
    Git::new(&checkout.path).patient().text(&args).await?;
    Ok(())
}

fn repository(checkout: &Checkout, common: &Path, format: &str) -> io::Result<()> {
    if let Some(parent) = checkout.path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::create_dir(&checkout.path)?;
    let git_dir = checkout.path.join(".git");
    let lenders = [&common.join("objects"), &checkout.objects];
    let there: Vec<&Path> =
        lenders.into_iter().map(PathBuf::as_path).filter(|it| it.is_dir()).collect();
    aside::bare(&git_dir, &there)?;
    let config = format!(
        "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectFormat = {format}\n"
    );
    fs::write(git_dir.join("config"), config)?;
    // The history of a shallow clone ends where this says.
    regular::copy_small(&common.join("shallow"), &git_dir.join("shallow"), SHALLOW_MAX)
}
