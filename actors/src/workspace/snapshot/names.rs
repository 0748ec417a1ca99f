//! The names that a snapshot's index gets beside those of the commit: files that were staged, files that
//! git does not know yet, and other repositories in the worktree.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use super::{LISTING_MAX, Snapshot, SnapshotError, whole};
use crate::workspace::own::held;
use crate::workspace::source::Source;

impl Snapshot {
    /// Adds the names of files that only the agent's own index has (`git add --force`, say): git might
    /// ignore them otherwise. Also notes the files with a conflict.
    pub(super) async fn add_staged(
        &mut self,
        source: &Source,
        common: &Path,
    ) -> Result<(), SnapshotError> {
        let held = held::held(&source.own, common, &source.worktree()).await?;
        let list = ["diff-index", "--cached", "--diff-filter=AU", "--raw", "-z", "HEAD", "--"];
        let output = held::git(&source.own, held.as_ref()).output(&list, LISTING_MAX).await?;
        // git fails for an index that it can't read, and for a branch without a commit: nothing is added.
        if output.status.success() && !output.is_cut {
            let fields: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
            // `:000000 100644 <old> <new> A`, and the path.
            let entries = fields.as_chunks::<2>().0.iter();
            // The commits of other repositories are read from those, by `add_untracked`.
            let entries = entries.filter(|[about, _]| about.get(8..14) != Some(b"160000"));
            let (added, unmerged): (Vec<_>, Vec<_>) =
                entries.partition(|[about, _]| about.ends_with(b"A"));
            let names = |of: Vec<&[&[u8]; 2]>| of.iter().map(|[_, path]| path.to_vec()).collect();
            self.unmerged = names(unmerged);
            self.add_names(names(added)).await?;
        }
        Ok(())
    }

    /// Adds files to the index, whose content git is to read from the worktree.
    async fn add_names(&mut self, names: Vec<Vec<u8>>) -> Result<(), SnapshotError> {
        let mut entries = Vec::new();
        for path in names {
            // Any object will do: git compares the file of an entry that has no times.
            entries.extend([b"100644 ", self.base.as_bytes(), b"\t", &path, b"\0"].concat());
            self.untracked.insert(path);
        }
        if entries.is_empty() {
            return Ok(());
        }
        let options = ["--add", "--replace", "-z", "--index-info"];
        self.update_index(self.run(), &options, entries).await
    }

    /// Adds the names of untracked files to the index, and notes other repositories and an unreadable
    /// folder. `git add` would run git in each submodule, and so what its configuration says; here it
    /// only adds the commits of new repositories.
    pub(super) async fn add_untracked(&mut self) -> Result<(), SnapshotError> {
        let list = ["ls-files", "--others", "--exclude-standard", "-z"];
        let output = self.run().output(&list, LISTING_MAX).await?;
        self.unreadable = output.stderr.lines().find_map(|line| {
            let (_, rest) = line.split_once("could not open directory '")?;
            Some(rest.split_once('\'')?.0.trim_end_matches('/').to_owned())
        });
        let listed = whole(output)?;
        let paths = listed.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        let (nested, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.ends_with(b"/"));
        let files = files.into_iter().map(<[u8]>::to_vec).collect();
        self.nested = nested.iter().map(|path| path.to_vec()).collect();
        let nested = self.nested.clone();
        self.add_names(files).await?;
        if nested.is_empty() {
            return Ok(());
        }
        let add = ["add", "--intent-to-add", "--ignore-errors", "--"].map(OsString::from);
        let nested = nested.into_iter().map(OsString::from_vec);
        let added = self
            .run()
            .output(&add.into_iter().chain(nested).collect::<Vec<_>>(), usize::MAX)
            .await?;
        match added.status.code() {
            // 1: a repository has no commit yet, so git can't add it.
            Some(0 | 1) => Ok(()),
            _ => Err(added.failure().into()),
        }
    }

    /// The submodules whose commit differs from the base's, with the new commit. Call it once the files
    /// are in the index.
    pub(in crate::workspace) async fn moved_submodules(
        &self,
    ) -> Result<Vec<(Vec<u8>, String)>, SnapshotError> {
        let list = ["diff-index", "--cached", "--raw", "--no-renames", "-z", &*self.base, "--"];
        let listed = self.listing(&list).await?;
        let fields: Vec<&[u8]> = listed.split(|byte| *byte == 0).collect();
        let links = fields.as_chunks::<2>().0.iter();
        // `:<mode> 160000 <old> <new> M`, and the path.
        let links = links.filter(|[about, _]| about.get(8..14) == Some(b"160000"));
        let commit = |about: &[u8]| {
            let about = String::from_utf8_lossy(about).into_owned();
            Some(about.split(' ').nth(3)?.to_owned())
        };
        Ok(links.filter_map(|[about, path]| Some((path.to_vec(), commit(about)?))).collect())
    }

    /// The paths of other repositories in the worktree: submodules, and those that git does not know yet.
    pub(in crate::workspace) async fn repositories(&self) -> Result<Vec<Vec<u8>>, SnapshotError> {
        let listed = self.listing(&["ls-files", "--stage", "-z"]).await?;
        let links = listed.split(|byte| *byte == 0).filter(|line| line.starts_with(b"160000 "));
        let path = |line: &[u8]| {
            let at = line.iter().position(|byte| *byte == b'\t')?;
            Some(line[at + 1..].to_vec())
        };
        Ok(links.filter_map(path).chain(self.nested.iter().cloned()).collect())
    }
}
