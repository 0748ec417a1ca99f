//! Full segments are compressed behind the readers' backs.

use super::retention::write_lines;
use super::*;

/// Segments of 256 KiB.
const SMALL: LogLimits = LogLimits { spool_max_bytes: 1 << 22, ..NO_RING };

fn names(dir: &Path, suffix: &str) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name());
    let mut names: Vec<String> =
        names.map(|it| it.into_string().unwrap()).filter(|it| it.ends_with(suffix)).collect();
    names.sort();
    names
}

/// Waits until each segment but the newest is sealed, and nothing else is left.
fn all_sealed(dir: &Path) {
    let begun = std::time::Instant::now();
    while names(dir, ".jsonl").len() > 1 || !names(dir, ".tmp").is_empty() {
        assert!(begun.elapsed().as_secs() < 60, "{:?}", names(dir, ""));
        std::thread::yield_now();
    }
}

/// A log of several segments, all of them sealed but the newest, and what it held before.
fn long_log(dir: &Path) -> Vec<String> {
    let process = ProcessId::new();
    let mut spool = SpoolFiles::new(dir, process);
    let log = AttemptLog::open(dir, SMALL).unwrap();
    log.begin(process, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
    for part in 0..20 {
        write_lines(&mut spool, part * 100..(part + 1) * 100);
        drain(&log, process);
    }
    log.finish(process, spool.lengths(), at(9), Vec::new).unwrap();
    let held = json(&log, Channel::Normalized);
    all_sealed(dir);
    assert!(names(dir, ".jsonl.zst").len() > 2);
    held
}

#[test]
fn sealed_segments_hold_the_same_entries() {
    let dir = tempfile::tempdir().unwrap();
    let held = long_log(dir.path());
    let log = AttemptLog::open(dir.path(), SMALL).unwrap();
    assert_eq!(json(&log, Channel::Normalized), held);
    for cursor in (1..held.len()).step_by(97) {
        let page = log.page(Channel::Normalized, &query(7, PagePosition::Before(cursor as u64)));
        let entries: Vec<String> =
            page.unwrap().entries.iter().map(|entry| entry.json().to_owned()).collect();
        assert_eq!(entries, held[cursor.saturating_sub(7)..cursor]);
    }
}

#[test]
fn a_crash_between_the_two_files_of_a_segment_loses_nothing_and_the_rest_is_done_later() {
    let dir = tempfile::tempdir().unwrap();
    let held = long_log(dir.path());
    let sealed = names(dir.path(), ".jsonl.zst");
    let path = |name: &str| dir.path().join(name);
    // Before the old file was removed, and before the new one had its name.
    let whole = zstd::decode_all(File::open(path(&sealed[0])).unwrap()).unwrap();
    fs::write(path(sealed[0].strip_suffix(".zst").unwrap()), whole).unwrap();
    let whole = zstd::decode_all(File::open(path(&sealed[1])).unwrap()).unwrap();
    fs::write(path(sealed[1].strip_suffix(".zst").unwrap()), whole).unwrap();
    let cut = fs::read(path(&sealed[1])).unwrap();
    fs::write(path(&sealed[1]).with_extension("tmp"), &cut[..cut.len() / 2]).unwrap();
    fs::remove_file(path(&sealed[1])).unwrap();
    let log = AttemptLog::open(dir.path(), SMALL).unwrap();
    assert_eq!(json(&log, Channel::Normalized), held);
    all_sealed(dir.path());
    assert_eq!(names(dir.path(), ".jsonl.zst"), sealed);
    assert_eq!(json(&log, Channel::Normalized), held);
}

#[test]
fn an_index_that_is_lost_is_made_from_sealed_segments_too() {
    let dir = tempfile::tempdir().unwrap();
    let held = long_log(dir.path());
    fs::remove_file(dir.path().join("normalized.idx")).unwrap();
    let log = AttemptLog::open(dir.path(), SMALL).unwrap();
    assert_eq!(json(&log, Channel::Normalized), held);
}

#[test]
fn a_newest_segment_that_is_sealed_is_followed_by_another() {
    let dir = tempfile::tempdir().unwrap();
    let held = long_log(dir.path());
    let newest = names(dir.path(), ".jsonl").remove(0);
    let lost = fs::read_to_string(dir.path().join(&newest)).unwrap().lines().count();
    fs::remove_file(dir.path().join(newest)).unwrap();
    fs::remove_file(dir.path().join("checkpoint.json")).unwrap();
    let log = AttemptLog::open(dir.path(), SMALL).unwrap();
    assert_eq!(json(&log, Channel::Normalized), held[..held.len() - lost]);
    log.append(ProcessId::new(), 1, at(1), note("after it")).unwrap();
    assert_eq!(texts(&log, Channel::Normalized).last().unwrap(), "after it");
}

#[test]
fn a_damaged_segment_leaves_the_others_readable_also_without_an_index() {
    let dir = tempfile::tempdir().unwrap();
    let held = long_log(dir.path());
    let path = dir.path().join(&names(dir.path(), ".jsonl.zst")[1]);
    let mut bytes = fs::read(&path).unwrap();
    bytes[100] ^= 1;
    fs::write(&path, bytes).unwrap();
    for has_index in [true, false] {
        if !has_index {
            fs::remove_file(dir.path().join("normalized.idx")).unwrap();
        }
        let log = AttemptLog::open(dir.path(), SMALL).unwrap();
        for place in [PagePosition::Before(50), PagePosition::Newest] {
            let page = log.page(Channel::Normalized, &query(50, place)).unwrap();
            let first = usize::try_from(page.entries[0].index).unwrap();
            let read: Vec<String> = page.entries.iter().map(|it| it.json().to_owned()).collect();
            assert_eq!(read, held[first..first + 50]);
        }
        let damaged = log.page(Channel::Normalized, &query(300, PagePosition::After(200)));
        assert!(matches!(damaged, Err(LogError::Damaged(_))), "{damaged:?}");
    }
}
