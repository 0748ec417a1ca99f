use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::os::fd::AsFd;
use std::thread;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use proptest::prelude::*;

use super::*;

const NO_LIMIT: u64 = 1 << 30;

fn test_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = pipe().unwrap();
    fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    (reader, writer)
}

/// Puts `bytes` into the spool by way of a pipe.
fn feed(spool: &mut SpoolWriter, stream: Stream, bytes: &[u8]) {
    for chunk in bytes.chunks(CHUNK) {
        let (reader, mut writer) = test_pipe();
        writer.write_all(chunk).unwrap();
        drop(writer);
        while spool.take(stream, reader.as_fd()).unwrap() != Taken::End {}
    }
}

fn records(dir: &Path) -> Vec<Record> {
    let bytes = fs::read(dir.join(INDEX)).unwrap();
    assert_eq!(bytes.len() % RECORD_LEN, 0);
    let record = |bytes: &[u8]| Record::decode(bytes).unwrap();
    bytes.chunks(RECORD_LEN).map(record).collect()
}

/// The stream's bytes, as held; every one of them covered by exactly one record.
fn held(dir: &Path, stream: Stream) -> Vec<u8> {
    let starts = format::segments(dir, stream).unwrap();
    let bytes: Vec<u8> = starts
        .iter()
        .flat_map(|&start| fs::read(format::segment_path(dir, stream, start)).unwrap())
        .collect();
    let mut covered = 0;
    for record in records(dir).iter().filter(|record| record.stream == stream) {
        assert_eq!(record.offset, covered);
        covered = record.end();
    }
    assert_eq!(covered, starts.first().copied().unwrap_or(0) + bytes.len() as u64);
    bytes
}

fn numbered(count: u32) -> Vec<u8> {
    (0..count).flat_map(|number| format!("line {number}\n").into_bytes()).collect()
}

#[test]
fn what_a_pipe_brought_is_held_and_recorded_with_and_without_splice() {
    for can_splice in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = SpoolWriter::open(dir.path(), NO_LIMIT).unwrap();
        spool.can_splice = can_splice;
        let (reader, mut writer) = test_pipe();
        assert_eq!(spool.take(Stream::Stdout, reader.as_fd()).unwrap(), Taken::Nothing);

        let bytes = numbered(100_000);
        let sent = bytes.clone();
        let sender = thread::spawn(move || writer.write_all(&sent).unwrap());
        while spool.take(Stream::Stdout, reader.as_fd()).unwrap() != Taken::End {}
        sender.join().unwrap();
        feed(&mut spool, Stream::Stderr, b"oops\n");
        assert_eq!(spool.can_splice, can_splice);
        assert_eq!(spool.len(Stream::Stdout), bytes.len() as u64);
        assert_eq!(held(dir.path(), Stream::Stdout), bytes);
        assert_eq!(held(dir.path(), Stream::Stderr), b"oops\n");
    }
}

#[test]
fn segments_roll_at_their_size_and_the_oldest_go() {
    let dir = tempfile::tempdir().unwrap();
    let limit = 256 * 1024;
    let mut spool = SpoolWriter::open(dir.path(), limit).unwrap();
    feed(&mut spool, Stream::Stderr, b"early and small\n");
    let bytes = numbered(100_000);
    feed(&mut spool, Stream::Stdout, &bytes);

    let starts = format::segments(dir.path(), Stream::Stdout).unwrap();
    assert!(starts[0] > 0, "nothing went");
    assert!(starts.iter().all(|start| start % format::segment_bytes(limit) == 0));
    let held: Vec<u8> = starts
        .iter()
        .flat_map(|&start| {
            fs::read(format::segment_path(dir.path(), Stream::Stdout, start)).unwrap()
        })
        .collect();
    assert!(held.len() as u64 <= limit);
    assert!(bytes.ends_with(&held));
    assert_eq!(spool.len(Stream::Stdout), bytes.len() as u64);
    assert_eq!(format::segments(dir.path(), Stream::Stderr).unwrap(), [0]);
}

