//! A piece of a file as a commit has it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::aside::Aside;
use super::between::{reading, scratch};
use super::page::Range;
use super::snapshot::plenty::FILE_MAX;
use super::snapshot::{LISTING_MAX, SnapshotError, Source, whole};
use super::tree::{FileError, Piece, listed_names, piece_of};

/// Reads a piece of a file of a commit. Links are not followed; they are no files.
pub async fn read(
    source: &Source,
    commit: &str,
    path: &[u8],
    range: Range,
) -> Result<Result<Piece, FileError>, SnapshotError> {
    let aside = scratch(source).await?;
    let Some((kind, id)) = find(&aside, commit, path).await? else {
        return Ok(Err(FileError::NotFound));
    };
    match kind {
        Kind::Folder => return Ok(Err(FileError::Folder(names(&aside, &id).await?))),
        Kind::Other => return Ok(Err(FileError::NotAFile)),
        Kind::File => {}
    }
    let size = reading(&aside).text(&["cat-file", "-s", &id]).await?;
    let size: u64 = size.parse().map_err(|_| SnapshotError::Unreadable)?;
    if size > FILE_MAX {
        return Ok(Err(FileError::TooLarge(size)));
    }
    let bytes = whole(reading(&aside).output(&["cat-file", "blob", &id], LISTING_MAX).await?)?;
    Ok(piece_of(&mut std::io::Cursor::new(bytes), size, range))
}

enum Kind {
    File,
    Folder,
    Other,
}

/// What a commit has at a path.
async fn find(
    aside: &Aside,
    commit: &str,
    path: &[u8],
) -> Result<Option<(Kind, String)>, SnapshotError> {
    if path.is_empty() {
        return Ok(Some((Kind::Folder, format!("{commit}^{{tree}}"))));
    }
    let args = [OsStr::new("ls-tree"), OsStr::new("-z"), OsStr::new(commit), OsStr::new("--")];
    let args: Vec<OsString> =
        args.into_iter().chain([OsStr::from_bytes(path)]).map(OsStr::to_owned).collect();
    let listed = whole(reading(aside).output(&args, LISTING_MAX).await?)?;
    Ok(entries(&listed).find(|(_, _, name)| *name == path).map(|(kind, id, _)| (kind, id)))
}

/// A folder's entries as [`FileError::Folder`] has them.
async fn names(aside: &Aside, tree: &str) -> Result<Vec<String>, SnapshotError> {
    let listed = reading(aside).output(&["ls-tree", "-z", tree], LISTING_MAX).await?;
    let listed = whole(listed)?;
    let names = entries(&listed).map(|(kind, _, name)| {
        (String::from_utf8_lossy(name).into_owned(), matches!(kind, Kind::Folder))
    });
    Ok(listed_names(names.collect()))
}

/// Reads `<mode> <type> <id>\t<path>`, each with a NUL at its end.
fn entries(listed: &[u8]) -> impl Iterator<Item = (Kind, String, &[u8])> {
    listed.split(|byte| *byte == 0).filter_map(|entry| {
        let tab = entry.iter().position(|byte| *byte == b'\t')?;
        let head = std::str::from_utf8(&entry[..tab]).ok()?;
        let mut parts = head.split(' ');
        let kind = match (parts.next()?, parts.next()?) {
            ("100644" | "100755" | "100664", "blob") => Kind::File,
            (_, "tree") => Kind::Folder,
            _ => Kind::Other,
        };
        Some((kind, parts.next()?.to_owned(), &entry[tab + 1..]))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::workspace::snapshot::tests::Scene;

    #[test]
    fn a_file_is_read_as_the_commit_has_it() {
        let scene =
            Scene::new(&[(b"f", b"one\ntwo\nthree\n"), (b"d/*", b"star\n"), (b"d/e/x", b"x")]);
        symlink("f", scene.worktree().join("link")).unwrap();
        scene.git(&["add", "--all"]);
        scene.git(&["commit", "--quiet", "--message=link"]);
        let commit = scene.git(&["rev-parse", "HEAD"]);
        scene.write("f", "later\n");
        let all = Range::Bytes { offset: 0, max_bytes: 100 };
        let read = |path: &str, range| {
            let piece = read(&scene.source, &commit, path.as_bytes(), range);
            scene.runtime.block_on(piece).unwrap()
        };
        let whole = read("f", all).unwrap();
        assert_eq!((&*whole.content, whole.size), (&b"one\ntwo\nthree\n"[..], 14));
        let line = read("f", Range::Lines { start: 2, count: 1, max_bytes: 100 }).unwrap();
        assert_eq!((&*line.content, line.offset, line.lines), (&b"two\n"[..], 4, 1));
        assert_eq!(&*read("d/*", all).unwrap().content, b"star\n");
        let Err(FileError::Folder(names)) = read("d", all) else { panic!("a folder") };
        assert_eq!(names, ["*", "e/"]);
        let Err(FileError::Folder(names)) = read("", all) else { panic!("a folder") };
        assert_eq!(names, ["d/", "f", "link"]);
        assert!(matches!(read("link", all), Err(FileError::NotAFile)));
        for none in ["none", "f/x", "d/none"] {
            assert!(matches!(read(none, all), Err(FileError::NotFound)), "{none}");
        }
    }
}
