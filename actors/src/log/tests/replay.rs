//! What is on file comes out again, and what was changed there is found.

use proptest::prelude::*;

use super::super::{Difference, Replay, replay};
use super::*;

/// Replays with the same normalizer; what was shown.
fn again(dir: &Path) -> (Replay, Vec<String>) {
    let mut shown = Vec::new();
    let outcome = replay(
        dir,
        None,
        |_| Ok(Box::<Sentences>::default()),
        |entry| {
            shown.push(entry.json().to_owned());
            Ok(())
        },
    );
    (outcome.unwrap(), shown)
}

/// All that is on file comes out the same.
pub fn assert_the_same(log: &AttemptLog, dir: &Path) {
    let (outcome, shown) = again(dir);
    let on_file = json(log, Channel::Normalized);
    assert!(matches!(outcome, Replay::Same(count) if count == on_file.len() as u64), "{outcome:?}");
    assert_eq!(shown, on_file);
}

fn differs(outcome: Replay) -> Difference {
    let Replay::Differs(difference) = outcome else { panic!("{outcome:?}") };
    difference
}

/// One process that said three things and ended.
fn three(dir: &Path) -> AttemptLog {
    let log = AttemptLog::open(dir, NO_RING).unwrap();
    let process = ProcessId::new();
    let mut spool = SpoolFiles::new(dir, process);
    log.begin(process, 1, Box::<Sentences>::default(), vec![(at(1), note("start"))]).unwrap();
    spool.write(Stream::Stdout, b"One.\nTwo.\nthree");
    drain(&log, process);
    log.finish(process, spool.lengths(), at(9), || vec![(at(9), note("end"))]).unwrap();
    log
}

fn change(dir: &Path, from: &str, to: &str) {
    let path = dir.join("normalized-00000000000000000000.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from));
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn an_attempt_without_a_log_has_nothing_to_differ() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(again(&dir.path().join("none")).0, Replay::Same(0)));
}

#[test]
fn an_entry_that_was_changed_is_found() {
    let dir = tempfile::tempdir().unwrap();
    assert_the_same(&three(dir.path()), dir.path());
    change(dir.path(), "Two.", "Tow.");
    let (outcome, shown) = again(dir.path());
    let difference = differs(outcome);
    assert_eq!((difference.entry_index, shown.len()), (2, 2));
    assert_eq!(text(&difference.on_file.unwrap()), "Tow.");
    assert_eq!(text(&difference.derived.unwrap()), "Two.");
}

#[test]
fn an_entry_for_which_there_is_no_line_is_found() {
    let dir = tempfile::tempdir().unwrap();
    three(dir.path());
    change(dir.path(), "\t{\"raw\":1}", "\t{\"raw\":7}");
    let difference = differs(again(dir.path()).0);
    assert_eq!(difference.entry_index, 2);
}

#[test]
fn an_entry_that_is_missing_is_found() {
    let dir = tempfile::tempdir().unwrap();
    three(dir.path());
    let path = dir.path().join("normalized-00000000000000000000.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let kept: String = text.split_inclusive('\n').filter(|line| !line.contains("three")).collect();
    fs::write(path, kept).unwrap();
    let difference = differs(again(dir.path()).0);
    assert!(difference.on_file.is_none());
    assert_eq!(super::text(&difference.derived.unwrap()), "three");
}

#[test]
fn lines_that_retention_took_are_reported_as_gone() {
    let dir = tempfile::tempdir().unwrap();
    let log = AttemptLog::open(dir.path(), NO_RING).unwrap();
    let process = ProcessId::new();
    let mut spool = SpoolFiles::new(dir.path(), process);
    log.begin(process, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
    for number in 0..500 {
        spool.write(Stream::Stdout, format!("{number:01022}.\n").as_bytes());
    }
    drain(&log, process);
    spool.drop_oldest(Stream::Stdout, 2);
    assert!(matches!(again(dir.path()).0, Replay::Gone(gone) if gone == process));
}

#[test]
fn a_channel_that_begins_later_is_held_against_what_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let limits = LogLimits { spool_max_bytes: 64 * 1024, ..NO_RING };
    let log = AttemptLog::open(dir.path(), limits).unwrap();
    let process = ProcessId::new();
    let mut spool = SpoolFiles::new(dir.path(), process);
    log.begin(process, 1, Box::<Sentences>::default(), vec![(at(1), note("start"))]).unwrap();
    for number in 0..2000 {
        spool.write(Stream::Stdout, format!("twice {number:0200}.\n").as_bytes());
        if number % 50 == 0 {
            drain(&log, process);
        }
    }
    drain(&log, process);
    assert!(
        log.page(Channel::Normalized, &query(1, PagePosition::Newest))
            .unwrap()
            .flags
            .history_truncated
    );
    assert_the_same(&log, dir.path());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_was_written_comes_out_the_same(
        steps in prop::collection::vec((0..2_usize, any::<bool>(), "[a-c.\n]{0,12}|twice x\n", 0..12_u8), 0..40),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let log = AttemptLog::open(dir.path(), NO_RING).unwrap();
        let processes = [ProcessId::new(), ProcessId::new()];
        for process in processes {
            let opening = vec![(at(1), note("start"))];
            log.begin(process, 1, Box::<Sentences>::default(), opening).unwrap();
        }
        for (which, is_stderr, text, next) in steps {
            let (process, stream) =
                (processes[which], if is_stderr { Stream::Stderr } else { Stream::Stdout });
            let mut spool = SpoolFiles::new(dir.path(), process);
            spool.write(stream, text.as_bytes());
            match next {
                0 => {
                    let closing = vec![(at(9), note("end"))];
                    log.finish(process, spool.lengths(), at(9), || closing).unwrap();
                }
                1 => log.append(process, 1, at(5), note("between")).unwrap(),
                2..6 => drain(&log, process),
                _ => {}
            }
        }
        assert_the_same(&log, dir.path());
    }
}
