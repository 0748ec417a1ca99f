//! Segments go; numbers stay.

use super::*;

const LINES_A_SEGMENT: usize = 64;

/// A line of 1 KiB.
fn line(number: usize) -> String {
    format!("{number:01022}.")
}

pub fn write_lines(spool: &mut SpoolFiles, numbers: std::ops::Range<usize>) {
    for number in numbers {
        spool.write(Stream::Stdout, format!("{}\n", line(number)).as_bytes());
    }
}

/// Each held entry still is the line it was, and what isn't held is told.
fn check_history(log: &AttemptLog, channel: Channel, at_least_from: u64, next: u64) -> u64 {
    let page = log.page(channel, &query(1000, PagePosition::After(-1))).unwrap();
    let oldest = page.flags.oldest.unwrap();
    assert!(page.flags.history_truncated && oldest >= at_least_from);
    assert_eq!(page.flags.latest, Some(next - 1));
    let entries = all(log, channel);
    assert!(entries.iter().map(|entry| entry.index).eq(oldest..next));
    for entry in entries {
        assert_eq!(text(&entry), line(usize::try_from(entry.index).unwrap()));
    }
    oldest
}

#[test]
fn raw_history_begins_later_when_the_spool_lost_segments() {
    let dir = tempfile::tempdir().unwrap();
    let log = AttemptLog::open(dir.path(), NO_RING).unwrap();
    let process = ProcessId::new();
    let mut spool = SpoolFiles::new(dir.path(), process);
    log.begin(process, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
    write_lines(&mut spool, 0..1000);
    drain(&log, process);
    let first = log.page(Channel::Raw, &query(10, PagePosition::After(-1))).unwrap();
    assert_eq!((first.flags.oldest, first.flags.history_truncated), (Some(0), false));
    spool.drop_oldest(Stream::Stdout, 6);
    let gone = (1000_usize.div_ceil(LINES_A_SEGMENT) - 6) * LINES_A_SEGMENT;
    let oldest = check_history(&log, Channel::Raw, gone as u64, 1000);
    assert!(oldest < gone as u64 + 64, "no more than a block is given up");
    let before = log.page(Channel::Raw, &query(10, PagePosition::Before(oldest))).unwrap();
    assert_eq!((before.entries.len(), before.flags.has_more), (0, false));
    write_lines(&mut spool, 1000..1500);
    drain(&log, process);
    check_history(&log, Channel::Raw, gone as u64, 1500);
    let reopened = AttemptLog::open(dir.path(), NO_RING).unwrap();
    check_history(&reopened, Channel::Raw, gone as u64, 1500);
}

#[test]
fn what_was_lost_unread_leaves_a_number_out() {
    let dir = tempfile::tempdir().unwrap();
    let log = AttemptLog::open(dir.path(), NO_RING).unwrap();
    let (process, other) = (ProcessId::new(), ProcessId::new());
    let mut spool = SpoolFiles::new(dir.path(), process);
    let mut other_spool = SpoolFiles::new(dir.path(), other);
    for id in [process, other] {
        log.begin(id, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
    }
    write_lines(&mut spool, 0..100);
    drain(&log, process);
    write_lines(&mut other_spool, 0..10);
    drain(&log, other);
    write_lines(&mut spool, 100..1000);
    spool.drop_oldest(Stream::Stdout, 2);
    // Nothing of the attempt's is numbered yet behind what was lost.
    assert_eq!(
        log.page(Channel::Raw, &query(10, PagePosition::After(109))).unwrap().entries.len(),
        0
    );
    drain(&log, process);
    // Nothing tells that the first one held is whole: it goes with what was lost.
    let held = 15 * LINES_A_SEGMENT - LINES_A_SEGMENT + 1..1000;
    for log in [&log, &AttemptLog::open(dir.path(), NO_RING).unwrap()] {
        let page = log.page(Channel::Raw, &query(1000, PagePosition::After(109))).unwrap();
        // The segment that was open could still be read: 28 lines, now gone too.
        assert_eq!(page.flags.oldest, Some(139), "138 was left out");
        let texts: Vec<String> = page.entries.iter().map(text).collect();
        assert_eq!(texts, held.clone().map(line).collect::<Vec<_>>());
        assert_eq!(page.flags.latest, Some(138 + held.len() as u64));
    }
    write_lines(&mut other_spool, 10..20);
    drain(&log, other);
    let newest = log.page(Channel::Raw, &query(10, PagePosition::Newest)).unwrap();
    assert_eq!(
        newest.entries.iter().map(text).collect::<Vec<_>>(),
        (10..20).map(line).collect::<Vec<_>>()
    );
}

#[test]
fn behind_a_hole_the_log_goes_on_at_the_beginning_of_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let process = ProcessId::new();
    let mut spool = SpoolFiles::new(dir.path(), process);
    let log = AttemptLog::open(dir.path(), NO_RING).unwrap();
    log.begin(process, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
    let odd = |number: usize| format!("{number:0>999}.");
    let write = |spool: &mut SpoolFiles, numbers: std::ops::Range<usize>| {
        for number in numbers {
            spool.write(Stream::Stdout, format!("{}\n", odd(number)).as_bytes());
        }
    };
    // A line that has begun to be read loses its end.
    write(&mut spool, 0..10);
    spool.write(Stream::Stdout, b"begun and ");
    drain(&log, process);
    drop(log);
    spool.write(Stream::Stdout, b"ended\n");
    write(&mut spool, 10..500);
    // The hole ends in a line whose end is still to come.
    spool.write(Stream::Stdout, &vec![b'x'; 300_000]);
    spool.drop_oldest(Stream::Stdout, 1);
    let log = AttemptLog::open(dir.path(), NO_RING).unwrap();
    log.begin(process, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
    drain(&log, process);
    let before: Vec<String> = (0..10).map(odd).collect();
    assert_eq!(texts(&log, Channel::Normalized), before, "nothing whole is there yet");
    drop(log);
    let log = AttemptLog::open(dir.path(), NO_RING).unwrap();
    log.begin(process, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
    drain(&log, process);
    assert_eq!(texts(&log, Channel::Normalized), before);
    spool.write(Stream::Stdout, b"end of it.\n");
    write(&mut spool, 600..650);
    drain(&log, process);
    let after: Vec<String> = (600..650).map(odd).collect();
    assert_eq!(texts(&log, Channel::Raw), after);
    assert_eq!(texts(&log, Channel::Normalized), [before, after].concat());
    let page = log.page(Channel::Raw, &query(10, PagePosition::Newest)).unwrap();
    assert!(page.flags.history_truncated);
}

#[test]
fn what_was_lost_while_the_daemon_was_away_never_reuses_a_number() {
    let dir = tempfile::tempdir().unwrap();
    let process = ProcessId::new();
    let mut spool = SpoolFiles::new(dir.path(), process);
    let log = AttemptLog::open(dir.path(), NO_RING).unwrap();
    log.begin(process, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
    write_lines(&mut spool, 0..100);
    drain(&log, process);
    let shown = log.tip();
    drop(log);
    write_lines(&mut spool, 100..1000);
    spool.drop_oldest(Stream::Stdout, 2);
    let log = AttemptLog::open(dir.path(), NO_RING).unwrap();
    log.begin(process, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
    drain(&log, process);
    let page = log.page(Channel::Raw, &query(1000, PagePosition::After(-1))).unwrap();
    assert!(page.flags.oldest > shown.raw && page.flags.history_truncated);
    // The first line behind the hole looks like the rest of a longer one.
    let held = 14 * LINES_A_SEGMENT + 1..1000;
    assert_eq!(
        page.entries.iter().map(text).collect::<Vec<_>>(),
        held.clone().map(line).collect::<Vec<_>>()
    );
    let normalized = texts(&log, Channel::Normalized);
    assert_eq!(normalized, (0..100).chain(held).map(line).collect::<Vec<_>>());
}

#[test]
fn the_normalized_channel_keeps_to_its_limit_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let limits = LogLimits { spool_max_bytes: 300 * 1024, ..NO_RING };
    let process = ProcessId::new();
    let mut spool = SpoolFiles::new(dir.path(), process);
    let mut oldest = 0;
    for round in 1..=5 {
        let log = AttemptLog::open(dir.path(), limits).unwrap();
        log.begin(process, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
        write_lines(&mut spool, (round - 1) * 400..round * 400);
        drain(&log, process);
        let now = check_history(&log, Channel::Normalized, oldest + 1, round as u64 * 400);
        assert!(round as u64 * 400 - now >= 150, "most of the limit is used");
        oldest = now;
        let held: u64 = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_name().to_string_lossy().contains(".jsonl"))
            // One that is being compressed goes meanwhile.
            .filter_map(|entry| Some(entry.metadata().ok()?.len()))
            .sum();
        assert!(held <= 300 * 1024);
    }
}
