//! A stage whose owner is killed at any point goes on as if nothing had been.

use std::fs;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::path::Path;

use nix::fcntl::OFlag;
use nix::unistd::pipe2;
use proptest::prelude::*;

use super::*;
use crate::log::spool::format::{segment_path, segments};

const STREAM: Stream = Stream::Stdout;
/// Segments are as small as they get: 64 KiB.
const SPOOL_MAX: u64 = 16 * 64 * 1024;

fn needle(text: &str) -> Needle {
    Needle { name: text.to_uppercase(), text: text.to_owned() }
}

/// A pipe, a spool and a stage between them.
struct Bench {
    dir: tempfile::TempDir,
    reader: OwnedFd,
    writer: Option<File>,
    spool: SpoolWriter,
    stage: Stage,
}

impl Bench {
    fn new(needles: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
        let spool = SpoolWriter::open(dir.path(), SPOOL_MAX).unwrap();
        let needles: Vec<Needle> = needles.iter().map(|text| needle(text)).collect();
        let stage = Stage::create(STREAM, &needles, &spool).unwrap();
        Self { dir, reader, writer: Some(writer.into()), spool, stage }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.writer.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn take(&mut self) -> Taken {
        self.stage.take(&mut self.spool, self.reader.as_fd()).unwrap()
    }

    fn take_some(&mut self) {
        self.take();
    }

    /// Another shim comes, with what outlives the one before.
    fn reopen(&mut self) {
        let file = self.stage.file.try_clone().unwrap();
        self.spool = SpoolWriter::open(self.dir.path(), SPOOL_MAX).unwrap();
        self.stage = Stage::open(STREAM, file.into()).unwrap();
    }

    /// Does something, and then takes back what the stage's head says of it: as if
    /// the shim had been killed just before the head was written. Of what was
    /// spooled `kept` of 256 parts are there.
    fn killed_while(&mut self, kept: u8, work: impl FnOnce(&mut Self)) {
        let mut head = [0; 16];
        self.stage.file.read_exact_at(&mut head, PROGRESS).unwrap();
        let before = self.spool.len(STREAM);
        work(self);
        self.stage.file.write_all_at(&head, PROGRESS).unwrap();
        let added = self.spool.len(STREAM) - before;
        cut(self.dir.path(), before + added * u64::from(kept) / 256);
        self.reopen();
    }

    fn end(mut self) -> Vec<u8> {
        self.writer = None;
        while self.take() != Taken::End {}
        held(self.dir.path())
    }
}

fn held(dir: &Path) -> Vec<u8> {
    let starts = segments(dir, STREAM).unwrap();
    starts.iter().flat_map(|&start| fs::read(segment_path(dir, STREAM, start)).unwrap()).collect()
}

/// Cuts the spool's last segment.
fn cut(dir: &Path, len: u64) {
    if let Some(&start) = segments(dir, STREAM).unwrap().last() {
        let file = File::options().write(true).open(segment_path(dir, STREAM, start)).unwrap();
        file.set_len(len.saturating_sub(start).min(file.metadata().unwrap().len())).unwrap();
    }
}

#[test]
fn what_is_held_back_is_written_when_it_is_released_or_goes_on() {
    let mut bench = Bench::new(&["hunter2"]);
    bench.write(b"name> hunt");
    assert_eq!(bench.take(), Taken::Bytes(10));
    assert_eq!(held(bench.dir.path()), b"name> ");
    assert_eq!(bench.take(), Taken::Nothing);
    bench.write(b"er2 hunt");
    bench.take();
    assert_eq!(held(bench.dir.path()), b"name> [redacted:HUNTER2] ");
    bench.stage.release(&mut bench.spool).unwrap();
    assert_eq!(held(bench.dir.path()), b"name> [redacted:HUNTER2] hunt");
    bench.write(b"hunter");
    assert_eq!(bench.end(), b"name> [redacted:HUNTER2] hunthunter");
}

#[test]
fn a_flood_passes_through_little_memory_and_across_segments() {
    let mut bench = Bench::new(&["secret"]);
    let mut expected = Vec::new();
    for number in 0..40_000 {
        let line = format!("{number} secret\n");
        bench.write(line.as_bytes());
        writeln!(expected, "{number} [redacted:SECRET]").unwrap();
        if number % 2000 == 0 {
            bench.take();
            let blocks = nix::sys::stat::fstat(&bench.stage.file).unwrap().st_blocks;
            assert!(blocks * 512 <= 128 * 1024, "{blocks} blocks");
        }
    }
    let dir = bench.dir.path().to_owned();
    let (spool, stage) = (&mut bench.spool, &mut bench.stage);
    stage.take(spool, bench.reader.as_fd()).unwrap();
    assert!(segments(&dir, STREAM).unwrap().len() > 5);
    assert!(bench.end() == expected);
}

#[test]
fn a_stage_of_another_version_is_refused() {
    let bench = Bench::new(&["secret"]);
    bench.stage.file.write_all_at(&2u64.to_le_bytes(), 0).unwrap();
    let file = bench.stage.file.try_clone().unwrap();
    assert!(Stage::open(STREAM, file.into()).is_err());
}

/// What happens to a stage.
#[derive(Clone, Debug)]
enum Step {
    Write(Vec<u8>),
    Take,
    Reopen,
    KilledWhileTaking(u8),
    KilledWhileEnding(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop::collection::vec(prop::sample::select(b"ab\n".to_vec()), 0..12);
    prop_oneof![
        3 => bytes.prop_map(Step::Write),
        2 => Just(Step::Take),
        1 => Just(Step::Reopen),
        3 => any::<u8>().prop_map(Step::KilledWhileTaking),
        1 => any::<u8>().prop_map(Step::KilledWhileEnding),
    ]
}

proptest! {
    #[test]
    fn deaths_at_any_point_change_nothing(steps in prop::collection::vec(step(), 1..20)) {
        const NEEDLES: [&str; 4] = ["abab", "ba", "aab\n", "abababb"];
        let mut bench = Bench::new(&NEEDLES);
        let (mut written, mut expected) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Write(bytes) => {
                    bench.write(&bytes);
                    written.extend(bytes);
                }
                Step::Take => bench.take_some(),
                Step::Reopen => bench.reopen(),
                Step::KilledWhileTaking(kept) => bench.killed_while(kept, Bench::take_some),
                Step::KilledWhileEnding(kept) => {
                    bench.take_some();
                    bench.killed_while(kept, |bench| bench.stage.release(&mut bench.spool).unwrap());
                    bench.take_some();
                    bench.stage.release(&mut bench.spool).unwrap();
                    let redactor = Redactor::new(NEEDLES.map(needle).into()).unwrap();
                    expected.extend(redactor.redact(&written, true).bytes);
                    written.clear();
                }
            }
        }
        let redactor = Redactor::new(NEEDLES.map(needle).into()).unwrap();
        expected.extend(redactor.redact(&written, true).bytes);
        prop_assert_eq!(
            String::from_utf8(bench.end()).unwrap(), String::from_utf8(expected).unwrap()
        );
    }
}
