//! Files that a disk or a person has damaged: whatever is flipped or cut, the log
//! opens or says why it can't, and no entry comes out as another.

use std::collections::BTreeMap;
use std::io::{Seek, SeekFrom};

use super::*;

const CHANNELS: [Channel; 2] = [Channel::Raw, Channel::Normalized];

/// A finished attempt of two processes, several blocks and marks long.
fn finished(dir: &Path) -> [ProcessId; 2] {
    let processes = [ProcessId::new(), ProcessId::new()];
    let log = AttemptLog::open(dir, NO_RING).unwrap();
    for process in processes {
        let opening = vec![(at(1), note("start"))];
        log.begin(process, 1, Box::<Sentences>::default(), opening).unwrap();
        let mut spool = SpoolFiles::new(dir, process);
        for number in 0..80 {
            spool.write(Stream::Stdout, format!("line {number}.\n").as_bytes());
            spool.write(Stream::Stderr, format!("error {number}\n").as_bytes());
        }
        drain(&log, process);
        let lengths = spool.lengths();
        log.finish(process, lengths, at(9), || vec![(at(9), note("end"))]).unwrap();
    }
    processes
}

/// Every file of the attempt, the newest process's spool among them.
fn files(dir: &Path, process: ProcessId) -> Vec<PathBuf> {
    let spool = dir.join(process.to_string());
    let names = [dir.to_owned(), spool];
    let entries = names.iter().flat_map(|dir| fs::read_dir(dir).unwrap());
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.is_file());
    files
}

/// What the log shows, entry by entry; an error is an answer too.
fn shown(dir: &Path, process: ProcessId) -> [BTreeMap<u64, String>; 2] {
    let Ok(log) = AttemptLog::open(dir, NO_RING) else { return Default::default() };
    // As a restarted daemon goes on; it may be told that this can't be.
    let _ = log.begin(process, 1, Box::<Sentences>::default(), vec![]);
    let _ = log.pump(process);
    CHANNELS.map(|channel| {
        let mut seen = BTreeMap::new();
        let mut after = -1;
        while let Ok(page) = log.page(channel, &query(100, PagePosition::After(after))) {
            let entries = page.entries.iter();
            seen.extend(entries.map(|entry| (entry.index, entry.json().to_owned())));
            match page.entries.last() {
                Some(last) if page.flags.has_more => after = last.index.cast_signed(),
                _ => break,
            }
        }
        seen
    })
}

fn flip(path: &Path, byte: u64, bit: u64) {
    let mut bytes = fs::read(path).unwrap();
    bytes[usize::try_from(byte).unwrap()] ^= 1 << bit;
    let mut file = File::options().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(&bytes).unwrap();
}

fn is(path: &Path, ending: &str) -> bool {
    path.to_string_lossy().ends_with(ending)
}

#[test]
fn a_flipped_bit_in_any_file_never_turns_an_entry_into_another() {
    let root = tempfile::tempdir().unwrap();
    let whole = root.path().join("whole");
    let [_, process] = finished(&whole);
    let expected = shown(&whole, process);
    assert!(expected.iter().all(|channel| channel.len() > 300));
    let mut opened = 0;
    for path in files(&whole, process) {
        let name = path.strip_prefix(&whole).unwrap();
        let length = path.metadata().unwrap().len();
        let holds_texts = is(&path, ".jsonl") || is(&path, ".log");
        // All bits of one record, in the middle of the file.
        let bits = if holds_texts { 64 } else { 32 * 8 };
        for bit in 0..bits {
            let damaged = root.path().join("damaged");
            copy_dir(&whole, &damaged);
            flip(&damaged.join(name), (length / 2 + bit / 8).min(length - 1), bit % 8);
            let shown = shown(&damaged, process);
            opened += usize::from(!shown[0].is_empty());
            for (channel, expected) in shown.iter().zip(&expected) {
                let differing = channel.iter().filter(|(index, entry)| {
                    expected.get(index).is_none_or(|expected| expected != *entry)
                });
                // Where the words themselves lie they are others; a line's end that is
                // lost moves no entry beyond its block.
                let most = if holds_texts { 256 } else { 0 };
                let differing: Vec<_> = differing.collect();
                let first = differing.first();
                assert!(differing.len() <= most, "{} bit {bit}: {first:?}", name.display());
            }
            fs::remove_dir_all(&damaged).unwrap();
        }
    }
    assert!(opened > 500, "{opened}");
}

#[test]
fn files_cut_short_anywhere_in_their_tail_keep_every_whole_entry() {
    let root = tempfile::tempdir().unwrap();
    let whole = root.path().join("whole");
    let [_, process] = finished(&whole);
    let expected = shown(&whole, process);
    for path in files(&whole, process) {
        let name = path.strip_prefix(&whole).unwrap();
        let length = path.metadata().unwrap().len();
        for cut in 1..=length.min(150) {
            let damaged = root.path().join("damaged");
            copy_dir(&whole, &damaged);
            File::options()
                .write(true)
                .open(damaged.join(name))
                .and_then(|file| file.set_len(length - cut))
                .unwrap();
            let shown = shown(&damaged, process);
            for (channel, expected) in shown.iter().zip(&expected) {
                // A beginning of it, short by no more than the bytes can hold.
                let is_the_same = channel.iter().zip(expected).all(|(one, other)| one == other);
                let what = format!("{} cut by {cut}: {} left", name.display(), channel.len());
                assert!(is_the_same, "{what}, not the same");
                assert!(channel.len() + 260 > expected.len(), "{what} of {}", expected.len());
            }
            fs::remove_dir_all(&damaged).unwrap();
        }
    }
}
