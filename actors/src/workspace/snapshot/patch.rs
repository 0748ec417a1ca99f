//! A patch as git makes it, of a worktree's files or of two commits.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;

use super::{SnapshotError, diff, whole};
use crate::blocking::blocking;
use crate::workspace::git::Git;
use crate::workspace::scratch_repo::ScratchRepo;

/// The arguments for the patch of these paths, from one commit to the files, or to a second commit. With
/// `below`, the paths in it begin with that folder; a rename is a deletion and an addition there.
pub fn args(commits: &[&str], paths: &[Vec<u8>], below: Option<&str>) -> Vec<OsString> {
    let mut args = diff(&["--patch", "--binary", "--full-index"]);
    let folder = below.map(|folder| format!("{folder}/")).unwrap_or_default();
    args.push(if below.is_none() { "--find-renames" } else { "--no-renames" }.into());
    args.push(format!("--src-prefix=a/{folder}").into());
    args.push(format!("--dst-prefix=b/{folder}").into());
    args.extend(commits.iter().map(OsString::from));
    args.push("--".into());
    args.extend(paths.iter().map(|path| OsString::from_vec(path.clone())));
    args
}

/// The patch; `None`: it is longer than `limit` bytes. `git` makes a git of the scratch repository. Files
/// that are no UTF-8 make the whole patch binary, which is ASCII: a text that replaced their bytes could
/// not be applied.
pub async fn text(
    aside: &ScratchRepo,
    git: impl Fn() -> Git,
    args: &[OsString],
    limit: usize,
) -> Result<Option<String>, SnapshotError> {
    let Some(bytes) = up_to(git(), args, limit).await? else { return Ok(None) };
    let error = match String::from_utf8(bytes) {
        Ok(text) => return Ok(Some(text)),
        Err(error) => error,
    };
    tracing::debug!(%error, "a patch that is no UTF-8 is made as a binary one");
    let attributes = aside.path().join("info/attributes");
    let written = attributes.clone();
    let before = blocking(move || {
        let before = fs::read(&written).unwrap_or_default();
        fs::write(&written, [&before[..], b"\n* -diff\n"].concat()).map(|()| before)
    });
    let before = before.await?;
    let binary = up_to(git(), args, limit).await;
    blocking(move || fs::write(attributes, before)).await?;
    binary?.map(String::from_utf8).transpose().map_err(|_| SnapshotError::Unreadable)
}

/// The output of git; `None`: it is longer than `limit` bytes.
async fn up_to(
    git: Git,
    args: &[OsString],
    limit: usize,
) -> Result<Option<Vec<u8>>, SnapshotError> {
    let output = git.output(args, limit).await?;
    if output.is_cut {
        return Ok(None);
    }
    whole(output).map(Some)
}
