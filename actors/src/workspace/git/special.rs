//! Finds what keeps git waiting: a named pipe or a block device where git reads a file. An agent can put
//! one into its worktree and into its repository. Everything here blocks.

use std::fs::{self, FileType};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::workspace::regular;

/// Entries that are looked at; beyond them, the search is given up.
const ENTRIES_MAX: usize = 1_000_000;
/// Bytes of a configuration file that are read.
const CONFIG_MAX: u64 = 1 << 20;
/// How many levels of included configuration files are followed.
const INCLUDES_MAX: usize = 5;
/// What git reads in a worktree beside the tracked files. git opens a tracked file only if it is a
/// regular one.
const READ_BY_GIT: [&str; 4] = [".git", ".gitattributes", ".gitignore", ".gitmodules"];

/// The first file that git may wait for: in the repository, named by its configuration, or in the
/// worktree. `None`: there is none, or it was not found. `repository` is given where `dir` does not lead
/// to it.
pub fn find(dir: &Path, repository: Option<&Path>) -> Option<PathBuf> {
    // `dir` may be a path below /proc to an open folder: this is its real name.
    let dir = &fs::canonicalize(dir).ok()?;
    let own = shared_by(dir);
    let shared = repository.map(Path::to_owned).or(own)?;
    in_folder(&shared, true)
        .or_else(|| in_config(&shared.join("config"), INCLUDES_MAX))
        .or_else(|| in_folder(dir, false))
}

/// The folder that all worktrees of the repository at `dir` share. Only files are read: git would hang
/// here.
fn shared_by(dir: &Path) -> Option<PathBuf> {
    if dir.join("objects").is_dir() {
        return Some(dir.to_owned());
    }
    let mut above = dir.ancestors().map(|dir| dir.join(".git"));
    let link = above.find(|link| link.symlink_metadata().is_ok())?;
    if link.is_dir() {
        return Some(link);
    }
    let text = regular::text(&link).ok()?;
    let admin = link.parent()?.join(text.strip_prefix("gitdir: ")?.trim_end());
    // The worktree's folder is `<shared>/worktrees/<name>`.
    Some(admin.parent()?.parent()?.to_owned())
}

/// Searches a folder and those in it. `is_gits`: git may read any file there, as in a `.git`; else only
/// the names in [`READ_BY_GIT`] count.
fn in_folder(folder: &Path, is_gits: bool) -> Option<PathBuf> {
    let mut folders = vec![(folder.to_owned(), is_gits)];
    let mut looked = 0;
    while let Some((folder, is_gits)) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            looked += 1;
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            if kind.is_dir() {
                folders.push((entry.path(), is_gits || name == ".git"));
            } else if (is_gits || READ_BY_GIT.iter().any(|read| name == *read))
                && (is_special(kind) || (kind.is_symlink() && leads_to_special(&entry.path())))
            {
                return Some(entry.path());
            }
        }
        if looked > ENTRIES_MAX {
            return None;
        }
    }
    None
}

/// Whether the file at a path, links followed, is special.
fn leads_to_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| is_special(found.file_type()))
}

/// Whether an open for reading may wait. Character devices do not count: people empty a setting with
/// `/dev/null`.
fn is_special(kind: FileType) -> bool {
    kind.is_fifo() || kind.is_block_device()
}

/// Looks at each file that a value of a configuration may name, and into the files that it includes.
/// Values are read roughly: a wrong path only names a file that does not exist.
fn in_config(config: &Path, depth: usize) -> Option<PathBuf> {
    let text = regular::read(config, CONFIG_MAX).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        let value = value.trim().trim_matches('"');
        let named = match value.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => config.parent()?.join(value),
        };
        if value.is_empty() {
            continue;
        }
        if leads_to_special(&named) {
            return Some(named);
        }
        if key.trim().eq_ignore_ascii_case("path")
            && depth > 0
            && let Some(found) = in_config(&named, depth - 1)
        {
            return Some(found);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn pipes_are_found_where_git_reads_and_nowhere_else() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let dir = root.join("tree");
        let git = dir.join(".git");
        fs::create_dir_all(git.join("objects/info")).unwrap();
        fs::create_dir_all(dir.join("sub/deep")).unwrap();
        let pipe = |path: &Path| mkfifo(path, Mode::S_IRWXU).unwrap();
        let elsewhere = root.join("pipe");
        pipe(&elsewhere);
        pipe(&dir.join("sub/data"));
        symlink("/dev/null", dir.join(".gitignore")).unwrap();
        assert_eq!(find(&dir, None), None);
        for place in ["sub/deep/.gitignore", ".gitattributes", ".git/shallow", ".git/config"] {
            pipe(&dir.join(place));
            assert_eq!(find(&dir, None), Some(dir.join(place)));
            fs::remove_file(dir.join(place)).unwrap();
        }
        symlink(&elsewhere, git.join("HEAD")).unwrap();
        assert_eq!(find(&dir, None), Some(git.join("HEAD")));
        fs::remove_file(git.join("HEAD")).unwrap();
        let named = format!("[core]\n\texcludesFile = \"{}\"\n", elsewhere.display());
        fs::write(scratch.path().join("more"), named).unwrap();
        fs::write(git.join("config"), "[include]\n\tpath = ../../more\n").unwrap();
        assert_eq!(find(&dir, None), Some(elsewhere));
    }
}
