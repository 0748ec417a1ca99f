//! Puts back what git opens by name in an attempt's worktree and its own repository, once the processes
//! that could have changed it have ended: a person may run git there, and Provost's own git reads it.
//! What the agent committed, staged or wrote stays. Blocking.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::Own;
use super::make::{COMMON, leading};
use crate::blocking::{blocking, if_there};
use crate::workspace::beneath::{self, Links};
use crate::workspace::git;
use crate::workspace::regular;
use crate::workspace::scratch_repo;
use crate::workspace::snapshot::SnapshotError;
use crate::workspace::source::Source;
use crate::workspace::tree::Tree;

/// Entries that are looked at. A repository with more was not made by git.
const ENTRIES_MAX: usize = 200_000;
/// The name of a file until it replaces another one.
const NEXT: &str = "provost.next";
/// Bytes of the small files that are compared.
const TEXT_MAX: u64 = 1024;
/// Bytes of a configuration that are read.
const CONFIG_MAX: u64 = 1 << 20;
/// Sections of a configuration whose settings name no program, but for the keys that [`cleared`] takes out.
const HARMLESS: [&str; 6] = ["user", "branch", "remote", "submodule", "extensions", "init"];
/// Settings of `core` that say how the repository is laid out. All others of `core` are taken out.
const LAYOUT: [&str; 7] = [
    "repositoryformatversion",
    "filemode",
    "bare",
    "logallrefupdates",
    "worktree",
    "ignorecase",
    "symlinks",
];

/// Does [`put_back`] on a blocking thread, and reports a failure as a snapshot does. Call it once the
/// processes that could have changed the worktree have ended.
pub async fn settle(source: &Source) -> Result<(), SnapshotError> {
    let failed = |why| SnapshotError::Repository { repo: source.repo.clone(), why };
    let common = git::common_dir(&source.repo).await.map_err(failed)?;
    let source = source.clone();
    blocking(move || {
        put_back(&source, &common).map_err(|error| SnapshotError::Worktree {
            path: source.worktree(),
            why: error.to_string(),
        })
    })
    .await
}

/// Puts back the links between a worktree and its attempt's own repository, removes links and special
/// files where git writes, and takes out of its configuration what git would run. `common` is the shared
/// folder of the person's repository. A process that was left over may still be at work: each folder is
/// opened beneath one that the process can't replace, without links. Blocking.
///
/// # Errors
/// The worktree is gone or is a link, or there are more entries than git makes.
pub fn put_back(source: &Source, common: &Path) -> io::Result<()> {
    let (own, worktree) = (&source.own, source.worktree());
    let tree = Tree::open(&source.worktrees, &source.folder, &source.name)?;
    has(&tree.path(), ".git", &leading(own))?;
    let admin = own.admin();
    has(&admin, "commondir", COMMON)?;
    has(&admin, "gitdir", &format!("{}\n", worktree.join(".git").display()))?;
    if_there(fs::remove_file(admin.join("config.worktree")))?;
    let mut left = ENTRIES_MAX;
    // The objects are looked at by `borrow` alone: they may be many, and git checks each when it is taken
    // over.
    for folder in own.written().iter().filter(|path| **path != own.objects()) {
        each_folder(folder, &mut left, &without_links)?;
    }
    borrow(own, common)?;
    own_config(own)?;
    // A HEAD that is a link, or gone, becomes the attempt's branch; any other HEAD is the agent's
    // decision.
    if regular::own(&admin.join("HEAD"), TEXT_MAX).is_err() {
        let head = format!("ref: {}\n", source.branch_ref());
        regular::replace(&admin, "HEAD", NEXT, head.as_bytes())?;
    }
    let modules = admin.join("modules");
    if fs::symlink_metadata(&modules).is_ok_and(|found| found.is_dir()) {
        each_folder(&modules, &mut left, &clear)?;
    }
    Ok(())
}

