//! A kill at any instant: each change is cut short at every byte it writes, then
//! the log is opened again and goes on; it must come out as without the kill.

use super::*;

#[derive(Clone, Copy)]
enum Step {
    Begin(usize),
    /// The process writes, then is pumped.
    Write(usize, Stream, &'static str),
    Append(&'static str),
    Finish(usize),
}

const SCRIPT: &[Step] = &[
    Step::Begin(0),
    Step::Write(0, Stream::Stdout, "session s-1\nHello, "),
    Step::Write(0, Stream::Stdout, "world\n.\ntwice two\nnothing yet\n"),
    Step::Append("a note"),
    Step::Begin(1),
    Step::Write(1, Stream::Stdout, "other\nA.\nB.\n"),
    Step::Write(0, Stream::Stderr, "error\ntail"),
    Step::Write(0, Stream::Stdout, "C.\nheld\nopen \u{20ac}"),
    Step::Append("another note"),
    Step::Write(1, Stream::Stdout, "twice D\nE"),
    Step::Finish(0),
    Step::Write(0, Stream::Stdout, "leftover\n"),
    Step::Write(1, Stream::Stdout, ".\ntwice F\n"),
    Step::Finish(1),
];

struct Attempt {
    processes: [ProcessId; 2],
}

impl Attempt {
    fn open(&self, dir: &Path, upto: usize) -> AttemptLog {
        let log = AttemptLog::open(dir, NO_RING).unwrap();
        for step in &SCRIPT[..upto] {
            if matches!(step, Step::Begin(_)) {
                self.log_step(&log, dir, *step);
            }
        }
        log
    }

    /// The spool's side of a step.
    fn write_spool(&self, dir: &Path, step: Step) {
        if let Step::Write(process, stream, text) = step {
            SpoolFiles::new(dir, self.processes[process]).write(stream, text.as_bytes());
        }
    }

    /// The log's side of a step.
    fn log_step(&self, log: &AttemptLog, dir: &Path, step: Step) {
        match step {
            Step::Begin(process) => {
                let opening =
                    vec![(at(1), note(&format!("start {process}"))), (at(2), note("prompt"))];
                let id = self.processes[process];
                log.begin(id, 1, Box::<Sentences>::default(), opening).unwrap();
            }
            Step::Write(process, ..) => drain(log, self.processes[process]),
            Step::Append(text) => {
                if texts(log, Channel::Normalized).last().map(String::as_str) != Some(text) {
                    log.append(self.processes[0], 1, at(5), note(text)).unwrap();
                }
            }
            Step::Finish(process) => {
                let id = self.processes[process];
                let lengths = SpoolFiles::new(dir, id).lengths();
                let closing = vec![(at(6), note("end")), (at(7), note("ended"))];
                log.finish(id, lengths, at(9), || closing).unwrap();
            }
        }
    }
}

const NORMALIZED: &str = "normalized-00000000000000000000.jsonl";

/// The log's files, in the order in which one step writes them.
fn files(step: Step) -> [&'static str; 4] {
    match step {
        Step::Begin(_) => ["checkpoint.json", "raw.idx", "normalized.idx", NORMALIZED],
        _ => ["raw.idx", "normalized.idx", NORMALIZED, "checkpoint.json"],
    }
}

/// Sets the files in `dir`, as they were before the step, to what they are when
/// it was cut short after so many bytes. `None`: that is past its end.
fn cut_short(dir: &Path, done: &Path, step: Step, after: usize) -> Option<()> {
    let mut left = after;
    for name in files(step) {
        let before = fs::read(dir.join(name)).unwrap_or_default();
        let Ok(full) = fs::read(done.join(name)) else { continue };
        if full == before {
            continue;
        }
        let is_replaced = name == "checkpoint.json";
        let cost = if is_replaced { 1 } else { full.len() - before.len() };
        if left < cost {
            let kept = if is_replaced { before } else { full[..before.len() + left].to_vec() };
            if !kept.is_empty() {
                fs::write(dir.join(name), kept).unwrap();
            }
            return Some(());
        }
        fs::write(dir.join(name), full).unwrap();
        left -= cost;
    }
    None
}

struct Outcome {
    raw: Vec<String>,
    normalized: Vec<String>,
    stored: Vec<u8>,
}

fn outcome(log: &AttemptLog, dir: &Path) -> Outcome {
    Outcome {
        raw: json(log, Channel::Raw),
        normalized: json(log, Channel::Normalized),
        stored: fs::read(dir.join(NORMALIZED)).unwrap_or_default(),
    }
}

fn assert_same(got: &Outcome, wanted: &Outcome, step: usize, after: usize) {
    assert_eq!(got.raw, wanted.raw, "step {step} at {after}");
    assert_eq!(got.normalized, wanted.normalized, "step {step} at {after}");
    assert!(got.stored == wanted.stored, "step {step} at {after}");
}

#[test]
fn a_step_cut_short_at_any_byte_comes_out_the_same() {
    let attempt = Attempt { processes: [ProcessId::new(), ProcessId::new()] };
    let root = tempfile::tempdir().unwrap();
    // The folder after each number of steps, without any kill.
    let path = |name: String| root.path().join(name);
    let live = path("live".to_owned());
    fs::create_dir(&live).unwrap();
    let log = AttemptLog::open(&live, NO_RING).unwrap();
    let mut outcomes = vec![outcome(&log, &live)];
    copy_dir(&live, &path("after-0".to_owned()));
    for (number, step) in SCRIPT.iter().enumerate() {
        attempt.write_spool(&live, *step);
        attempt.log_step(&log, &live, *step);
        outcomes.push(outcome(&log, &live));
        replay::assert_the_same(&log, &live);
        copy_dir(&live, &path(format!("after-{}", number + 1)));
    }
    assert_eq!(outcomes[SCRIPT.len()].raw.len(), 17);

    let kills: usize = std::thread::scope(|scope| {
        let (attempt, root, outcomes) = (&attempt, root.path(), &outcomes);
        let steps: Vec<_> = (0..SCRIPT.len())
            .map(|number| scope.spawn(move || kill_at_every_byte(attempt, root, number, outcomes)))
            .collect();
        steps.into_iter().map(|step| step.join().unwrap()).sum()
    });
    assert!(kills > 1000, "{kills} kills");
}

/// Cuts one step short in all ways; how many there were.
fn kill_at_every_byte(
    attempt: &Attempt,
    root: &Path,
    number: usize,
    outcomes: &[Outcome],
) -> usize {
    let step = SCRIPT[number];
    let dir = root.join(format!("killed-{number}"));
    for after in 0.. {
        copy_dir(&root.join(format!("after-{number}")), &dir);
        attempt.write_spool(&dir, step);
        let done = root.join(format!("after-{}", number + 1));
        let is_whole = cut_short(&dir, &done, step, after).is_none();
        let log = attempt.open(&dir, number);
        attempt.log_step(&log, &dir, step);
        assert_same(&outcome(&log, &dir), &outcomes[number + 1], number, after);
        // Every so often the whole rest too.
        if after % 97 == 0 {
            for step in &SCRIPT[number + 1..] {
                attempt.write_spool(&dir, *step);
                attempt.log_step(&log, &dir, *step);
            }
            assert_same(&outcome(&log, &dir), &outcomes[SCRIPT.len()], number, after);
        }
        fs::remove_dir_all(&dir).unwrap();
        if is_whole {
            return after + 1;
        }
    }
    unreachable!("a step writes finitely many bytes")
}

/// Two processes write 3 MiB in turns. `disturb` comes between two turns and is
/// told how long the normalized file was before the turn that was pumped last.
fn long_run(
    dir: &Path,
    processes: [ProcessId; 2],
    mut disturb: impl FnMut(AttemptLog, u64, u64) -> AttemptLog,
) -> Outcome {
    let mut log = AttemptLog::open(dir, LIMITS).unwrap();
    let begin = |log: &AttemptLog| {
        for process in processes {
            let opening = vec![(at(1), note("start"))];
            log.begin(process, 1, Box::<Sentences>::default(), opening).unwrap();
        }
    };
    begin(&log);
    let normalized_len = || dir.join(NORMALIZED).metadata().unwrap().len();
    let mut before = normalized_len();
    let mut random = 1_u64;
    let mut spools = processes.map(|process| SpoolFiles::new(dir, process));
    for _ in 0..60 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
        let which = usize::try_from(random >> 62 & 1).unwrap();
        for piece in 0..120 {
            let size = usize::try_from((random >> 20).wrapping_mul(piece + 1) % 900 + 1).unwrap();
            let end = if piece % 3 == 0 { "" } else { ".\n" };
            let stream = if piece % 11 == 0 { Stream::Stderr } else { Stream::Stdout };
            spools[which].write(stream, format!("{}{end}", "z".repeat(size)).as_bytes());
        }
        log = disturb(log, random >> 33, before);
        begin(&log);
        before = normalized_len();
        drain(&log, processes[which]);
    }
    for (process, spool) in processes.into_iter().zip(spools) {
        log.finish(process, spool.lengths(), at(2), || vec![(at(2), note("end"))]).unwrap();
    }
    outcome(&log, dir)
}

#[test]
fn a_long_log_killed_many_times_comes_out_the_same() {
    let processes = [ProcessId::new(), ProcessId::new()];
    let (calm, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let expected = long_run(calm.path(), processes, |log, _, _| log);
    assert!(expected.raw.len() > 4_000, "{}", expected.raw.len());
    let dir = killed.path();
    let outcome = long_run(dir, processes, |log, random, before| {
        drop(log);
        // Of what was pumped last, not all need have got on file but what the
        // checkpoint knows.
        let checkpoint: serde_json::Value =
            serde_json::from_slice(&fs::read(dir.join("checkpoint.json")).unwrap()).unwrap();
        let from = checkpoint["normalized"]["offset"].as_u64().unwrap().max(before);
        let file = File::options().write(true).open(dir.join(NORMALIZED)).unwrap();
        let len = file.metadata().unwrap().len();
        file.set_len(from + random % (len - from + 1)).unwrap();
        AttemptLog::open(dir, LIMITS).unwrap()
    });
    assert_eq!(outcome.raw.len(), expected.raw.len());
    assert!(outcome.raw == expected.raw, "raw");
    assert!(outcome.normalized == expected.normalized, "normalized");
    assert!(outcome.stored == expected.stored, "stored");
}
