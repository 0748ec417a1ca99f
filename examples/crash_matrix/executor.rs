//! The scripted executor: this program again, started by Provost. Beside its
//! output it leaves a witness of itself, which nobody else writes: who it was,
//! and how many lines of each stream it had written at least.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::processes::Process;
use crate::script::{Ending, STREAMS, Script, Step, line, parse};
use crate::{Result, command, pause};

/// Ends with this when it can't write: nobody reads any more.
const BROKEN: i32 = 117;
const HEADER: usize = 160;

/// How it is made to betray its script, so that a check is seen to fail.
pub const BREAKS: [&str; 2] = ["skip", "repeat"];

/// What an executor tells of itself.
#[derive(Clone, Debug)]
pub struct Witness {
    pub process_id: String,
    pub process: Process,
    /// Lines of each stream whose writing had returned.
    pub lines: [u64; 2],
}

impl Witness {
    fn create(dir: &Path, seed: u64) -> Result<File> {
        let process = Process::of(std::process::id().cast_signed()).ok_or("no /proc")?;
        let id = std::env::var("PROVOST_PROCESS_ID")?;
        let header = format!("{id} {} {}", process.pid, process.start_time);
        let file = File::create_new(dir.join(format!("{seed}-{}", process.pid)))?;
        let mut bytes = format!("{header:<HEADER$}").into_bytes();
        bytes.extend_from_slice(&[0; 16]);
        file.write_all_at(&bytes, 0)?;
        Ok(file)
    }

    /// `None` while it is being written.
    pub fn read(path: &Path) -> Option<Self> {
        let bytes = fs::read(path).ok()?;
        let (header, counts) = bytes.split_at_checked(HEADER)?;
        let mut header = str::from_utf8(header).ok()?.split_whitespace();
        let count = |at: usize| Some(u64::from_le_bytes(counts.get(at..at + 8)?.try_into().ok()?));
        Some(Self {
            process_id: header.next()?.to_owned(),
            process: Process {
                pid: header.next()?.parse().ok()?,
                start_time: header.next()?.parse().ok()?,
            },
            lines: [count(0)?, count(8)?],
        })
    }
}

/// Does what its prompt says, and ends as that says.
pub fn run(witnesses: &Path) -> Result<()> {
    let mut prompt = String::new();
    io::stdin().read_to_string(&mut prompt)?;
    let seed = parse(&prompt).ok_or("no seed in the prompt")?;
    let script = Script::of(seed);
    let witness = Witness::create(witnesses, seed)?;
    if let Some(duration) = script.leftover {
        let millis = duration.as_millis().to_string();
        command(std::env::current_exe()?)
            .args(["leftover", &millis])
            .stdin(Stdio::null())
            .spawn()?;
    }
    // Not through the standard library's buffers: one write is one write.
    let mut streams = [
        File::from(io::stdout().as_fd().try_clone_to_owned()?),
        File::from(io::stderr().as_fd().try_clone_to_owned()?),
    ];
    let betrayal = BREAKS.into_iter().find(|word| prompt.ends_with(word));
    let mut next = [0; 2];
    for step in &script.steps {
        match *step {
            Step::Pause(duration) => pause(duration),
            Step::Write { stream, lines } => {
                let mut numbers: Vec<u32> = (next[stream]..next[stream] + lines).collect();
                next[stream] += lines;
                match betrayal {
                    Some("skip") => drop(numbers.pop()),
                    Some(_) => numbers.push(next[stream] - 1),
                    None => {}
                }
                let text: String =
                    numbers.into_iter().map(|number| line(seed, stream, number) + "\n").collect();
                if streams[stream].write_all(text.as_bytes()).is_err() {
                    std::process::exit(BROKEN);
                }
                witness.write_all_at(
                    &u64::from(next[stream]).to_le_bytes(),
                    (HEADER + 8 * stream) as u64,
                )?;
            }
        }
    }
    match script.ending {
        Ending::Code(code) => std::process::exit(code),
        Ending::Signal(signal) => {
            nix::sys::signal::raise(Signal::try_from(signal)?)?;
            Err(format!("signal {signal} did not end {}", STREAMS[0]).into())
        }
    }
}

/// Stays for a while after its parent, in a session of its own.
pub fn stay(duration: Duration) -> Result<()> {
    nix::unistd::setsid()?;
    pause(duration);
    Ok(())
}
