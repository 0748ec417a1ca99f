//! What changed, read from `git diff --raw --numstat -z`, and which changes can only be applied together.
//! Pure.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

/// The kind of a change, from git's letters. A file that became a link, or has a conflict, is `Modified`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Added,
    Modified,
    Deleted,
    Renamed,
}

/// One changed file, or the commit of a submodule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its path in the repository, as bytes: git prescribes no encoding. Of a deleted file, its former
    /// path.
    pub path: Vec<u8>,
    /// Of a renamed file, its former path.
    pub old_path: Option<Vec<u8>>,
    pub status: Status,
    /// Lines; 0 for a binary file and for one that is not read.
    pub added: u64,
    /// Lines, as for `added`.
    pub deleted: u64,
    /// The size of the new file; 0 when it is deleted. [`parse`] leaves it 0.
    pub bytes: u64,
    /// Whether git read the content: the file is within the limits, so its lines were counted.
    pub is_read: bool,
}

impl Change {
    /// The new path, and the old one of a rename.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.path).chain(&self.old_path).map(Vec::as_slice)
    }
}

/// Reads git-diff(1)'s raw output and, after it, the numstat, both with `-z`. Sorted by path, each path
/// once. `None`: the output is not as git's manual says.
pub fn parse(listing: &[u8]) -> Option<Vec<Change>> {
    let mut fields = listing.split(|byte| *byte == 0).peekable();
    let mut changes = Vec::new();
    while let Some(head) = fields.next_if(|field| field.starts_with(b":")) {
        let status = head.rsplit(|byte| *byte == b' ').next().and_then(<[u8]>::first);
        let path = fields.next()?.to_vec();
        let (status, path, old_path) = match status {
            Some(b'A') => (Status::Added, path, None),
            Some(b'D') => (Status::Deleted, path, None),
            // T: the type changed, from a file to a link, say. U: unmerged, by a merge under way.
            Some(b'M' | b'T' | b'U') => (Status::Modified, path, None),
            Some(b'R') => {
                let new = fields.next()?.to_vec();
                (Status::Renamed, new, Some(path))
            }
            _ => return None,
        };
        let (added, deleted, bytes) = (0, 0, 0);
        changes.push(Change { path, old_path, status, added, deleted, bytes, is_read: true });
    }
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    changes.dedup_by(|one, other| one.path == other.path);
    while let Some(head) = fields.next().filter(|field| !field.is_empty()) {
        let mut parts = head.splitn(3, |byte| *byte == b'\t');
        let (added, deleted) = (parts.next(), parts.next());
        let path = match parts.next()? {
            // A rename: the path is empty, and the old and the new one follow as fields of their own.
            b"" => fields.nth(1)?,
            path => path,
        };
        let at = changes.binary_search_by(|change| change.path.as_slice().cmp(path));
        let change = &mut changes[at.ok()?];
        change.added = count(added)?;
        change.deleted = count(deleted)?;
    }
    Some(changes)
}

/// A number of lines; git writes `-` for a binary file.
fn count(field: Option<&[u8]>) -> Option<u64> {
    let text = std::str::from_utf8(field?).ok()?;
    if text == "-" { Some(0) } else { text.parse().ok() }
}

/// The index of the change that a path names, by its new path, else by its old one. `changes` are sorted,
/// as [`parse`] returns them.
pub fn find(changes: &[Change], path: &[u8]) -> Option<usize> {
    let by_new = changes.binary_search_by(|change| change.path.as_slice().cmp(path));
    by_new.ok().or_else(|| changes.iter().position(|c| c.old_path.as_deref() == Some(path)))
}

/// Which changes can only be applied together: the two sides of a rename, and a file with the files in a
/// folder of the same name (one was replaced by the other).
pub struct Groups<'c> {
    /// By change: for each of its paths, the topmost changed path that is the path itself or a folder
    /// above it.
    roots: Vec<Vec<&'c [u8]>>,
    /// The other direction: the changes that have a root.
    members: HashMap<&'c [u8], Vec<usize>>,
}

