//! What changed from one commit to another, in the same form and within the same limits as what changed
//! in a worktree ([`snapshot`](super::snapshot)). git reads the commits from a scratch repository, so
//! nothing runs that the repository configures.

use std::collections::HashMap;
use std::io::{Seek, Write};

use super::changes::{self, Change, Status};
use super::git::{self, Git};
use super::scratch_repo::ScratchRepo;
use super::snapshot::limits::FILE_MAX;
use super::snapshot::{LISTING_MAX, SnapshotError, diff, patch, whole};
use super::source::Source;
use crate::blocking::blocking;

/// Two commits of a repository, and the scratch repository in which git compares them.
pub struct Between {
    aside: ScratchRepo,
    pub from: String,
    pub to: String,
}

impl Between {
    /// Needs no worktree: an attempt's may be gone. The commits are not looked for before the first
    /// comparison, which fails if the repository lacks one.
    pub async fn open(source: &Source, from: &str, to: &str) -> Result<Self, SnapshotError> {
        let repo = &source.repo;
        let common = git::common_dir(repo)
            .await
            .map_err(|why| SnapshotError::Repository { repo: repo.clone(), why })?;
        let aside = ScratchRepo::make(&source.scratch, &common).await?;
        Ok(Self { aside, from: from.to_owned(), to: to.to_owned() })
    }

    /// Everything that differs, sorted by path. Renames are found as in a worktree.
    ///
    /// # Errors
    /// git fails, or lists more than `LISTING_MAX` bytes.
    pub async fn changes(&self) -> Result<Vec<Change>, SnapshotError> {
        let raw = self.diff(&["-z", "--raw", "--no-abbrev", "--no-renames"]).await?;
        let sizes = self.sizes(&raw).await?;
        let counted = self.diff(&["-z", "--raw", "--numstat", "--find-renames"]).await?;
        let mut changes = changes::parse(&counted).ok_or(SnapshotError::Unreadable)?;
        for change in changes.iter_mut().filter(|change| change.status != Status::Deleted) {
            change.bytes = sizes.get(&change.path).copied().unwrap_or_default();
            // git takes larger files for binary ones (`core.bigFileThreshold`), and counts no lines.
            change.is_read = change.bytes <= FILE_MAX;
        }
        Ok(changes)
    }

    /// The patch of these paths; `None`: it is longer than `limit` bytes. See
    /// [`super::snapshot::Snapshot::patch`].
    pub async fn patch(
        &self,
        paths: &[Vec<u8>],
        below: Option<&str>,
        limit: usize,
    ) -> Result<Option<String>, SnapshotError> {
        let args = patch::args(&[&self.from, &self.to], paths, below);
        patch::text(&self.aside, || self.git(), &args, limit).await
    }

    /// The output of `git diff` between the two commits.
    async fn diff(&self, options: &[&str]) -> Result<Vec<u8>, SnapshotError> {
        let mut args = diff(options);
        args.extend([self.from.clone().into(), self.to.clone().into(), "--".into()]);
        whole(self.git().output(&args, LISTING_MAX).await?)
    }

    /// The sizes of the new files, by path. `raw` is a listing with whole ids, without renames.
    async fn sizes(&self, raw: &[u8]) -> Result<HashMap<Vec<u8>, u64>, SnapshotError> {
        let new = new_files(raw).ok_or(SnapshotError::Unreadable)?;
        let mut input: Vec<u8> = Vec::new();
        for (id, _) in &new {
            input.extend_from_slice(id);
            input.push(b'\n');
        }
        let folder = self.aside.path().to_owned();
        let stdin = blocking(move || {
            let mut file = tempfile::tempfile_in(folder)?;
            file.write_all(&input)?;
            file.rewind().map(|()| file)
        });
        let mut git = self.git();
        git.command.stdin(stdin.await?);
        let args = ["cat-file", "--batch-check=%(objectsize)"];
        let listed = whole(git.output(&args, LISTING_MAX).await?)?;
        // The commit of a submodule is no object of this repository: git answers "missing".
        let size = |line: &[u8]| -> Option<u64> { std::str::from_utf8(line).ok()?.parse().ok() };
        let sizes = listed.split(|byte| *byte == b'\n').map(|line| size(line).unwrap_or_default());
        Ok(new.into_iter().map(|(_, path)| path.to_vec()).zip(sizes).collect())
    }

    /// git in the scratch repository. It reads no file of configuration: the settings that count are
    /// given as options.
    pub(super) fn git(&self) -> Git {
        let mut git = self.aside.git(self.aside.path());
        // A snapshot of a worktree reads the attributes in the worktree too: those of the new side.
        git.command.env("GIT_ATTR_SOURCE", &self.to);
        git.command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        git
    }
}

