//! Whether commits would merge with another one. Only objects are written: the merged trees.

use std::io::{Seek, Write};
use std::path::Path;

use super::aside::Aside;
use super::git::{self, GitError};
use crate::blocking::blocking;

/// The result of a merge that is only computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// With conflict markers in the files in conflict.
    pub tree: String,
    /// Those in conflict; none: it merges.
    pub paths: Vec<String>,
}

/// Merges a commit with each of the others, all in one run of git (2.39 or later).
pub async fn probe(
    repo: &Path,
    scratch: &Path,
    commit: &str,
    others: &[String],
) -> Result<Vec<Probed>, GitError> {
    let common = git::common_dir(repo).await?;
    let aside = Aside::make(scratch, &common).await?;
    let lines = others.iter().map(|other| format!("{commit} {other}\n"));
    let (input, folder) = (lines.collect::<String>(), aside.path().to_owned());
    let stdin = blocking(move || {
        let mut file = tempfile::tempfile_in(folder)?;
        file.write_all(input.as_bytes())?;
        file.rewind().map(|()| file)
    });
    let mut git = aside.git(aside.path()).patient();
    let objects = common.join("objects");
    git.command
        .env("GIT_OBJECT_DIRECTORY", objects)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_ATTR_SOURCE", commit)
        .stdin(stdin.await.map_err(GitError::Prepare)?);
    let options = ["--stdin", "--name-only", "--no-messages", "--allow-unrelated-histories"];
    let args = [&["merge-tree", "--write-tree"], &options[..]].concat();
    let output = git.output(&args, usize::MAX).await?;
    if !output.status.success() {
        return Err(output.failure());
    }
    let strange = || GitError::Failed("git merge-tree speaks differently".to_owned());
    parse(&output.stdout).filter(|found| found.len() == others.len()).ok_or_else(strange)
}

/// Reads what `git merge-tree --stdin --name-only --no-messages` says: for each merge whether it
/// is clean, the tree, and the files in conflict, each with a NUL after it, and one more NUL.
fn parse(said: &[u8]) -> Option<Vec<Probed>> {
    let text = String::from_utf8_lossy(said);
    let mut fields = text.split('\0');
    let mut found = Vec::new();
    while let Some(is_clean) = fields.next().filter(|field| !field.is_empty()) {
        if !matches!(is_clean, "0" | "1") {
            return None;
        }
        let tree = fields.next()?.to_owned();
        let paths: Vec<String> =
            fields.by_ref().take_while(|path| !path.is_empty()).map(str::to_owned).collect();
        found.push(Probed { tree, paths });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::snapshot::tests::Scene;

    #[test]
    fn conflicts_are_found_and_nothing_is_changed() {
        let scene = Scene::new(&[(b"a", b"a\n"), (b"b", b"b\n")]);
        let mut commits = Vec::new();
        for (n, (path, text)) in [("a", "x\n"), ("a", "y\n"), ("b", "z\n")].into_iter().enumerate()
        {
            scene.git(&["checkout", "--quiet", "--force", "-B", &format!("t{n}"), "main"]);
            scene.write(path, text);
            scene.git(&["commit", "--quiet", "--all", "--message=changed"]);
            commits.push(scene.git(&["rev-parse", "HEAD"]));
        }
        let refs = scene.git(&["for-each-ref"]);
        let found = probe(&scene.source.repo, &scene.source.scratch, &commits[0], &commits[1..]);
        let found = scene.runtime.block_on(found).unwrap();
        assert_eq!(found[0].paths, ["a"]);
        assert_eq!(found[1].paths, [""; 0]);
        let merged = scene.git(&["show", &format!("{}:b", found[1].tree)]);
        assert_eq!(merged, "z");
        let marked = scene.git(&["show", &format!("{}:a", found[0].tree)]);
        assert!(marked.starts_with("<<<<<<<"), "{marked}");
        assert_eq!(scene.git(&["for-each-ref"]), refs);
        let none = probe(&scene.source.repo, &scene.source.scratch, &commits[0], &[]);
        assert_eq!(scene.runtime.block_on(none).unwrap(), []);
    }

    #[test]
    fn what_git_says_is_read_or_refused() {
        let read = parse(b"0\0t1\0a\0b c\0\x001\0t2\0\0").unwrap();
        let probed = |tree: &str, paths: &[&str]| Probed {
            tree: tree.to_owned(),
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        };
        assert_eq!(read, [probed("t1", &["a", "b c"]), probed("t2", &[])]);
        assert_eq!(parse(b""), Some(vec![]));
        assert_eq!(parse(b"2\0t\0\0"), None);
    }
}
