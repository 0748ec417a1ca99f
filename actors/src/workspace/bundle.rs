//! How commits reach the repository of another host of a shared board: as files of `git bundle`, whose
//! parts the board stores, or from a remote. git stores what it takes in from a scratch repository, so
//! nothing runs that an agent configured.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::git::{self, Git, GitError};
use super::references;
use super::scratch_repo::ScratchRepo;
use crate::blocking::blocking;

/// Bytes of a part of a bundle, as the board stores it in one row.
pub const PART: usize = 3 << 20;
/// How many commits a fetch names to the remote as present, at most: enough for a small pack.
const TIPS: &str = "--count=20";

/// The reference that keeps a commit from which attempts begin, whatever becomes of the branch that it
/// was on.
pub fn base_reference(commit: &str) -> String {
    format!("refs/provost/bases/{commit}")
}

/// Whether a repository has a commit. A git that fails counts as "no".
pub async fn has(repo: &Path, commit: &str) -> bool {
    git::run(repo, &["cat-file", "-e", &format!("{commit}^{{commit}}")]).await.is_ok()
}

/// Writes the reference, with what its commit has beyond the commit `needs`, as a bundle to a new file.
/// `None`: with its whole history. git refuses an empty bundle.
pub async fn write(
    repo: &Path,
    file: &Path,
    reference: &str,
    needs: Option<&str>,
) -> Result<(), GitError> {
    let file = file.to_string_lossy();
    let without = needs.map(|commit| format!("^{commit}"));
    let mut args = vec!["bundle", "create", "--quiet", &*file, reference];
    args.extend(without.as_deref());
    Git::new(repo).patient().text(&args).await.map(drop)
}

/// Stores the commits of a bundle in a repository, and sets the reference to the commit.
///
/// # Errors
/// The repository lacks a commit that the bundle builds on; then nothing is stored. Or git fails.
pub async fn take_in(
    repo: &Path,
    scratch: &Path,
    file: &Path,
    (reference, commit): (&str, &str),
) -> Result<(), GitError> {
    let path = file.to_owned();
    let (needs, pack) = blocking(move || opened(&path)).await?;
    // index-pack checks the objects of the pack, but not that the parents of its commits are there.
    for needed in needs {
        if !has(repo, &needed).await {
            return Err(GitError::Failed(format!("the repository lacks the commit {needed}")));
        }
    }
    let (_aside, mut git) = storing(repo, scratch).await?;
    git.command.stdin(pack);
    git.text(&["index-pack", "--stdin", "--fix-thin"]).await?;
    refer(repo, reference, commit).await
}

/// Fetches a commit from a remote: by the reference `there`, else by its id, which some servers refuse.
/// Sets a reference of the repository to it.
///
/// # Errors
/// What git said last, or that the remote has no such commit.
pub async fn fetch(
    repo: &Path,
    scratch: &Path,
    url: &str,
    there: &str,
    (reference, commit): (&str, &str),
) -> Result<(), GitError> {
    let list = ["for-each-ref", TIPS, "--sort=-creatordate", "--format=%(objectname)"];
    let kinds = ["refs/heads", "refs/provost/bases"];
    let tips = git::run(repo, &[&list[..], &kinds].concat()).await?;
    let tips: Vec<String> = tips.lines().map(|tip| format!("--negotiation-tip={tip}")).collect();
    let mut failure = None;
    for what in [format!("+{there}:refs/there"), commit.to_owned()] {
        let (_aside, mut git) = storing(repo, scratch).await?;
        // A program that would ask for a password fails at once: the daemon has no terminal and no person
        // at it.
        git.command.env("SSH_ASKPASS", "false").env("SSH_ASKPASS_REQUIRE", "force");
        let mut args = vec!["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"];
        args.push("--recurse-submodules=no");
        args.extend(tips.iter().map(String::as_str));
        args.extend(["--", url, &what]);
        failure = git.text(&args).await.err().or(failure);
        if has(repo, commit).await {
            return refer(repo, reference, commit).await;
        }
    }
    let lacking = || GitError::Failed(format!("the remote has no commit {commit}"));
    Err(failure.unwrap_or_else(lacking))
}

/// Sets a reference to a commit, wherever it was.
pub async fn refer(repo: &Path, reference: &str, commit: &str) -> Result<(), GitError> {
    references::set(repo, reference, commit, None, "provost").await
}

/// Makes a bare repository, unless something is at the path. It is made beside the path and renamed, so
/// it appears complete or not at all, and attempts that begin at once share one.
pub async fn make_mirror(path: &Path, is_sha256: bool) -> Result<(), GitError> {
    let Some(folder) = path.parent().filter(|_| !path.exists()) else { return Ok(()) };
    tokio::fs::create_dir_all(folder).await?;
    let new = folder.join(format!("new-{}", uuid::Uuid::now_v7()));
    let format = if is_sha256 { "--object-format=sha256" } else { "--object-format=sha1" };
    let name = new.to_string_lossy();
    git::run(folder, &["init", "--quiet", "--bare", "--template=", format, &name]).await?;
    let moved = tokio::fs::rename(&new, path).await;
    if moved.is_err() && path.exists() {
        // Another attempt has made it first.
        return Ok(tokio::fs::remove_dir_all(&new).await?);
    }
    Ok(moved?)
}

/// git that stores objects in a repository durably, from a scratch repository. The scratch repository
/// goes when it is dropped.
async fn storing(repo: &Path, scratch: &Path) -> Result<(ScratchRepo, Git), GitError> {
    let common = git::common_dir(repo).await?;
    let aside = ScratchRepo::make(scratch, &common).await?;
    let mut git = aside.git(aside.path()).patient();
    git.command.args(["-c", "core.fsync=all"]);
    git.command.env("GIT_OBJECT_DIRECTORY", common.join("objects"));
    Ok((aside, git))
}