/// Takes out of other repositories in the worktree, by their paths, what git would run for their status.
/// Blocking.
pub fn clear_nested(source: &Source, nested: &[Vec<u8>]) -> io::Result<()> {
    let tree = Tree::open(&source.worktrees, &source.folder, &source.name)?;
    nested.iter().try_for_each(|path| clear_one(&tree, path))
}

/// Makes a small file right below a folder have this content, whatever is there. A folder in its place is
/// moved aside, not deleted.
fn has(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let path = folder.join(name);
    if regular::own(&path, TEXT_MAX).is_ok_and(|found| found == text.as_bytes()) {
        return Ok(());
    }
    if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
        let aside = format!("{name}.replaced-{}", uuid::Uuid::now_v7());
        fs::rename(&path, folder.join(aside))?;
    }
    regular::replace(folder, name, NEXT, text.as_bytes())
}

/// Visits a folder and all below it, each by a path that leads to it for as long as the visit lasts.
/// `left` counts the entries down.
fn each_folder(
    root: &Path,
    left: &mut usize,
    visit: &dyn Fn(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let Ok(opened) = beneath::folder(root) else { return Ok(()) };
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    let mut folders = vec![PathBuf::new()];
    while let Some(below) = folders.pop() {
        let path = if below.as_os_str().is_empty() { Path::new(".") } else { &*below };
        let folder = match beneath::open_beneath(opened.as_fd(), path, flags, Links::Refuse) {
            Ok(folder) => folder,
            // The folder was replaced since it was listed, and its content is gone or elsewhere.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV) => continue,
            Err(error) => return Err(error.into()),
        };
        let place = beneath::proc_path(folder.as_fd());
        visit(&place)?;
        for entry in fs::read_dir(&place)? {
            let entry = entry?;
            *left = left.checked_sub(1).ok_or_else(|| too_many(root))?;
            if entry.file_type()?.is_dir() {
                folders.push(below.join(entry.file_name()));
            }
        }
    }
    Ok(())
}

fn too_many(folder: &Path) -> io::Error {
    io::Error::other(format!("{} has more entries than git makes", folder.display()))
}

/// Removes everything right below a folder that is neither a file nor a folder.
fn without_links(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if !kind.is_dir() && !kind.is_file() {
            if_there(fs::remove_file(folder.join(entry.file_name())))?;
        }
    }
    Ok(())
}

/// Makes the agent's objects borrow from the person's again, and none of their folders a link.
fn borrow(own: &Own, common: &Path) -> io::Result<()> {
    let objects = own.objects();
    without_links(&objects)?;
    if_there(fs::create_dir(objects.join("info"))).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Ok(None),
        _ => Err(error),
    })?;
    let opened = beneath::folder(&objects)?;
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    let info = beneath::open_beneath(opened.as_fd(), Path::new("info"), flags, Links::Refuse)?;
    let list = scratch_repo::alternates(&[&common.join("objects")]);
    regular::replace(&beneath::proc_path(info.as_fd()), "alternates", NEXT, list.as_bytes())
}

/// Makes the configuration what Provost wrote, plus the upstreams of branches and the remotes that the
/// agent has added.
fn own_config(own: &Own) -> io::Result<()> {
    let made = fs::read_to_string(own.made_config())?;
    let folder = own.common().join("settings");
    let there = regular::own(&folder.join("config"), CONFIG_MAX).unwrap_or_default();
    let text = made.clone() + &added(&made, &String::from_utf8_lossy(&there));
    if text.as_bytes() == there {
        return Ok(());
    }
    regular::replace(&folder, "config", NEXT, text.as_bytes())
}

