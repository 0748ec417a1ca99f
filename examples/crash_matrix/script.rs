//! What a scripted executor does, as a pure function of its seed: so whoever
//! knows the seed knows every byte that has to be in the log, and how it ends.

use std::fmt::Write;
use std::time::Duration;

use fastrand::Rng;

/// Names of the two streams, as the raw log has them.
pub const STREAMS: [&str; 2] = ["stdout", "stderr"];

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Code(i32),
    Signal(i32),
}

/// One thing that it does.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// So many lines of a stream, in one write.
    Write {
        stream: usize,
        lines: u32,
    },
    Pause(Duration),
}

#[derive(Clone, Debug)]
pub struct Script {
    pub seed: u64,
    pub steps: Vec<Step>,
    pub ending: Ending,
    /// A process in a session of its own outlives it by so much.
    pub leftover: Option<Duration>,
}

impl Script {
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut steps = Vec::new();
        // Some end before anybody can look at them.
        let is_brief = rng.u8(..8) == 0;
        if rng.u8(..6) == 0 {
            steps.push(Step::Write { stream: rng.usize(..2), lines: rng.u32(600..1500) });
        }
        for _ in 0..if is_brief { rng.u32(..3) } else { rng.u32(15..70) } {
            steps.push(Step::Write { stream: rng.usize(..2), lines: rng.u32(1..8) });
            if !is_brief {
                steps.push(Step::Pause(Duration::from_millis(rng.u64(1..160))));
            }
        }
        let ending = match rng.u8(..4) {
            0 => Ending::Code(rng.i32(1..100)),
            1 => Ending::Signal(*rng.choice([1, 9, 10, 15].iter()).unwrap_or(&9)),
            _ => Ending::Code(0),
        };
        let leftover = (rng.u8(..8) == 0).then(|| Duration::from_millis(rng.u64(300..5000)));
        Self { seed, steps, ending, leftover }
    }

    /// Lines of each stream.
    pub fn lines(&self) -> [u32; 2] {
        let mut lines = [0; 2];
        for step in &self.steps {
            if let Step::Write { stream, lines: more } = step {
                lines[*stream] += more;
            }
        }
        lines
    }

    /// How long it pauses in all.
    pub fn duration(&self) -> Duration {
        let pauses = self.steps.iter().map(|step| match step {
            Step::Pause(duration) => *duration,
            Step::Write { .. } => Duration::ZERO,
        });
        pauses.sum()
    }

    /// Begins with more than goes into the log at once, so that what is taken is
    /// cut in the middle of a line.
    pub fn is_loud(&self) -> bool {
        matches!(self.steps.first(), Some(Step::Write { lines: 1000.., .. }))
    }

    pub fn prompt(&self) -> String {
        format!("seed {}", self.seed)
    }
}

/// The script that a prompt asks for.
pub fn parse(prompt: &str) -> Option<u64> {
    prompt.strip_prefix("seed ")?.split_whitespace().next()?.parse().ok()
}

/// A line, without its line feed: who writes it, its number, something to fill
/// it, and a checksum of all that.
pub fn line(seed: u64, stream: usize, number: u32) -> String {
    let mut rng = Rng::with_seed(seed ^ (u64::from(number) << 1) ^ stream as u64);
    let mut line = format!("{seed} {} {number} ", STREAMS[stream]);
    for _ in 0..rng.usize(..160) {
        line.push(rng.alphanumeric());
    }
    let sum = line.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let _ = write!(line, " {sum:016x}");
    line
}

/// The seed that a line begins with.
pub fn seed_of(line: &str) -> Option<u64> {
    line.split(' ').next()?.parse().ok()
}
