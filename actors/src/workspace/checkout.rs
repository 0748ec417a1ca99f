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

/// Checks out a commit of the repository `repo` into the new folder `path`. `objects` is
/// another folder with its objects, and may be missing.
pub async fn make(
    repo: &Path,
    commit: &str,
    objects: PathBuf,
    path: PathBuf,
) -> Result<(), GitError> {
    let common = git::common_dir(repo).await?;
    let format = git::run(&common, &["rev-parse", "--show-object-format"]).await?;
    let git = Git::new(&path).patient();
    blocking(move || repository(&path, &common, &objects, &format)).await?;
    git.text(&["checkout", "--quiet", "--force", "--detach", commit]).await?;
    Ok(())
}

fn repository(path: &Path, common: &Path, objects: &Path, format: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::create_dir(path)?;
    let git_dir = path.join(".git");
    let lenders = [&*common.join("objects"), objects];
    let there: Vec<&Path> = lenders.into_iter().filter(|it| it.is_dir()).collect();
    aside::bare(&git_dir, &there)?;
    let config = format!(
        "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectFormat = {format}\n"
    );
    fs::write(git_dir.join("config"), config)?;
    regular::copy_small(&common.join("shallow"), &git_dir.join("shallow"), SHALLOW_MAX)
}
