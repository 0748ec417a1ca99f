//! Readers beside the pump.

use super::*;

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