#[test]
fn an_index_torn_at_any_byte_is_repaired_and_the_spool_goes_on() {
    let whole = tempfile::tempdir().unwrap();
    let mut spool = SpoolWriter::open(whole.path(), NO_LIMIT).unwrap();
    for (stream, text) in
        [(Stream::Stdout, "one\n"), (Stream::Stderr, "two\n"), (Stream::Stdout, "three\n")]
    {
        feed(&mut spool, stream, text.as_bytes());
    }
    let before = records(whole.path());
    let index = fs::read(whole.path().join(INDEX)).unwrap();

    for torn_at in 0..=index.len() {
        fs::write(whole.path().join(INDEX), &index[..torn_at]).unwrap();
        let mut spool = SpoolWriter::open(whole.path(), NO_LIMIT).unwrap();
        assert_eq!(held(whole.path(), Stream::Stdout), b"one\nthree\n");
        assert_eq!(held(whole.path(), Stream::Stderr), b"two\n");
        let kept = torn_at / RECORD_LEN;
        assert_eq!(records(whole.path())[..kept], before[..kept]);

        feed(&mut spool, Stream::Stderr, b"x");
        assert_eq!(held(whole.path(), Stream::Stderr), b"two\nx");
        fs::write(format::segment_path(whole.path(), Stream::Stderr, 0), "two\n").unwrap();
    }
}

#[test]
fn a_reopened_spool_goes_on_where_it_was_and_still_drops_the_oldest() {
    let dir = tempfile::tempdir().unwrap();
    let limit = 256 * 1024;
    let bytes = numbered(60_000);
    for part in bytes.chunks(100_001) {
        let mut spool = SpoolWriter::open(dir.path(), limit).unwrap();
        feed(&mut spool, Stream::Stdout, part);
        spool.trim();
    }
    let starts = format::segments(dir.path(), Stream::Stdout).unwrap();
    let last = fs::read(format::segment_path(dir.path(), Stream::Stdout, *starts.last().unwrap()));
    assert!(bytes.ends_with(&last.unwrap()));
    assert!(starts[0] > 0 && starts.len() <= 5);
}

#[test]
fn room_that_was_reserved_and_not_used_is_given_back() {
    use std::os::unix::fs::MetadataExt;

    let dir = tempfile::tempdir().unwrap();
    let mut spool = SpoolWriter::open(dir.path(), NO_LIMIT).unwrap();
    feed(&mut spool, Stream::Stdout, b"short\n");
    let blocks = || {
        let path = format::segment_path(dir.path(), Stream::Stdout, 0);
        fs::metadata(path).unwrap().blocks()
    };
    let reserved = blocks();
    spool.sync().unwrap();
    spool.trim();
    assert!(blocks() <= reserved);
    assert!(blocks() <= 8, "a page holds it");
    feed(&mut spool, Stream::Stdout, b"more\n");
    assert_eq!(held(dir.path(), Stream::Stdout), b"short\nmore\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_damaged_index_costs_no_byte_and_no_good_record_before_it(
        pieces in prop::collection::vec((any::<bool>(), 1..2000usize), 1..20),
        damage in any::<prop::sample::Index>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = SpoolWriter::open(dir.path(), NO_LIMIT).unwrap();
        for &(out, len) in &pieces {
            feed(&mut spool, if out { Stream::Stdout } else { Stream::Stderr }, &vec![7; len]);
        }
        let before = records(dir.path());
        let mut index = fs::read(dir.path().join(INDEX)).unwrap();
        let at = damage.index(index.len());
        index.truncate(at);
        index.extend([0x55; 40]);
        fs::write(dir.path().join(INDEX), &index).unwrap();

        SpoolWriter::open(dir.path(), NO_LIMIT).unwrap();
        let after = records(dir.path());
        prop_assert_eq!(&after[..at / RECORD_LEN], &before[..at / RECORD_LEN]);
        for stream in STREAMS {
            held(dir.path(), stream);
        }
    }
}
