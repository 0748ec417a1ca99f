//! What an attempt's state begins with: copies of the person's settings, memory and commands, and
//! links to what is too large for a copy. No sandboxed process can write either side yet. Blocking.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::sandbox::StatePlace;
use crate::sandbox::places::{Person, real};

/// The largest copy: in bytes, and in files and folders together.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
const ENTRIES_MAX: usize = 20_000;
/// How deep folders may be nested. Links are followed, so this also ends a cycle.
const DEPTH_MAX: usize = 24;

/// Fills an empty folder. Returns the paths that were left out, because they are too large, too deep or
/// can't be read. What the person does not have is no error.
pub fn fill(folder: &Path, places: &[StatePlace], person: &Person<'_>) -> io::Result<Vec<String>> {
    let mut copying = Copying { bytes: BYTES_MAX, entries: ENTRIES_MAX, left_out: Vec::new() };
    for place in places {
        let own = folder.join(&place.folder);
        private(&own)?;
        let Ok(from) = person.path(&place.from) else { continue };
        for name in &place.copy {
            copying.copy(&from.join(name), &own.join(name))?;
        }
        for (name, path) in read(place, person) {
            let link = own.join(name);
            if link.symlink_metadata().is_err() {
                private(link.parent().unwrap_or(&own))?;
                symlink(path, link)?;
            }
        }
    }
    Ok(copying.left_out)
}

/// What the program reads where the person has it: each name, with its real path. Links lead there.
fn read<'a>(
    place: &'a StatePlace,
    person: &Person<'_>,
) -> impl Iterator<Item = (&'a str, PathBuf)> {
    there(place, &place.read, person)
}

/// The paths of the person's that a sandbox opens for reading. What was copied is among them, because
/// settings name its paths too.
pub fn open(place: &StatePlace, person: &Person<'_>) -> Vec<PathBuf> {
    let all = there(place, &place.copy, person).chain(read(place, person));
    all.map(|(_, path)| path).collect()
}

/// Those of the names that the person has, each with its real path.
fn there<'a>(
    place: &StatePlace,
    names: &'a [String],
    person: &Person<'_>,
) -> impl Iterator<Item = (&'a str, PathBuf)> {
    let from = person.path(&place.from).ok();
    names.iter().filter_map(move |name| Some((&**name, real(from.as_ref()?.join(name))?)))
}

/// What may still be copied, and what was left out so far.
struct Copying {
    bytes: u64,
    entries: usize,
    left_out: Vec<String>,
}

impl Copying {
    /// Copies one file or folder of the list, if the person has it and no place has copied it before. The
    /// person may have made it a link, which is followed.
    fn copy(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let Ok(found) = fs::metadata(from) else { return Ok(()) };
        if to.symlink_metadata().is_ok() {
            return Ok(());
        }
        private(to.parent().unwrap_or(to))?;
        self.entry(from, to, &found, DEPTH_MAX)
    }

    /// Copies a file, or a folder with what is in it, as far as the limits allow. Sockets, devices and
    /// pipes are passed over.
    fn entry(&mut self, from: &Path, to: &Path, found: &Metadata, depth: usize) -> io::Result<()> {
        let size = if found.is_file() { found.len() } else { 0 };
        let room = self.bytes.checked_sub(size).zip(self.entries.checked_sub(1));
        let Some((bytes, entries)) = room.filter(|_| depth > 0) else {
            self.left_out.push(from.display().to_string());
            return Ok(());
        };
        (self.bytes, self.entries) = (bytes, entries);
        if found.is_dir() {
            private(to)?;
            for name in fs::read_dir(from)? {
                let name = name?.file_name();
                let from = from.join(&name);
                // The program could not read this either.
                if let Ok(found) = fs::metadata(&from) {
                    self.entry(&from, &to.join(name), &found, depth - 1)?;
                }
            }
            return Ok(());
        }
        if !found.is_file() {
            return Ok(());
        }
        let Ok(mut file) = File::open(from) else {
            self.left_out.push(from.display().to_string());
            return Ok(());
        };
        // The program may write its copy, and a script stays executable.
        let mode = 0o600 | (found.permissions().mode() & 0o100);
        let mut copy = File::options().write(true).create_new(true).mode(mode).open(to)?;
        io::copy(&mut file, &mut copy).map(drop)
    }
}

/// Makes a folder for its owner alone, and those above it.
pub fn private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
