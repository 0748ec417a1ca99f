//! The executor: this program again, started by Provost. It writes one line per tick to its standard
//! output and to a ledger of its own, a file that only it writes.

use std::fs::File;
use std::io::{Write, stdout};
use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::{Result, pause};

/// Between two ticks.
pub const TICK: Duration = Duration::from_millis(50);

/// The prompt of an executor that ticks so many times.
pub fn prompt(ticks: u32) -> String {
    format!("ticks {ticks}")
}

/// The line of a tick in the log; ticks count from 1.
pub fn line(process: &str, tick: u32) -> String {
    format!("tick {tick} of {process}")
}

/// The tick of such a line and its process.
pub fn parse(line: &str) -> Option<(u32, &str)> {
    let (tick, process) = line.trim().strip_prefix("tick ")?.split_once(" of ")?;
    Some((tick.parse().ok()?, process))
}

/// Milliseconds of a clock that all processes of this machine share, and that no one sets.
pub fn now() -> Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME)?;
    Ok(u64::try_from(Duration::from(time).as_millis())?)
}

/// Ticks as often as its prompt says. Its work is a file with the attempt's name.
pub fn run(ledger: &Path) -> Result<()> {
    let own = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let prompt = own("PROVOST_PROMPT")?;
    // A recap precedes the prompt.
    let ticks = prompt.rsplit_once("ticks ").ok_or("no ticks in the prompt")?.1.trim().parse()?;
    let (attempt, process) = (own("PROVOST_ATTEMPT_ID")?, own("PROVOST_PROCESS_ID")?);
    let name = format!("{attempt}.{process}.{}", std::process::id());
    let mut ledger = File::create_new(ledger.join(name))?;
    for tick in 1..=ticks {
        ledger.write_all(format!("{}\n", now()?).as_bytes())?;
        writeln!(stdout(), "{}", line(&process, tick))?;
        pause(TICK);
    }
    Ok(std::fs::write(attempt, process)?)
}
