//! The checks of the home on disk: its folders and their permissions, the file system, free space,
//! leftovers.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::fcntl::{FallocateFlags, SpliceFFlags, fallocate, splice};
use nix::libc;
use nix::sys::statvfs::statvfs;
use provost_actors::workspace::cache::Cache;

use super::check::Check;
use crate::home::Home;

const HOME: &str = "home";
const MIB: u64 = 1 << 20;
/// Free space below `SPACE_LOW` is a warning, below `SPACE_OUT` a failure.
const SPACE_LOW: u64 = 1024 * MIB;
const SPACE_OUT: u64 = 32 * MIB;
const INODES_LOW: u64 = 10_000;
/// Paths of worktrees that are longer than this, in bytes, are a problem for some build tools.
const PATH_LONG: usize = 200;

/// `is_held`: a daemon holds the home, so its scratch files are in use. Blocking.
pub fn checks(home: &Home, is_held: bool) -> Vec<Check> {
    let data = &home.data_dir;
    if !data.exists() {
        let message = format!("{} does not exist", data.display());
        let hint = "The first `provost` command that needs it creates it.";
        return vec![Check::note(HOME, message, hint)];
    }
    let mut checks: Vec<Check> =
        home.folders().iter().filter_map(|folder| not_private(folder, 0o700)).collect();
    if home.socket.exists() {
        checks.extend(not_private(&home.socket, 0o600));
    }
    checks.extend(exposed(&home.token_file()));
    if checks.is_empty() {
        checks.push(Check::ok(HOME, format!("{} is private (0700)", data.display())));
    }
    checks.extend([space(data), file_system(data)]);
    let length = home.worktrees().as_os_str().len();
    checks.push(if length > PATH_LONG {
        let message = format!("the path of the worktrees has {length} characters");
        let hint = "Some build tools fail in long paths; use a shorter PROVOST_HOME.";
        Check::note("paths", message, hint)
    } else {
        Check::ok("paths", "none is too long")
    });
    checks.push(cached(home));
    checks.extend(leftovers(home, is_held));
    checks
}

/// What is wrong with the owner or the mode of one of the home's paths. A wrong mode can be fixed, a
/// wrong owner can't.
fn not_private(path: &Path, mode: u32) -> Option<Check> {
    let shown = path.display();
    let user = nix::unistd::geteuid().as_raw();
    let (message, hint) = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let hint = "The daemon creates it when it starts.";
            return Some(Check::note(HOME, format!("{shown} does not exist"), hint));
        }
        Err(error) => {
            (format!("{shown} can't be examined: {error}"), "See who owns it and its parents.")
        }
        Ok(found) if found.uid() != user => (
            format!("{shown} belongs to user {}, not to {user}", found.uid()),
            "Run provost as that user, or change its owner.",
        ),
        Ok(found) if mode == 0o700 && !found.is_dir() => {
            (format!("{shown} is not a folder"), "Move it away.")
        }
        Ok(found) if found.mode() & 0o077 != 0 || found.mode() & mode != mode => {
            let (found, open) = (found.mode() & 0o777, found.mode() & 0o077 != 0);
            let what = if open { "open to others" } else { "closed to its owner" };
            let message = format!("{shown} is {what} (mode {found:o})");
            let path = path.to_owned();
            let close = move |_: &Home| {
                let found = fs::symlink_metadata(&path)?;
                if found.is_symlink() || found.uid() != user {
                    return Err(io::Error::other("it is not ours"));
                }
                fs::set_permissions(&path, Permissions::from_mode(mode))?;
                Ok(format!("put right (mode {mode:o})"))
            };
            return Some(Check::warn(HOME, message, "").cure(close));
        }
        Ok(_) => return None,
    };
    Some(Check::fail(HOME, message, hint))
}

/// The finding if others could read the token of the HTTP face. Such a token must be replaced: its mode
/// says nothing about who has read it.
fn exposed(token: &Path) -> Option<Check> {
    let found = fs::symlink_metadata(token).ok()?;
    (found.mode() & 0o077 != 0).then(|| {
        let message = format!("{} could be read by others", token.display());
        let path = token.to_owned();
        let remove = move |_: &Home| {
            fs::remove_file(&path)?;
            Ok("removed: the next daemon makes another".to_owned())
        };
        Check::warn(HOME, message, "").cure(remove)
    })
}