/// The sections of branches and remotes in `text` that are not in `made`, without settings that run
/// something.
fn added(made: &str, text: &str) -> String {
    let known: HashSet<&str> = made.lines().map(str::trim).collect();
    let mut is_kept = false;
    let mut kept = String::new();
    for line in cleared(text).lines() {
        let trimmed = line.trim();
        if trimmed.starts_with('[') {
            let is_of = ["[branch ", "[remote "].iter().any(|head| trimmed.starts_with(head));
            is_kept = is_of && !known.contains(trimmed);
        }
        if is_kept {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// Clears the git folder of a repository in the worktree. A `.git` that is a file or a link is left
/// alone.
fn clear_one(tree: &Tree, path: &[u8]) -> io::Result<()> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let Some(folder) = tree.folder(&[path, b"/.git"].concat()) else { return Ok(()) };
    clear(&beneath::proc_path(folder.as_fd()))
}

/// Takes out of a git folder what its status would run: settings and hooks that name programs. Hooks are
/// moved aside.
fn clear(folder: &Path) -> io::Result<()> {
    let config = folder.join("config");
    if fs::symlink_metadata(&config).is_ok() {
        let text = regular::own(&config, CONFIG_MAX).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let cleared = cleared(&text);
        if cleared != text {
            regular::replace(folder, "config", NEXT, cleared.as_bytes())?;
        }
    }
    if_there(fs::remove_file(folder.join("config.worktree")))?;
    let hooks = folder.join("hooks");
    let samples = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|it| it.file_name().as_encoded_bytes().ends_with(b".sample"))
    };
    let has_hooks = match fs::symlink_metadata(&hooks) {
        Ok(found) if found.is_dir() => !fs::read_dir(&hooks)?.all(samples),
        found => found.is_ok(),
    };
    if has_hooks {
        let aside = format!("hooks.cleared-{}", uuid::Uuid::now_v7());
        fs::rename(hooks, folder.join(aside))?;
    }
    Ok(())
}

/// A configuration without the sections and settings that may name a program. A line that continues in
/// the next one is dropped, too: git writes none for the settings that stay.
fn cleared(text: &str) -> String {
    let (mut section, mut kept) = (String::new(), String::new());
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(head) = trimmed.strip_prefix('[') {
            let name = head.split([']', ' ', '.', '\t']).next().unwrap_or_default();
            section = name.to_lowercase();
            // A setting may follow the section's head on the same line; such a section is dropped.
            if !trimmed.ends_with(']') {
                section.clear();
            }
        }
        let key = trimmed.split(['=', ' ', '\t']).next().unwrap_or_default().to_lowercase();
        let is_kept = match &*section {
            "core" => trimmed.starts_with('[') || LAYOUT.contains(&&*key),
            section if HARMLESS.contains(&section) => {
                !["update", "uploadpack", "receivepack", "vcs", "proxy"].contains(&&*key)
            }
            _ => false,
        };
        if is_kept && !trimmed.ends_with('\\') {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_keeps_its_layout_and_remotes_and_loses_programs() {
        let text = "[core]\n\tbare = false\n\tfsmonitor = touch ran\n\thooksPath = x\n[remote \"o\"]\n\
                    \turl = /x\n\tuploadpack = touch ran\n[alias]\n\ts = !touch ran\n[core] pager = x\n\
                    [include]\n\tpath = y\n[user]\n\tname = A\\\n";
        let expected = "[core]\n\tbare = false\n[remote \"o\"]\n\turl = /x\n[user]\n";
        assert_eq!(cleared(text), expected);
        assert_eq!(cleared(expected), expected);
    }

    #[test]
    fn an_agent_keeps_the_upstreams_and_remotes_that_it_added() {
        let made = "[core]\n\tbare = false\n[remote \"o\"]\n\turl = /x\n";
        let text = "[core]\n\tbare = false\n\tfsmonitor = x\n[remote \"o\"]\n\turl = /y\n\
                    [branch \"b\"]\n\tremote = o\n[alias]\n\tx = !y\n";
        assert_eq!(added(made, text), "[branch \"b\"]\n\tremote = o\n");
        assert_eq!(added(made, made), "");
    }
}