/// The ids and paths of the files that are there after the change. `None`: it is no listing.
fn new_files(raw: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut fields = raw.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    let mut found = Vec::new();
    // `:100644 100644 <old id> <new id> M`, and the path.
    while let Some(head) = fields.next() {
        let id = head.strip_prefix(b":")?.split(|byte| *byte == b' ').nth(3)?;
        let path = fields.next()?;
        if id.iter().any(|digit| *digit != b'0') {
            found.push((id, path));
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::workspace::snapshot::tests::Scene;

    /// Commits what the worktree has; returns the commit.
    fn commit(scene: &Scene, message: &str) -> String {
        scene.git(&["add", "--all"]);
        scene.git(&["commit", "--quiet", "--allow-empty", "--message", message]);
        scene.take_over();
        scene.git(&["rev-parse", "HEAD"])
    }

    fn to_rows(changes: &[Change]) -> Vec<(String, Status, u64, u64, u64)> {
        let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        let rows = changes.iter();
        rows.map(|c| (shown(&c.path), c.status, c.added, c.deleted, c.bytes)).collect()
    }

    #[test]
    fn the_changes_from_one_commit_to_another_are_counted_and_applied() {
        let long = "line\n".repeat(50);
        let scene = Scene::new(&[
            (b"edited", b"a\nb\n"),
            (b"gone", b"x\n"),
            (b"old name", long.as_bytes()),
            (b"same", b"same\n"),
        ]);
        let from = commit(&scene, "from");
        scene.write("edited", "a\nc\nd\n");
        fs::remove_file(scene.worktree().join("gone")).unwrap();
        fs::rename(scene.worktree().join("old name"), scene.worktree().join("new\nname")).unwrap();
        scene.write("binary", b"\0\xff");
        scene.write("latin", b"caf\xe9\n");
        let to = commit(&scene, "to");
        // What comes later does not count.
        scene.write("edited", "later\n");
        let between = Between::open(&scene.source, &from, &to);
        let between = scene.runtime.block_on(between).unwrap();
        let changes = scene.runtime.block_on(between.changes()).unwrap();
        let expected = [
            ("binary", Status::Added, 0, 0, 2),
            ("edited", Status::Modified, 2, 1, 6),
            ("gone", Status::Deleted, 0, 1, 0),
            ("latin", Status::Added, 1, 0, 5),
            ("new\nname", Status::Renamed, 0, 0, 250),
        ];
        let expected = expected.map(|(path, s, a, d, b)| (path.to_owned(), s, a, d, b));
        assert_eq!(to_rows(&changes), expected);
        assert!(changes.iter().all(|change| change.is_read));

        let paths: Vec<Vec<u8>> =
            changes.iter().flat_map(|change| change.paths().map(<[u8]>::to_vec)).collect();
        let patch = |limit| scene.runtime.block_on(between.patch(&paths, None, limit)).unwrap();
        assert_eq!(patch(10), None);
        let file = scene.scratch.path().join("patch");
        fs::write(&file, patch(1 << 20).unwrap()).unwrap();
        scene.git(&["checkout", "--quiet", "--force", "--detach", &from]);
        scene.git(&["apply", "--index", file.to_str().unwrap()]);
        let tree = scene.git(&["rev-parse", &format!("{to}^{{tree}}")]);
        assert_eq!(scene.git(&["write-tree"]), tree);
    }

    #[test]
    fn nothing_that_the_repository_configures_runs() {
        let scene = Scene::new(&[(b"a", b"a\n")]);
        let ran = scene.scratch.path().join("ran");
        let touch = format!("touch {}", ran.display());
        for key in ["diff.external", "diff.x.command", "diff.x.textconv", "filter.x.smudge"] {
            scene.git(&["config", key, &touch]);
        }
        let from = commit(&scene, "from");
        scene.write(".gitattributes", "* diff=x filter=x\n");
        scene.write("a", "b\n");
        let to = commit(&scene, "to");
        let between = scene.runtime.block_on(Between::open(&scene.source, &from, &to)).unwrap();
        assert_eq!(scene.runtime.block_on(between.changes()).unwrap().len(), 2);
        let paths = [b"a".to_vec()];
        let patch = scene.runtime.block_on(between.patch(&paths, None, 1 << 20)).unwrap().unwrap();
        assert!(patch.contains("-a\n+b\n"), "{patch}");
        assert!(!ran.exists());
    }
}