/// The free space and inodes of the home's file system.
fn space(data: &Path) -> Check {
    let name = "disk";
    let stat = match statvfs(data) {
        Ok(stat) => stat,
        Err(error) => return Check::warn(name, format!("free space unknown: {error}"), ""),
    };
    let free = stat.blocks_available() * stat.fragment_size();
    // Some file systems create inodes as needed, and report a total of 0.
    let inodes = Some(stat.files_available()).filter(|_| stat.files() > 0);
    let message = match inodes {
        Some(inodes) => format!("{} MiB and {inodes} inodes free", free / MIB),
        None => format!("{} MiB free", free / MIB),
    };
    let hint = "Free space: `provost gc` shows worktrees that are no longer needed.";
    match (free, inodes) {
        (..SPACE_OUT, _) | (_, Some(..100)) => Check::fail(name, message, hint),
        (..SPACE_LOW, _) | (_, Some(..INODES_LOW)) => Check::warn(name, message, hint),
        _ => Check::ok(name, message),
    }
}

/// Tests splice(2), by which the spool moves bytes, and fallocate(2), by which it reserves space. The
/// test file has no name (O_TMPFILE), so nothing is left behind.
fn file_system(data: &Path) -> Check {
    let name = "file_system";
    let file =
        File::options().read(true).write(true).custom_flags(libc::O_TMPFILE).mode(0o600).open(data);
    let read_only = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
    let file = match file {
        Ok(file) => file,
        Err(error) if read_only.contains(&error.kind()) => {
            let hint = "See whether its file system is mounted read-only.";
            return Check::fail(name, "nothing can be written in the home", hint);
        }
        Err(error) => return Check::note(name, format!("it can't be tested: {error}"), ""),
    };
    match splice_into(&file) {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            Check::note(name, "there is no space to try splice(2)", "")
        }
        Err(error) => {
            let hint = "Put PROVOST_HOME on a local file system such as ext4, xfs or btrfs.";
            Check::fail(name, format!("splice(2) does not work in the home: {error}"), hint)
        }
        Ok(()) => match fallocate(file.as_fd(), FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, 4096) {
            Ok(()) => Check::ok(name, "splice and fallocate work"),
            Err(error) => {
                Check::note(name, format!("splice works, fallocate does not: {error}"), "")
            }
        },
    }
}

fn splice_into(file: &File) -> io::Result<()> {
    let (read, write) = nix::unistd::pipe()?;
    nix::unistd::write(&write, b"x")?;
    let mut offset = 0;
    splice(&read, None, file, Some(&mut offset), 1, SpliceFFlags::SPLICE_F_NONBLOCK)?;
    Ok(())
}

/// Moves what a dead process left behind to the trash, under a new UUIDv7 and its old name: the UUID says
/// since when it is there.
pub fn to_trash(home: &Home, path: &Path) -> io::Result<String> {
    let trash = home.trash();
    DirBuilder::new().recursive(true).mode(0o700).create(&trash)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    fs::rename(path, trash.join(format!("{}-{name}", uuid::Uuid::now_v7())))?;
    Ok("moved to the trash".to_owned())
}

/// The number and size of cached setups.
fn cached(home: &Home) -> Check {
    let name = "cache";
    let (dir, scratch) = (home.cache(), home.scratch());
    match (Cache { dir, scratch, max_bytes: 0 }).entries() {
        Err(error) => Check::warn(name, format!("the cached setups can't be read: {error}"), ""),
        Ok(entries) if entries.is_empty() => Check::ok(name, "no setup is cached"),
        Ok(entries) => {
            let mib = entries.iter().map(|entry| entry.bytes).sum::<u64>() / MIB;
            let message = format!("{} setups are cached, of {mib} MiB", entries.len());
            Check::ok(name, message)
        }
    }
}

/// What is in the trash, and scratch files that a daemon left while none runs.
fn leftovers(home: &Home, is_held: bool) -> Vec<Check> {
    let entries = |folder: &Path| fs::read_dir(folder).map_or(0, Iterator::count);
    let mut checks = vec![match entries(&home.trash()) {
        0 => Check::ok("trash", "it is empty"),
        count => {
            let hint = "See `provost gc --empty-trash`.";
            Check::note("trash", format!("it holds {count} entries"), hint)
        }
    }];
    // A daemon clears the scratch folder when it starts. While one runs, the files belong to its calls.
    let count = entries(&home.scratch());
    if count > 0 && !is_held {
        let message = format!("calls left {count} scratch folders behind");
        checks
            .push(Check::note("scratch", message, "").cure(|home| to_trash(home, &home.scratch())));
    }
    checks
}