impl<'c> Groups<'c> {
    /// Groups these changes; the indexes below are into this slice.
    pub fn of(changes: &'c [Change]) -> Self {
        let all: HashSet<&[u8]> = changes.iter().flat_map(Change::paths).collect();
        let roots_of = |change: &'c Change| change.paths().map(|path| root(path, &all)).collect();
        let roots: Vec<Vec<&[u8]>> = changes.iter().map(roots_of).collect();
        let mut members: HashMap<&[u8], Vec<usize>> = HashMap::new();
        for (index, roots) in roots.iter().enumerate() {
            for root in roots {
                members.entry(root).or_default().push(index);
            }
        }
        Self { roots, members }
    }

    /// A change, and all that must be applied with it: those that share a root, and so on.
    pub fn with(&self, index: usize) -> BTreeSet<usize> {
        let mut group = BTreeSet::new();
        let mut open = vec![index];
        while let Some(index) = open.pop() {
            if group.insert(index) {
                let roots = self.roots[index].iter();
                open.extend(roots.filter_map(|root| self.members.get(root)).flatten());
            }
        }
        group
    }
}

/// The topmost changed path that is this path or a folder above it.
fn root<'p>(path: &'p [u8], all: &HashSet<&[u8]>) -> &'p [u8] {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let mut folders = slashes.map(|(at, _)| &path[..at]);
    folders.find(|folder| all.contains(folder)).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn change(path: &str, old_path: Option<&str>) -> Change {
        Change {
            path: path.into(),
            old_path: old_path.map(Into::into),
            status: if old_path.is_some() { Status::Renamed } else { Status::Modified },
            added: 0,
            deleted: 0,
            bytes: 0,
            is_read: true,
        }
    }

    #[test]
    fn a_listing_is_read_whatever_the_names_are() {
        let listing = b":100644 100644 a b M\0x\ty\0:100644 100644 a a R100\0old\0new\nline\0\
            :000000 100644 0 a A\0\xff\0:100644 000000 a 0 D\0:colon\0:100644 120000 a b T\0t\0\
            2\t1\tx\ty\x000\t0\t\0old\0new\nline\0-\t-\t\xff\x000\t7\t:colon\x001\t1\tt\0";
        let read: Vec<_> = parse(listing)
            .unwrap()
            .into_iter()
            .map(|c| (String::from_utf8_lossy(&c.path).into_owned(), c.status, c.added, c.deleted))
            .collect();
        let expected = [
            (":colon", Status::Deleted, 0, 7),
            ("new\nline", Status::Renamed, 0, 0),
            ("t", Status::Modified, 1, 1),
            ("x\ty", Status::Modified, 2, 1),
            ("\u{fffd}", Status::Added, 0, 0),
        ];
        let expected: Vec<_> = expected.map(|(p, s, a, d)| (p.to_owned(), s, a, d)).into();
        assert_eq!(read, expected);
        assert!(parse(b"").unwrap().is_empty());
        assert!(parse(b":100644 100644 a b").is_none());
    }

    #[test]
    fn what_stands_in_each_others_way_goes_together() {
        let changes = [
            change("a", None),
            change("d", None),
            change("d-x", None),
            change("d/x", Some("from")),
            change("d/y/z", None),
            change("from/deep", None),
        ];
        let groups = Groups::of(&changes);
        let with = |index| groups.with(index).into_iter().collect::<Vec<_>>();
        assert_eq!(with(0), [0]);
        assert_eq!(with(2), [2]);
        for index in [1, 3, 4, 5] {
            assert_eq!(with(index), [1, 3, 4, 5]);
        }
        assert_eq!(find(&changes, b"from"), Some(3));
        assert_eq!(find(&changes, b"d-x"), Some(2));
        assert_eq!(find(&changes, b"elsewhere"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
