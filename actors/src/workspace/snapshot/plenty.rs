//! Which of the changed files are read, by their sizes: a file of any size costs no
//! more than a look at it.

use std::collections::HashMap;

use crate::workspace::changes::{Change, Status};
use crate::workspace::tree::{EntryKind, Tree};

/// Bytes of a file that is read.
pub const FILE_MAX: u64 = 16 << 20;
/// Bytes of all files that are read.
pub const TOTAL_MAX: u64 = 128 << 20;

/// Tells how large the changed files are, and which of them are read: what is no file
/// and no link is not.
pub fn measure(tree: &Tree, changes: &mut [Change]) {
    let mut total = 0;
    for change in changes.iter_mut().filter(|change| change.status != Status::Deleted) {
        let (kind, bytes) = tree.look(&change.path);
        change.bytes = bytes;
        change.is_read =
            kind != EntryKind::Special && bytes <= FILE_MAX && total + bytes <= TOTAL_MAX;
        if change.is_read {
            total += bytes;
        }
    }
}

/// The changes that git told with their lines, and those that it did not read.
pub fn together(measured: Vec<Change>, mut read: Vec<Change>) -> Vec<Change> {
    let (known, unread): (Vec<Change>, Vec<Change>) =
        measured.into_iter().partition(|change| change.is_read);
    let sizes: HashMap<Vec<u8>, u64> =
        known.into_iter().map(|change| (change.path, change.bytes)).collect();
    for change in read.iter_mut().filter(|change| change.status != Status::Deleted) {
        change.bytes = sizes.get(&change.path).copied().unwrap_or_default();
    }
    for change in unread {
        match read.binary_search_by(|other| other.path.cmp(&change.path)) {
            Ok(at) => read[at] = change,
            Err(at) => read.insert(at, change),
        }
    }
    read
}
