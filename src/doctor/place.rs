//! The home on disk: its folders and their permissions, and the file system.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::{FallocateFlags, SpliceFFlags, fallocate, splice};
use nix::libc;
use nix::sys::statvfs::statvfs;

use super::check::{Check, Cure};
use crate::home::Home;

const MIB: u64 = 1 << 20;
/// Free space below these is a warning, or a failure.
const SPACE_LOW: u64 = 1024 * MIB;
const SPACE_OUT: u64 = 32 * MIB;
const INODES_LOW: u64 = 10_000;
/// Longer paths are a problem for some tools.
const PATH_LONG: usize = 200;

/// `is_held`: a daemon holds the home.
pub fn checks(home: &Home, is_held: bool) -> Vec<Check> {
    let data = home.data_dir();
    if !data.exists() {
        let message = format!("{} does not exist", data.display());
        return vec![
            Check::note("home", message)
                .hint("The first `provost` command that needs it creates it."),
        ];
    }
    let mut checks = folders(home);
    checks.push(space(data));
    checks.push(file_system(data));
    checks.push(path_length(home));
    checks.extend(leftovers(home, is_held));
    checks
}

fn folders(home: &Home) -> Vec<Check> {
    let mut wrong = Vec::new();
    for folder in home.folders() {
        wrong.extend(private(&folder, 0o700));
    }
    wrong.extend(private(home.socket(), 0o600).filter(|_| home.socket().exists()));
    if wrong.is_empty() {
        wrong.push(Check::ok("home", format!("{} is private (0700)", home.data_dir().display())));
    }
    wrong
}

/// What is wrong with the owner or the mode of a path of ours.
fn private(path: &Path, mode: u32) -> Option<Check> {
    let shown = path.display();
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let message = format!("{shown} does not exist");
            return Some(
                Check::note("home", message).hint("The daemon creates it when it starts."),
            );
        }
        Err(error) => {
            let message = format!("{shown} can't be examined: {error}");
            return Some(Check::fail("home", message).hint("See who owns it and its parents."));
        }
    };
    let user = nix::unistd::geteuid().as_raw();
    if found.uid() != user {
        let message = format!("{shown} belongs to user {}, not to {user}", found.uid());
        return Some(
            Check::fail("home", message).hint("Run provost as that user, or change its owner."),
        );
    }
    if mode == 0o700 && !found.is_dir() {
        let message = format!("{shown} is not a folder");
        return Some(Check::fail("home", message).hint("Move it away."));
    }
    if found.mode() & 0o077 != 0 {
        let message = format!("{shown} is open to others (mode {:o})", found.mode() & 0o777);
        let cure = Cure::Close { path: path.to_owned(), mode };
        return Some(Check::warn("home", message).cure(cure));
    }
    None
}

fn space(data: &Path) -> Check {
    let stat = match statvfs(data) {
        Ok(stat) => stat,
        Err(error) => return Check::warn("disk", format!("its free space is unknown: {error}")),
    };
    let free = stat.blocks_available() * stat.fragment_size();
    // Some file systems create inodes as needed, and report none.
    let inodes = Some(stat.files_available()).filter(|_| stat.files() > 0);
    let message = match inodes {
        Some(inodes) => format!("{} MiB and {inodes} inodes free", free / MIB),
        None => format!("{} MiB free", free / MIB),
    };
    let hint = "Free space: `provost gc` shows worktrees that are no longer needed.";
    match (free, inodes) {
        (..SPACE_OUT, _) | (_, Some(..100)) => Check::fail("disk", message).hint(hint),
        (..SPACE_LOW, _) | (_, Some(..INODES_LOW)) => Check::warn("disk", message).hint(hint),
        _ => Check::ok("disk", message),
    }
}

/// The spool moves bytes with splice(2) and reserves space with fallocate(2). Both are
/// tried on a file without a name, so that nothing is left behind.
fn file_system(data: &Path) -> Check {
    let name = "file_system";
    let read_only = Check::fail(name, "nothing can be written in the home")
        .hint("See whether its file system is mounted read-only.");
    let file =
        File::options().read(true).write(true).custom_flags(libc::O_TMPFILE).mode(0o600).open(data);
    let file = match file {
        Ok(file) => file,
        Err(error) if error.raw_os_error() == Some(libc::EROFS) => return read_only,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return read_only,
        Err(error) => return Check::note(name, format!("it can't be tested: {error}")),
    };
    if let Err(error) = spliced(&file) {
        if error.kind() == io::ErrorKind::StorageFull {
            return Check::note(name, "there is no space to try splice(2)");
        }
        return Check::fail(name, format!("splice(2) does not work in the home: {error}"))
            .hint("Put PROVOST_HOME on a local file system such as ext4, xfs or btrfs.");
    }
    match fallocate(file.as_fd(), FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, 4096) {
        Ok(()) => Check::ok(name, "splice and fallocate work"),
        Err(error) => Check::note(name, format!("splice works, fallocate does not: {error}")),
    }
}

fn spliced(file: &File) -> io::Result<()> {
    let (read, write) = nix::unistd::pipe()?;
    nix::unistd::write(&write, b"x")?;
    let mut offset = 0;
    splice(&read, None, file, Some(&mut offset), 1, SpliceFFlags::SPLICE_F_NONBLOCK)?;
    Ok(())
}

fn path_length(home: &Home) -> Check {
    let length = home.worktrees().as_os_str().len();
    if length > PATH_LONG {
        let message = format!("the path of the worktrees has {length} characters");
        return Check::note("paths", message)
            .hint("Some build tools fail in long paths; use a shorter PROVOST_HOME.");
    }
    Check::ok("paths", "none is too long")
}

fn leftovers(home: &Home, is_held: bool) -> Vec<Check> {
    let entries = |folder: &Path| fs::read_dir(folder).map_or(0, Iterator::count);
    let mut checks = Vec::new();
    match entries(&home.trash()) {
        0 => checks.push(Check::ok("trash", "it is empty")),
        count => checks.push(
            Check::note("trash", format!("it holds {count} entries"))
                .hint("See `provost gc --empty-trash`."),
        ),
    }
    // A daemon clears its own when it starts; while none runs, none is needed.
    match entries(&home.scratch()) {
        0 => {}
        _ if is_held => {}
        count => checks.push(
            Check::note("scratch", format!("calls left {count} scratch folders behind"))
                .cure(Cure::Trash(home.scratch())),
        ),
    }
    checks
}
