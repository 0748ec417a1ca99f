//! Finds files of Git LFS among what is to be pushed. git has a small text, a pointer, in place of such a
//! file. The pointers are looked for themselves, because any file of attributes may have had them made.

use std::collections::HashMap;
use std::path::Path;

use crate::workspace::git::{self, Git, GitError};
use crate::workspace::scratch_repo::ScratchRepo;

/// How a pointer begins (git-lfs, docs/spec.md).
const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";
/// The size in bytes that no pointer reaches.
const POINTER_MAX: u64 = 1024;
/// Bytes of the longest list of objects that is read.
const LIST_MAX: usize = 1 << 30;
/// Objects whose texts are read at once. It bounds the memory that they take, at less than 1 KiB each.
const CHUNK: usize = 8192;

/// The path of a pointer in the commits that the remotes lack, as far as the remote-tracking references
/// tell; `None`: there is none.
pub(super) async fn pointer(
    repo: &Path,
    aside: &ScratchRepo,
    commit: &str,
) -> Result<Option<String>, GitError> {
    let list = ["for-each-ref", "--format=^%(objectname)", "refs/remotes"];
    let range = format!("{commit}\n{}\n", git::run(repo, &list).await?);
    let small = format!("--filter=blob:limit={POINTER_MAX}");
    let objects =
        ["rev-list", "--objects", "--ignore-missing", "--missing=allow-any", &small, "--stdin"];
    let objects = listed(aside, &objects, range.into_bytes()).await?;
    let paths: HashMap<&[u8], &[u8]> = lines(&objects).filter_map(|line| parted(line)).collect();
    let ids: Vec<&[u8]> = paths.keys().copied().collect();
    for ids in ids.chunks(CHUNK) {
        let kinds = ["cat-file", "--batch-check=%(objecttype) %(objectname)"];
        let kinds = listed(aside, &kinds, joined(ids.iter().copied())).await?;
        let files = lines(&kinds).filter_map(|line| line.strip_prefix(b"blob "));
        let texts = listed(aside, &["cat-file", "--batch"], joined(files)).await?;
        if let Some(path) = first_pointer(&texts).and_then(|id| paths.get(id)) {
            return Ok(Some(String::from_utf8_lossy(path).into_owned()));
        }
    }
    Ok(None)
}

/// The output of git in the scratch repository, with this input.
async fn listed(aside: &ScratchRepo, args: &[&str], input: Vec<u8>) -> Result<Vec<u8>, GitError> {
    let git: Git = aside.git(aside.path()).patient().input(aside.path(), input).await?;
    let output = git.output(args, LIST_MAX).await?;
    match output {
        output if output.is_cut => Err(GitError::Failed(format!(
            "git {} lists more than {LIST_MAX} bytes",
            args.first().unwrap_or(&"")
        ))),
        output if !output.status.success() => Err(output.failure()),
        output => Ok(output.stdout),
    }
}

/// The lines that are not empty.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// An object and its path, of `git rev-list --objects`; `None`: a commit, or the root of a tree.
fn parted(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = line.iter().position(|byte| *byte == b' ')?;
    Some((&line[..at], &line[at + 1..])).filter(|(_, path)| !path.is_empty())
}

/// The ids, one a line.
fn joined<'a>(ids: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut all = Vec::new();
    for id in ids {
        all.extend_from_slice(id);
        all.push(b'\n');
    }
    all
}

/// The first object that is a pointer, in the output of `git cat-file --batch`: for each object `<id>
/// blob <size>`, then the content and a line feed.
fn first_pointer(mut texts: &[u8]) -> Option<&[u8]> {
    while let Some(end) = texts.iter().position(|byte| *byte == b'\n') {
        let head: Vec<&[u8]> = texts[..end].split(|byte| *byte == b' ').collect();
        texts = &texts[end + 1..];
        // `<id> missing` has no content after it.
        let [id, _, size] = head[..] else { continue };
        let size: usize = std::str::from_utf8(size).ok()?.parse().ok()?;
        if texts.starts_with(POINTER) {
            return Some(id);
        }
        texts = texts.get(size + 1..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_found_among_texts_that_speak_of_one_or_are_missing() {
        let text = "about version https://git-lfs.github.com/spec/v1\n";
        let pointer = "version https://git-lfs.github.com/spec/v1\noid x\n";
        let of = |id: &str, text: &str| format!("{id} blob {}\n{text}\n", text.len());
        let plain = format!("{}cc missing\n{}", of("aa", text), of("bb", ""));
        assert_eq!(first_pointer(plain.as_bytes()), None);
        let with = plain + &of("dd", pointer) + &of("ee", text);
        assert_eq!(first_pointer(with.as_bytes()), Some(&b"dd"[..]));
    }
}
