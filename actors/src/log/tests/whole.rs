//! One attempt's life, seen through its log.

use super::*;

#[test]
fn both_channels_tell_the_life_of_an_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let log = AttemptLog::open(dir.path(), LIMITS).unwrap();
    let (first, second) = (ProcessId::new(), ProcessId::new());
    let mut spool = SpoolFiles::new(dir.path(), first);
    log.begin(first, 1, Box::<Sentences>::default(), vec![(at(1), note("start 1"))]).unwrap();
    spool.write(Stream::Stdout, b"session s-1\r\nHello, ");
    spool.write(Stream::Stderr, b"careful\n");
    spool.write(Stream::Stdout, b"world.\nmore");
    drain(&log, first);
    log.append(first, 1, at(2), note("in between")).unwrap();
    let closing = vec![(at(3), note("end 1"))];
    log.finish(first, spool.lengths(), at(9), || closing).unwrap();
    let mut spool = SpoolFiles::new(dir.path(), second);
    log.begin(second, 2, Box::<Sentences>::default(), vec![(at(4), note("start 2"))]).unwrap();
    spool.write(Stream::Stdout, b"Again.\n");
    drain(&log, second);

    assert_eq!(
        texts(&log, Channel::Raw),
        ["session s-1", "careful", "Hello, world.", "more", "Again."]
    );
    assert_eq!(
        texts(&log, Channel::Normalized),
        ["start 1", "careful", "Hello, world.", "in between", "more", "end 1", "start 2", "Again."]
    );
    let entries = all(&log, Channel::Normalized);
    let last: NormalizedEntry = entries[7].parse().unwrap();
    assert_eq!((last.turn, last.execution_process_id, last.entry_index), (2, second, 7));
    let tip = log.tip();
    assert_eq!((tip.raw, tip.normalized), (Some(4), Some(7)));
    // What was written last counts, also by a clock that was set back.
    assert_eq!(tip.last_activity_at, Some(at(1_000_001)));
}

