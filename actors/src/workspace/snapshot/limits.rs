//! Which of the changed files are read, by their sizes. A change of a file that is not read has no
//! numbers of lines and no patch.

use std::collections::HashMap;

use crate::workspace::changes::{Change, Status};
use crate::workspace::tree::Tree;

/// Bytes of the largest file that is read.
pub const FILE_MAX: u64 = 16 << 20;
/// Bytes of all changed files that are read; the first ones by path count.
pub const TOTAL_MAX: u64 = 128 << 20;

/// Looks up how large the changed files are, and decides which of them are read. Blocking.
pub fn measure(tree: &Tree, changes: &mut [Change]) {
    let mut total = 0;
    for change in changes.iter_mut().filter(|change| change.status != Status::Deleted) {
        let size = tree.size(&change.path);
        let fits = |bytes| bytes <= FILE_MAX && total + bytes <= TOTAL_MAX;
        (change.bytes, change.is_read) = (size.unwrap_or_default(), size.is_some_and(fits));
        if change.is_read {
            total += change.bytes;
        }
    }
}

/// The changes as `read` has them, with the sizes of `measured`, and with the changes that git did not
/// read.
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
