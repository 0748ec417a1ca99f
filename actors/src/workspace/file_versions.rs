//! Files as commits have them, and which lines differ between two versions of one. Comments on lines
//! follow their lines by these. Everything is read from the repository's objects, without a worktree; git
//! runs nothing that the repository configures.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::git::{Git, GitError, Output};
use super::snapshot::limits::FILE_MAX;

/// Bytes of the longest list of files, and of the longest diff.
const OUTPUT_MAX: usize = 64 << 20;

/// A regular file as a commit has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The id of its blob.
    pub blob: String,
    /// Whether it is short enough to be read (16 MiB); a longer one has no content and no hunks.
    pub is_read: bool,
}

/// Lines of the new version that take the place of lines of the old one. A side may have no lines: then
/// `first` is where they would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hunk {
    pub old: Span,
    pub new: Span,
}

/// Consecutive lines of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Counted from 1.
    pub first: u64,
    pub count: u64,
}

impl Span {
    /// The number of the line after the last one; of an empty span, `first`.
    pub fn end(self) -> u64 {
        self.first.saturating_add(self.count)
    }
}

/// The regular files that a commit has at these paths. Links, submodules and missing files are not in the
/// map.
///
/// # Errors
/// git fails: there is no such commit, say.
pub async fn at(
    repo: &Path,
    commit: &str,
    paths: &[&[u8]],
) -> Result<HashMap<Vec<u8>, Version>, GitError> {
    if paths.is_empty() {
        return Ok(HashMap::new());
    }
    let options = ["ls-tree", "-z", "-l", "--full-tree", commit, "--"];
    let args: Vec<OsString> = options.map(OsString::from).into();
    let paths = paths.iter().map(|path| OsStr::from_bytes(path).to_owned());
    let mut git = Git::new(repo);
    git.command.env("GIT_LITERAL_PATHSPECS", "1");
    let args: Vec<OsString> = args.into_iter().chain(paths).collect();
    let listed = whole(git.output(&args, OUTPUT_MAX).await?)?;
    let entries = listed.split(|byte| *byte == 0);
    Ok(entries.filter_map(entry).collect())
}

/// `<mode> blob <id> <size>\t<path>`, of a regular file.
fn entry(entry: &[u8]) -> Option<(Vec<u8>, Version)> {
    let tab = entry.iter().position(|byte| *byte == b'\t')?;
    let about = std::str::from_utf8(&entry[..tab]).ok()?;
    let [mode, "blob", blob, size] = about.split_ascii_whitespace().collect::<Vec<_>>()[..] else {
        return None;
    };
    let is_read = size.parse().is_ok_and(|size: u64| size <= FILE_MAX);
    let version = Version { blob: blob.to_owned(), is_read };
    mode.starts_with("100").then(|| (entry[tab + 1..].to_vec(), version))
}

/// The content of a version whose `is_read` holds.
///
/// # Errors
/// git fails: there is no such blob, say. The blob is longer than that.
pub async fn content(repo: &Path, blob: &str) -> Result<Vec<u8>, GitError> {
    let most = usize::try_from(FILE_MAX).unwrap_or(usize::MAX);
    whole(Git::new(repo).output(&["cat-file", "blob", blob], most).await?)
}

/// The hunks between two blobs, in order. `None`: the diff is too long to be read.
///
/// # Errors
/// git fails: one of them is gone, say.
pub async fn between(repo: &Path, old: &str, new: &str) -> Result<Option<Vec<Hunk>>, GitError> {
    let args = [
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--text",
        "--unified=0",
        "--inter-hunk-context=0",
        "--diff-algorithm=histogram",
        old,
        new,
    ];
    let output = Git::new(repo).output(&args, OUTPUT_MAX).await?;
    if output.is_cut {
        return Ok(None);
    }
    Ok(Some(hunks(&whole(output)?)))
}

/// The output of a git that succeeded and was not cut.
fn whole(output: Output) -> Result<Vec<u8>, GitError> {
    let is_whole = output.status.success() && !output.is_cut;
    if is_whole { Ok(output.stdout) } else { Err(output.failure()) }
}

/// The hunks of a diff without context. Its other lines begin with `-`, `+` or `\`, or are the head.
fn hunks(diff: &[u8]) -> Vec<Hunk> {
    diff.split(|byte| *byte == b'\n').filter_map(hunk).collect()
}

/// `@@ -<first>[,<count>] +<first>[,<count>] @@`. For a side without lines, git names the line before.
fn hunk(line: &[u8]) -> Option<Hunk> {
    let rest = line.strip_prefix(b"@@ -")?;
    let end = rest.windows(3).position(|three| three == b" @@")?;
    let (old, new) = std::str::from_utf8(&rest[..end]).ok()?.split_once(" +")?;
    let span = |side: &str| {
        let (first, count) = side.split_once(',').unwrap_or((side, "1"));
        let (first, count): (u64, u64) = (first.parse().ok()?, count.parse().ok()?);
        Some(Span { first: first + u64::from(count == 0), count })
    };
    Some(Hunk { old: span(old)?, new: span(new)? })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::git;
    use super::*;

    fn span(first: u64, count: u64) -> Span {
        Span { first, count }
    }

    #[tokio::test]
    async fn files_are_read_by_commit_and_compared_by_blob() {
        let scratch = tempfile::tempdir().unwrap();
        let repo = scratch.path();
        let git = async |args: &[&str]| git::run(repo, args).await.unwrap();
        git(&["init", "--quiet"]).await;
        let commit = async |text: &str| {
            fs::write(repo.join("a *"), text).unwrap();
            git(&["add", "--all"]).await;
            let who = ["-c", "user.name=t", "-c", "user.email=t@t"];
            git(&[&who[..], &["commit", "--quiet", "--message=t"]].concat()).await;
            git(&["rev-parse", "HEAD"]).await
        };
        fs::create_dir(repo.join("d")).unwrap();
        fs::write(repo.join("d/x"), "x").unwrap();
        let old = commit("1\n2\n3\n").await;
        // A diff of the repository's own configuration would have context.
        git(&["config", "diff.context", "9"]).await;
        let new = commit("0\n1\n@@ -1 +1 @@\n3\n4").await;
        let names: [&[u8]; 4] = [b"a *", b"d/x", b"d", b"none"];
        let (from, to) =
            (at(repo, &old, &names).await.unwrap(), at(repo, &new, &names).await.unwrap());
        assert_eq!(from.len(), 2, "no folder, and none that is not there: {from:?}");
        let (from, to) = (&from[&b"a *"[..]], &to[&b"a *"[..]]);
        assert!(from.is_read && content(repo, &from.blob).await.unwrap() == b"1\n2\n3\n");
        let found = between(repo, &from.blob, &to.blob).await.unwrap().unwrap();
        let expected = [
            Hunk { old: span(1, 0), new: span(1, 1) },
            Hunk { old: span(2, 1), new: span(3, 1) },
            Hunk { old: span(4, 0), new: span(5, 1) },
        ];
        assert_eq!(found, expected);
        assert_eq!(between(repo, &to.blob, &to.blob).await.unwrap(), Some(vec![]));
        assert!(at(repo, "0000000", &names).await.is_err());
    }
}
