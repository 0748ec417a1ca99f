//! Readers beside the pump.

use super::*;
use crate::log::spool::format::segment_bytes;

const LINES: u64 = 50_000;

#[test]
fn a_follower_sees_each_of_many_lines_once_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let limits = LogLimits { ring_entries: 500, ring_bytes: 1 << 20, ..LIMITS };
    let log = AttemptLog::open(dir.path(), limits).unwrap();
    let process = ProcessId::new();
    log.begin(process, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
    std::thread::scope(|scope| {
        for channel in [Channel::Raw, Channel::Normalized] {
            let log = &log;
            scope.spawn(move || {
                let mut changed = log.changed();
                let mut after = -1;
                while after + 1 < i64::try_from(LINES).unwrap() {
                    changed.mark_unchanged();
                    let page = log.page(channel, &query(300, PagePosition::After(after))).unwrap();
                    for entry in &page.entries {
                        after += 1;
                        assert_eq!(i64::try_from(entry.index).unwrap(), after);
                        assert_eq!(text(entry), format!("line {after}."));
                    }
                    if page.entries.is_empty() {
                        while !changed.has_changed().unwrap() {
                            std::thread::yield_now();
                        }
                    }
                }
            });
        }
        let mut spool = SpoolFiles::new(dir.path(), process);
        for first in (0..LINES).step_by(100) {
            let numbers = first..first + 100;
            let lines =
                numbers.map(|number| format!("line {number}.\n")).collect::<Vec<_>>().concat();
            let (head, rest) = lines.as_bytes().split_at(777);
            spool.write(Stream::Stdout, head);
            log.pump(process).unwrap();
            spool.write(Stream::Stdout, rest);
        }
        drain(&log, process);
    });
    assert_eq!(log.tip().raw, Some(LINES - 1));
}

#[test]
fn a_page_in_memory_is_the_same_as_one_that_was_read() {
    let dir = tempfile::tempdir().unwrap();
    let limits = LogLimits { ring_entries: 50, ring_bytes: 1 << 20, spool_max_bytes: 16 * 1024 };
    let log = AttemptLog::open(dir.path(), limits).unwrap();
    let process = ProcessId::new();
    log.begin(process, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
    let mut spool = SpoolFiles::new(dir.path(), process);
    let mut write = |lines: std::ops::Range<i64>| {
        for number in lines {
            spool.write(Stream::Stdout, format!("{number}.\n").as_bytes());
        }
        drain(&log, process);
    };
    let newest = query(20, PagePosition::Newest);
    let is_in_memory = |place| {
        let query = query(20, place);
        let page = log.page(Channel::Normalized, &query).unwrap();
        let Some(known) = log.page_in_memory(Channel::Normalized, &query) else { return false };
        assert_eq!((known.entries, known.flags), (page.entries, page.flags), "{place:?}");
        true
    };
    assert!(is_in_memory(PagePosition::Newest), "an empty one");
    write(0..60);
    for place in [PagePosition::Newest, PagePosition::Before(40), PagePosition::After(9)] {
        assert!(is_in_memory(place), "{place:?}");
    }
    assert!(is_in_memory(PagePosition::After(59)) && is_in_memory(PagePosition::After(100)));
    for place in [PagePosition::Before(15), PagePosition::After(8), PagePosition::After(-1)] {
        assert!(!is_in_memory(place), "{place:?}");
    }
    assert!(log.page_in_memory(Channel::Raw, &newest).is_none());
    write(60..5000);
    assert!(log.page(Channel::Normalized, &newest).unwrap().flags.history_truncated);
    assert!(!is_in_memory(PagePosition::Newest), "retention has removed older ones");
}

#[test]
fn a_reader_is_woken_once_for_both_channels() {
    let dir = tempfile::tempdir().unwrap();
    let log = AttemptLog::open(dir.path(), LIMITS).unwrap();
    let process = ProcessId::new();
    log.begin(process, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
    let mut spool = SpoolFiles::new(dir.path(), process);
    let changes = |log: &AttemptLog| *log.changed().borrow();
    for line in ["an entry.\n", "no entry yet\n", "session one\n"] {
        let before = changes(&log);
        spool.write(Stream::Stdout, line.as_bytes());
        drain(&log, process);
        assert_eq!(changes(&log), before + 1, "{line:?}");
        drain(&log, process);
        assert_eq!(changes(&log), before + 1, "nothing is new after {line:?}");
    }
}

#[test]
fn a_reader_of_raw_lines_is_woken_while_their_entries_can_not_be_filed() {
    let dir = tempfile::tempdir().unwrap();
    let limits = LogLimits { spool_max_bytes: 16 * 1024, ..LIMITS };
    let log = AttemptLog::open(dir.path(), limits).unwrap();
    let process = ProcessId::new();
    log.begin(process, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
    let mut spool = SpoolFiles::new(dir.path(), process);
    let segment = |start: u64| dir.path().join(format!("normalized-{start:020}.jsonl"));
    let length = || fs::metadata(segment(0)).unwrap().len();
    while length() < segment_bytes(limits.spool_max_bytes) {
        spool.write(Stream::Stdout, b"an entry.\n");
        drain(&log, process);
    }
    // The next entry begins a segment, which this stands in the way of.
    let obstacle = segment(length());
    fs::create_dir(&obstacle).unwrap();
    let changes = || *log.changed().borrow();
    let (before, tip) = (changes(), log.tip());
    spool.write(Stream::Stdout, b"one more.\n");
    log.pump(process).unwrap_err();
    assert_eq!((log.tip().raw, log.tip().normalized), (tip.raw.map(|it| it + 1), tip.normalized));
    assert_eq!(changes(), before + 1);
    let page = log.page(Channel::Raw, &query(1, PagePosition::Newest)).unwrap();
    assert_eq!(text(&page.entries[0]), "one more.");
    log.pump(process).unwrap_err();
    assert_eq!(changes(), before + 1, "nothing is new");
    fs::remove_dir(obstacle).unwrap();
    drain(&log, process);
    assert_eq!(log.tip().normalized, tip.normalized.map(|it| it + 1));
    assert_eq!(changes(), before + 2);
}