#[test]
fn a_reopened_log_is_the_same_with_and_without_the_ring() {
    let dir = tempfile::tempdir().unwrap();
    let log = AttemptLog::open(dir.path(), LIMITS).unwrap();
    let process = ProcessId::new();
    let mut spool = SpoolFiles::new(dir.path(), process);
    log.begin(process, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
    for number in 0..3000 {
        let stream = if number % 7 == 0 { Stream::Stderr } else { Stream::Stdout };
        spool.write(stream, format!("{}{number}.\n", "x".repeat(number % 90)).as_bytes());
    }
    drain(&log, process);
    log.finish(process, spool.lengths(), at(9), Vec::new).unwrap();
    let reopened = AttemptLog::open(dir.path(), NO_RING).unwrap();
    assert_eq!(log.tip(), reopened.tip());
    for channel in [Channel::Raw, Channel::Normalized] {
        let entries = json(&log, channel);
        assert_eq!(entries.len(), 3000);
        assert_eq!(json(&reopened, channel), entries);
        let mut back: Vec<String> = Vec::new();
        let mut place = PagePosition::Newest;
        loop {
            let page = reopened.page(channel, &query(170, place)).unwrap();
            back.splice(0..0, page.entries.iter().map(|entry| entry.json().to_owned()));
            let Some(cursor) = page.flags.next_cursor else { break };
            place = PagePosition::Before(cursor);
        }
        assert_eq!(back, entries);
    }
}

#[test]
fn lines_of_processes_that_write_at_once_keep_their_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let log = AttemptLog::open(dir.path(), NO_RING).unwrap();
    let processes = [ProcessId::new(), ProcessId::new(), ProcessId::new()];
    let mut spools = processes.map(|process| SpoolFiles::new(dir.path(), process));
    for process in processes {
        log.begin(process, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
    }
    let mut expected = Vec::new();
    for round in 0..200 {
        let which = (round * round + round / 3) % 3;
        spools[which].write(Stream::Stdout, format!("{which}-{round}.\nopen ").as_bytes());
        drain(&log, processes[which]);
        expected.push(format!("{which}-{round}."));
    }
    let seen: Vec<String> = texts(&log, Channel::Raw)
        .into_iter()
        .map(|line| line.trim_start_matches("open ").to_owned())
        .collect();
    assert_eq!(seen, expected);
    let reopened = AttemptLog::open(dir.path(), NO_RING).unwrap();
    assert_eq!(json(&reopened, Channel::Raw), json(&log, Channel::Raw));
}

#[test]
fn a_message_in_progress_is_shown_until_it_is_an_entry() {
    let dir = tempfile::tempdir().unwrap();
    let log = AttemptLog::open(dir.path(), LIMITS).unwrap();
    let process = ProcessId::new();
    let mut spool = SpoolFiles::new(dir.path(), process);
    log.begin(process, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
    spool.write(Stream::Stdout, format!("{}€\n", "x".repeat(5000)).as_bytes());
    drain(&log, process);
    let page = log.page(Channel::Normalized, &query(10, PagePosition::Newest)).unwrap();
    let shown = page.in_progress.unwrap();
    assert!(page.entries.is_empty() && shown.text.len() <= 4096 && shown.text.ends_with("x€"));
    spool.write(Stream::Stdout, b".\n");
    drain(&log, process);
    let page = log.page(Channel::Normalized, &query(10, PagePosition::Newest)).unwrap();
    assert_eq!((page.entries.len(), page.in_progress), (1, None));
}

#[test]
fn what_leftovers_write_after_the_end_are_system_messages() {
    let dir = tempfile::tempdir().unwrap();
    let process = ProcessId::new();
    let mut spool = SpoolFiles::new(dir.path(), process);
    let log = AttemptLog::open(dir.path(), LIMITS).unwrap();
    log.begin(process, 3, Box::<Sentences>::default(), Vec::new()).unwrap();
    spool.write(Stream::Stdout, b"Done.\nopen");
    let lengths = spool.lengths();
    spool.write(Stream::Stdout, b"later\n");
    log.finish(process, lengths, at(3), || vec![(at(3), note("end"))]).unwrap();
    drain(&log, process);
    spool.write(Stream::Stderr, b"latest\n");
    let log = AttemptLog::open(dir.path(), LIMITS).unwrap();
    drain(&log, process);
    assert_eq!(texts(&log, Channel::Raw), ["Done.", "open", "later", "latest"]);
    let normalized = ["Done.", "open", "end", "later", "latest"];
    assert_eq!(texts(&log, Channel::Normalized), normalized);
    let last: NormalizedEntry = all(&log, Channel::Normalized)[4].parse().unwrap();
    assert_eq!((last.turn, last.event), (3, note("latest")));
}

#[test]
fn beginning_and_finishing_again_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let process = ProcessId::new();
    let mut spool = SpoolFiles::new(dir.path(), process);
    spool.write(Stream::Stdout, b"session s-1\nHello.\n");
    for _ in 0..3 {
        let log = AttemptLog::open(dir.path(), LIMITS).unwrap();
        for _ in 0..2 {
            let opening = vec![(at(1), note("start"))];
            log.begin(process, 1, Box::<Sentences>::default(), opening).unwrap();
            let closing = vec![(at(2), note("end"))];
            log.finish(process, spool.lengths(), at(9), || closing).unwrap();
        }
        assert_eq!(texts(&log, Channel::Normalized), ["start", "Hello.", "end"]);
    }
}

#[test]
fn a_process_never_begun_is_refused_and_the_log_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let log = AttemptLog::open(dir.path(), LIMITS).unwrap();
    let process = ProcessId::new();
    assert!(matches!(log.pump(process), Err(LogError::NotBegun(id)) if id == process));
    log.append(process, 1, at(1), note("hello")).unwrap();
    assert_eq!(texts(&log, Channel::Normalized), ["hello"]);
}

#[test]
fn after_a_failed_write_the_same_call_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let limits = LogLimits { spool_max_bytes: 1 << 20, ..LIMITS };
    let log = AttemptLog::open(dir.path(), limits).unwrap();
    let process = ProcessId::new();
    let mut spool = SpoolFiles::new(dir.path(), process);
    log.begin(process, 1, Box::<Sentences>::default(), Vec::new()).unwrap();
    for number in 0..1000 {
        spool.write(Stream::Stdout, format!("half {number}\n, {number}.\n").as_bytes());
    }
    let expected: Vec<String> =
        (0..1000).map(|number| format!("half {number}, {number}.")).collect();
    // Where the checkpoint would go stands a folder: it can't be replaced.
    let checkpoint = dir.path().join("checkpoint.json");
    let kept = fs::read(&checkpoint).unwrap();
    fs::remove_file(&checkpoint).unwrap();
    fs::create_dir(&checkpoint).unwrap();
    log.finish(process, spool.lengths(), at(9), || vec![(at(9), note("end"))]).unwrap_err();
    log.finish(process, spool.lengths(), at(9), || vec![(at(9), note("end"))]).unwrap_err();
    fs::remove_dir(&checkpoint).unwrap();
    fs::write(&checkpoint, kept).unwrap();
    log.finish(process, spool.lengths(), at(9), || vec![(at(9), note("end"))]).unwrap();
    let texts = texts(&log, Channel::Normalized);
    assert_eq!((&texts[..1000], &texts[1000..]), (&expected[..], &["end".to_owned()][..]));
}