/// The commits that a bundle builds on, and its file, positioned where the pack begins: after the first
/// empty line (gitformat-bundle(5)). Blocking.
fn opened(file: &Path) -> io::Result<(Vec<String>, File)> {
    let mut reader = BufReader::new(File::open(file)?);
    let (mut at, mut needs, mut line) = (0, Vec::new(), Vec::new());
    loop {
        line.clear();
        at += reader.read_until(b'\n', &mut line)? as u64;
        match &line[..] {
            b"\n" => break,
            [] => return Err(io::Error::other("the bundle has no end of its header")),
            [b'-', rest @ ..] => needs.push(commit_of(rest)?),
            _ => {}
        }
    }
    let mut file = reader.into_inner();
    file.seek(SeekFrom::Start(at))?;
    Ok((needs, file))
}

/// The commit in a `-` line of a bundle's header, after the sign.
fn commit_of(line: &[u8]) -> io::Result<String> {
    let name = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    let is_name = !name.is_empty() && name.iter().all(u8::is_ascii_hexdigit);
    is_name
        .then(|| String::from_utf8_lossy(name).into_owned())
        .ok_or_else(|| io::Error::other("the bundle names no commit that it builds on"))
}

/// The SHA-256 of a file, in hexadecimal digits, and its length. Blocking.
pub fn digest(file: &Path) -> io::Result<(String, u64)> {
    let mut hash = Sha256::new();
    let bytes = parts(file)?.try_fold(0, |bytes, part| {
        let part = part?;
        hash.update(&part);
        Ok::<_, io::Error>(bytes + part.len() as u64)
    })?;
    Ok((crate::text::hex(&hash.finalize()), bytes))
}

/// The content of a file in parts of [`PART`] bytes, the last one shorter. Blocking.
pub fn parts(file: &Path) -> io::Result<impl Iterator<Item = io::Result<Vec<u8>>> + use<>> {
    let mut file = File::open(file)?;
    Ok(std::iter::from_fn(move || {
        let mut part = Vec::new();
        match (&mut file).take(PART as u64).read_to_end(&mut part) {
            Ok(0) => None,
            Ok(_) => Some(Ok(part)),
            Err(error) => Some(Err(error)),
        }
    }))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    async fn git(dir: &Path, args: &[&str]) -> String {
        git::run(dir, args).await.unwrap()
    }

    async fn repository(dir: &Path) -> PathBuf {
        let repo = dir.join("repo");
        std::fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "--quiet", "--initial-branch=main"]).await;
        for (key, value) in [("user.name", "t"), ("user.email", "t@localhost")] {
            git(&repo, &["config", key, value]).await;
        }
        for text in ["one", "two"] {
            std::fs::write(repo.join("a"), text).unwrap();
            git(&repo, &["add", "--all"]).await;
            git(&repo, &["commit", "--quiet", "-m", text]).await;
        }
        repo
    }

    #[tokio::test]
    async fn a_history_goes_by_a_chain_of_bundles_or_by_a_remote_into_a_mirror() {
        let dir = tempfile::tempdir().unwrap();
        let repo = repository(dir.path()).await;
        let (scratch, mirror) = (dir.path().join("scratch"), dir.path().join("mirrors/m.git"));
        make_mirror(&mirror, false).await.unwrap();
        make_mirror(&mirror, false).await.unwrap();
        assert_eq!(std::fs::read_dir(dir.path().join("mirrors")).unwrap().count(), 1);
        let (first, second) =
            (git(&repo, &["rev-parse", "main~1"]).await, git(&repo, &["rev-parse", "main"]).await);
        git(&repo, &["branch", "first", &first]).await;
        let files = [dir.path().join("1"), dir.path().join("2")];
        write(&repo, &files[0], "refs/heads/first", None).await.unwrap();
        write(&repo, &files[1], "refs/heads/main", Some(&first)).await.unwrap();
        let bases = [base_reference(&first), base_reference(&second)];
        take_in(&mirror, &scratch, &files[1], (&bases[1], &second)).await.unwrap_err();
        take_in(&mirror, &scratch, &files[0], (&bases[0], &first)).await.unwrap();
        assert!(has(&mirror, &first).await && !has(&mirror, &second).await);
        take_in(&mirror, &scratch, &files[1], (&bases[1], &second)).await.unwrap();
        assert_eq!(git(&mirror, &["cat-file", "-p", &format!("{second}:a")]).await, "two");

        let other = dir.path().join("other.git");
        make_mirror(&other, false).await.unwrap();
        let url = repo.to_string_lossy();
        let gone = (bases[0].as_str(), &*"0".repeat(40));
        fetch(&other, &scratch, &url, "refs/heads/gone", gone).await.unwrap_err();
        let there = (bases[0].as_str(), &*first);
        fetch(&other, &scratch, &url, "refs/heads/main", there).await.unwrap();
        assert_eq!(git(&other, &["rev-parse", &bases[0]]).await, first);
    }

    #[test]
    fn a_file_is_read_in_parts_whose_hash_is_that_of_the_whole() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        let content = vec![7; PART + 1];
        std::fs::write(&file, &content).unwrap();
        let read: Vec<Vec<u8>> = parts(&file).unwrap().map(Result::unwrap).collect();
        assert_eq!((read.len(), read.concat() == content), (2, true));
        let (hash, bytes) = digest(&file).unwrap();
        assert_eq!(
            (hash, bytes),
            (crate::text::hex(&Sha256::digest(&content)), content.len() as u64)
        );
    }
}
