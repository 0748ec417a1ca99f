//! Whether the work of two sides would merge, for the radar. Only objects are written: the merged trees.

use std::collections::BTreeSet;
use std::path::Path;

use super::git::{Git, GitError};
use super::merge::trees::Trees;
use super::parting::{History, part};

/// Most bytes of the names of the files that a side has changed; more is an error.
const NAMES_MAX: usize = 64 << 20;

/// The result of a merge that is only computed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// The merged tree, with markers in the files in conflict. Empty: the two sides changed no common
    /// file, so nothing was merged.
    pub tree: String,
    /// The files in conflict; none: the sides merge.
    pub paths: Vec<String>,
}

/// One side: a commit, and since which commit its changes count.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    pub base: &'a str,
    pub commit: &'a str,
    /// What is on record of the work; `None`: this side is a target branch.
    pub history: Option<&'a History>,
}

/// Merges the changes of `theirs` into `ours`, if both changed a common file. `attributes` is the commit
/// whose `.gitattributes` count. A target must be `ours`.
///
/// # Errors
/// git fails, or the two have no commit in common.
pub async fn probe(
    repo: &Path,
    scratch: &Path,
    attributes: &str,
    [ours, theirs]: [Side<'_>; 2],
) -> Result<Probed, GitError> {
    let touched = tokio::try_join!(touched(repo, ours), touched(repo, theirs))?;
    if !meet(&touched.0, &touched.1) {
        return Ok(Probed::default());
    }
    let Some(base) = parted(repo, ours, theirs).await? else {
        let message = format!("{} and {} share no commit", ours.commit, theirs.commit);
        return Err(GitError::Failed(message));
    };
    let trees = Trees::open(repo, scratch, attributes).await?;
    let report = trees.merge(&base, ours.commit, theirs.commit).await?;
    let paths = report.conflicts.into_iter().map(|conflict| conflict.path).collect();
    Ok(Probed { tree: report.tree, paths })
}

/// The commit where the two sides part. Either side may have what was merged of the other one, so the
/// record of `theirs` is tried first, then that of `ours`.
async fn parted(repo: &Path, ours: Side<'_>, theirs: Side<'_>) -> Result<Option<String>, GitError> {
    let landings = |side: Side<'_>| side.history.map(History::of_landings).unwrap_or_default();
    let history = match ours.history {
        // Only against a target does the commit count from which the work began.
        None => theirs.history.cloned().unwrap_or_default(),
        Some(_) => landings(theirs),
    };
    let mut parting = part(repo, Some(ours.commit), theirs.commit, &history).await?;
    let turned = landings(ours);
    let has_landed = parting.as_ref().is_some_and(|it| it.landed.is_some());
    if !has_landed && !turned.landings.is_empty() {
        parting = part(repo, Some(theirs.commit), ours.commit, &turned).await?;
    }
    Ok(parting.map(|parting| parting.base))
}

type Paths = BTreeSet<Vec<u8>>;

/// The files that differ between the two commits of a side.
async fn touched(repo: &Path, side: Side<'_>) -> Result<Paths, GitError> {
    let args = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", side.base, side.commit];
    let output = Git::new(repo).output(&args, NAMES_MAX).await?;
    if output.is_cut || !output.status.success() {
        return Err(output.failure());
    }
    let paths = output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Ok(paths.map(<[u8]>::to_vec).collect())
}

/// Whether a file is changed on both sides, or is changed on one side where the other has a folder.
fn meet(one: &Paths, other: &Paths) -> bool {
    let is_in = |path: &Vec<u8>, of: &Paths| {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        of.contains(path) || ends.into_iter().any(|end| of.contains(&path[..end]))
    };
    one.iter().any(|path| is_in(path, other)) || other.iter().any(|path| is_in(path, one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::snapshot::tests::Scene;

    #[test]
    fn conflicts_are_found_by_the_attributes_of_the_target_and_nothing_is_changed() {
        let scene = Scene::new(&[
            (b"a", b"a\n"),
            (b"b", b"b\n"),
            (b"list", b""),
            (b".gitattributes", b"list merge=union\n"),
        ]);
        let commit = |name: &str, files: &[(&str, &str)]| {
            scene.git(&["checkout", "--quiet", "--force", "-B", name, "main"]);
            for (path, text) in files {
                scene.write(path, text);
            }
            scene.git(&["add", "--all"]);
            scene.git(&["commit", "--quiet", "--message=changed"]);
            scene.take_over();
            scene.git(&["rev-parse", "HEAD"])
        };
        let one = commit("t0", &[("a", "x\n"), ("list", "one\n")]);
        // It would hide its conflicts.
        let other =
            commit("t1", &[("a", "y\n"), ("list", "two\n"), (".gitattributes", "* merge=union\n")]);
        let apart = commit("t2", &[("b", "z\n")]);
        let nested = commit("t3", &[("new", "file\n")]);
        let folder = commit("t4", &[("new/file", "file\n")]);
        let main = scene.git_in_repo(&["rev-parse", "main"]);
        let refs = scene.git(&["for-each-ref"]);
        let run = |one: &str, other: &str| {
            let none = History::default();
            let history = Some(&none);
            let sides = [one, other].map(|commit| Side { base: &main, commit, history });
            let found = probe(&scene.source.repo, &scene.source.scratch, &main, sides);
            scene.runtime.block_on(found)
        };
        for (one, other) in [(&one, &other), (&other, &one)] {
            let found = run(one, other).unwrap();
            assert_eq!(found.paths, ["a"]);
            let marked = scene.git_in_repo(&["show", &format!("{}:a", found.tree)]);
            assert!(marked.starts_with("<<<<<<<"), "{marked}");
        }
        assert_eq!(run(&one, &apart).unwrap(), Probed::default(), "no file in common");
        assert_eq!(run(&nested, &folder).unwrap().paths.len(), 1, "a file and a folder");
        assert!(run(&one, &"1".repeat(40)).is_err());
        assert_eq!(scene.git(&["for-each-ref"]), refs);
    }
}
