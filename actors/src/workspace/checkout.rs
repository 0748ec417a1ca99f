//! A clean checkout of a commit in a repository of its own: it borrows the objects, and has no
//! remote, no hooks and no configuration but the person's. It leaves no trace in the
//! repository that has the commit.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::git::{self, Git, GitError};
use super::{aside, regular};
use crate::blocking::blocking;

/// Longest list of the commits at which a shallow clone's history ends, in bytes.
const SHALLOW_MAX: u64 = 64 << 20;

#[derive(Clone, Debug)]
pub struct Checkout {
    pub repo: PathBuf,
    pub commit: String,
    /// Another folder with its objects; may be missing.
    pub objects: PathBuf,
    pub path: PathBuf,
}

pub async fn make(checkout: &Checkout) -> Result<(), GitError> {
    let common = git::common_dir(&checkout.repo).await?;
    let format = git::run(&common, &["rev-parse", "--show-object-format"]).await?;
    let new = checkout.clone();
    blocking(move || repository(&new, &common, &format)).await?;
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
    regular::copy_small(&common.join("shallow"), &git_dir.join("shallow"), SHALLOW_MAX)
}
