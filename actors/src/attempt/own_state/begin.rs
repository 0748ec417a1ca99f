//! What an attempt's state begins with: copies of the person's settings, memory and commands, and
//! links to what is too large for that. Nothing in a box can write either side yet. Blocking.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::sandbox::StatePlace;
use crate::sandbox::places::{Person, real};

/// Most bytes of what is copied, and most files and folders.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
const ENTRIES_MAX: usize = 20_000;
/// Folders in folders.
const DEPTH_MAX: usize = 24;

/// Fills an empty folder. Returns what was left out.
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

/// What a place has the program read where it is: each name, with its real path.
fn read<'a>(
    place: &'a StatePlace,
    person: &Person<'_>,
) -> impl Iterator<Item = (&'a str, PathBuf)> {
    there(place, &place.read, person)
}

/// What a box opens for a place for reading: settings name paths of what was copied, too.
pub fn open(place: &StatePlace, person: &Person<'_>) -> Vec<PathBuf> {
    let all = there(place, &place.copy, person).chain(read(place, person));
    all.map(|(_, path)| path).collect()
}

fn there<'a>(
    place: &StatePlace,
    names: &'a [String],
    person: &Person<'_>,
) -> impl Iterator<Item = (&'a str, PathBuf)> {
    let from = person.path(&place.from).ok();
    names.iter().filter_map(move |name| Some((&**name, real(from.as_ref()?.join(name))?)))
}

struct Copying {
    bytes: u64,
    entries: usize,
    left_out: Vec<String>,
}

impl Copying {
    /// One file or folder of the list, if it is there. The person may have made it a link.
    fn copy(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let Ok(found) = fs::metadata(from) else { return Ok(()) };
        if to.symlink_metadata().is_ok() {
            return Ok(());
        }
        private(to.parent().unwrap_or(to))?;
        self.entry(from, to, &found, DEPTH_MAX)
    }

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
                // What can't be looked at is no setting that the program could read either.
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
        // The program may write its own copy; a script stays one.
        let mode = 0o600 | (found.permissions().mode() & 0o100);
        let mut copy = File::options().write(true).create_new(true).mode(mode).open(to)?;
        io::copy(&mut file, &mut copy).map(drop)
    }
}

pub fn private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
