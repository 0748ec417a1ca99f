//! The files that a switch between two commits concerns, and what lies at their paths.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::blocking::if_there;

/// A file that differs between the two commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concerned {
    pub path: OsString,
    /// Its mode and object in the old commit, as in git's lists; zeros where it does not exist, see
    /// [`is_there`].
    pub from: String,
    /// The same in the new commit.
    pub to: String,
}

/// What lies at the path of such a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The file as the old commit has it.
    From,
    /// The file as the new commit has it.
    To,
    /// Nothing, or something that the switch replaces anyway.
    Absent,
    /// The beginning of a file that git was writing when it was killed.
    Unfinished,
    /// Another file: not decided yet, see [`decide`].
    Different,
    /// A folder with concerned files only: not decided yet.
    Folder,
    /// Something of a person's, which stays.
    Foreign,
}

/// Whether a side has the file at all: git's lists have zeros for the mode otherwise.
pub fn is_there(what: &str) -> bool {
    !what.starts_with("000000")
}

/// Whether it is a submodule, whose files git leaves alone in a switch.
fn is_submodule(what: &str) -> bool {
    what.starts_with("160000")
}

/// The paths of a list in which a NUL ends each.
pub fn names(list: &[u8]) -> impl Iterator<Item = &OsStr> {
    list.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(OsStr::from_bytes)
}

/// Reads `git diff-tree -z --raw`: `:100644 100644 <old id> <new id> M`, and the path.
pub fn concerned(raw: &[u8]) -> Vec<Concerned> {
    let mut fields = names(raw);
    let mut found = Vec::new();
    while let (Some(head), Some(path)) = (fields.next(), fields.next()) {
        let head = head.to_string_lossy();
        let head: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        if let [old_mode, new_mode, old, new, _] = head[..] {
            let (from, to) = (format!("{old_mode} {old}"), format!("{new_mode} {new}"));
            found.push(Concerned { path: path.to_owned(), from, to });
        }
    }
    found
}

/// Finds what lies at the paths of the files beneath `root`. At the paths `as_from` and `as_to` lies what
/// the old and the new commit have; git has compared them. Blocking.
pub fn find(
    root: &Path,
    files: Vec<Concerned>,
    as_from: &HashSet<OsString>,
    as_to: &HashSet<OsString>,
) -> io::Result<Vec<(Concerned, Found)>> {
    let paths: HashSet<OsString> = files.iter().map(|file| file.path.clone()).collect();
    let as_either = |path: &OsStr| as_from.contains(path) || as_to.contains(path);
    let found = files.into_iter().map(|file| {
        let found = if as_from.contains(&file.path) || is_submodule(&file.from) {
            Found::From
        } else if as_to.contains(&file.path) {
            Found::To
        } else {
            match lies_at(root, Path::new(&file.path))? {
                Lies::Nothing => Found::Absent,
                Lies::Beyond(parent) if as_either(parent.as_os_str()) => Found::Absent,
                Lies::Folder if has_only(root, Path::new(&file.path), &paths)? => Found::Folder,
                Lies::Beyond(_) | Lies::Folder => Found::Foreign,
                Lies::File => Found::Different,
            }
        };
        Ok((file, found))
    });
    found.collect()
}

/// Decides what [`find`] leaves open. A different file is a person's, unless it is unfinished. A folder
/// makes way if nothing of a person's is in it, and what lies beneath a person's file or folder stays.
pub fn decide(files: &mut [(Concerned, Found)]) {
    fn above(file: &Concerned) -> impl Iterator<Item = &Path> {
        Path::new(&file.path).ancestors().skip(1)
    }
    for (_, found) in files.iter_mut().filter(|(_, found)| *found == Found::Different) {
        *found = Found::Foreign;
    }
    let foreign = files.iter().filter(|(_, found)| *found == Found::Foreign);
    let kept: HashSet<PathBuf> =
        foreign.flat_map(|(file, _)| above(file)).map(Path::to_owned).collect();
    for (file, found) in files.iter_mut().filter(|(_, found)| *found == Found::Folder) {
        let is_kept = kept.contains(Path::new(&file.path));
        *found = if is_kept { Found::Foreign } else { Found::Absent };
    }
    // Beneath something of a person's, nothing is written, and what is there stays.
    let foreign = files.iter().filter(|(_, found)| *found == Found::Foreign);
    let foreign: HashSet<PathBuf> = foreign.map(|(file, _)| PathBuf::from(&file.path)).collect();
    for (file, found) in files {
        if above(file).any(|above| foreign.contains(above)) {
            *found = Found::Foreign;
        }
    }
}

/// What lies at a path.
enum Lies {
    Nothing,
    File,
    Folder,
    /// Something that is no folder is at this path above it, so nothing can be there.
    Beyond(PathBuf),
}

/// Looks at a path beneath `root`. Follows no link.
fn lies_at(root: &Path, path: &Path) -> io::Result<Lies> {
    let mut parents: Vec<&Path> = path.ancestors().skip(1).collect();
    // The last ancestor is the empty path: the root itself.
    parents.pop();
    for parent in parents.into_iter().rev() {
        match if_there(fs::symlink_metadata(root.join(parent)))? {
            None => return Ok(Lies::Nothing),
            Some(found) if found.is_dir() => {}
            Some(_) => return Ok(Lies::Beyond(parent.to_owned())),
        }
    }
    Ok(match if_there(fs::symlink_metadata(root.join(path)))? {
        None => Lies::Nothing,
        Some(found) if found.is_dir() => Lies::Folder,
        Some(_) => Lies::File,
    })
}

/// Whether all files beneath a folder are among these paths.
fn has_only(root: &Path, folder: &Path, paths: &HashSet<OsString>) -> io::Result<bool> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if !paths.contains(path.as_os_str()) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_changes_is_read_and_what_is_not_there_has_zeros() {
        let raw = b":100644 000000 aa 00 D\0a b\0:000000 120000 00 bb A\0c\xff\0";
        let found = concerned(raw);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].path.as_os_str(), &*found[0].from), (OsStr::new("a b"), "100644 aa"));
        assert!(!is_there(&found[0].to) && is_there(&found[1].to));
        assert_eq!(found[1].path.as_bytes(), b"c\xff");
    }

    #[test]
    fn a_folder_makes_way_unless_a_person_has_a_file_in_it() {
        use Found::{Absent, Different, Folder, Foreign, From, To};
        let decided = |found: &[(&str, Found)]| {
            let file = |path: &str| Concerned {
                path: path.into(),
                from: "100644 aa".to_owned(),
                to: "100644 bb".to_owned(),
            };
            let mut files: Vec<_> = found.iter().map(|(path, it)| (file(path), *it)).collect();
            decide(&mut files);
            files.into_iter().map(|(_, found)| found).collect::<Vec<_>>()
        };
        assert_eq!(
            decided(&[("d", Folder), ("d/e", From), ("d2", Different)]),
            [Absent, From, Foreign]
        );
        let found = [("d", Folder), ("d/e", From), ("d/x/f", Different), ("dd", To)];
        assert_eq!(decided(&found), [Foreign, Foreign, Foreign, To]);
        assert_eq!(decided(&[("a", Different), ("a/b", Absent)]), [Foreign, Foreign]);
    }
}
