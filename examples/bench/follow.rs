//! A line on its way from an executor's write to who follows the log: through `provost logs -f`,
//! beside `tail -F` of a file.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::counts::Counts;
use crate::memory::shims;
use crate::scratch::{Scratch, command};
use crate::table::{Budget, Row, Unit};
use crate::{Result, Size};

/// Between two lines: the follower waits by then.
const PAUSE: Duration = Duration::from_millis(20);

/// The shim's, the daemon's, its thread's for files, the daemon's again and the follower's; the shim and
/// the follower sleep once more each, for what they hear and ask in between.
const SLEEPS: f64 = 9.0;

/// Of a line that has the time at which it was written.
const MARK: &str = "written at ";

pub async fn measure(size: Size) -> Result<Vec<Row>> {
    let lines = size.choose(200, 20);
    let more = lines + 20;
    let scratch = Scratch::make(1, &["drip", &more.to_string()])?;
    let client = scratch.client().await?;
    let task = scratch.task(&client).await?;
    let start = json!({"task_id": task, "executor": "self"});
    let attempt = client.call("start_task_attempt", start).await?["attempt_id"].clone();
    let mut follow = scratch.provost(&["logs", "-f", attempt.as_str().unwrap_or_default()]);
    let follow = Follower(follow.stdout(Stdio::piped()).spawn()?);
    let daemon = scratch.daemon().await?;
    let others = || [vec![daemon], shims(&scratch.home())].concat();
    let (ours, slept) = follow_lines(follow, lines, others)?;

    let path = scratch.home().join("dripping");
    let file = File::create(&path)?;
    let mut drip = command(std::env::current_exe()?);
    let drip = Follower(drip.args(["drip", &more.to_string()]).stdout(file).spawn()?);
    let tail = command("tail").arg("-F").arg(&path).stdout(Stdio::piped()).spawn()?;
    let (floor, floor_slept) = follow_lines(Follower(tail), lines, Vec::new)?;
    drop(drip);
    let rounds: Vec<[f64; 2]> = ours.into_iter().zip(floor).map(<[f64; 2]>::from).collect();
    let budget = Budget::RatioAtMost(1.5);
    let path = "line written, printed by `provost logs -f`";
    let row = Row::beside(path, "`tail -F`", Unit::Microseconds, &rounds, budget);
    let path = "the same: sleeps of a thread in shim, daemon and `provost logs -f`";
    let floor = ("`tail -F`", floor_slept);
    Ok(vec![row, Row::informed(path, floor, Unit::Count, slept, SLEEPS)])
}

/// Dropped, it ends.
struct Follower(Child);

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How long each of so many lines took, in microseconds, after the first that were there already; and
/// how often the follower's threads and those of `others` slept for each.
fn follow_lines(
    mut follower: Follower,
    count: usize,
    others: impl Fn() -> Vec<i32>,
) -> Result<(Vec<f64>, f64)> {
    let stdout = follower.0.stdout.take().ok_or("no pipe")?;
    let pid = i32::try_from(follower.0.id())?;
    let (mut times, mut counts) = (Vec::new(), None);
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        let Some((_, written)) = line.split_once(MARK) else { continue };
        let written = Duration::from_nanos(written.trim().parse()?);
        let late = SystemTime::now().duration_since(UNIX_EPOCH)?.saturating_sub(written);
        times.push(late.as_secs_f64() * 1e6);
        // The first ones wait for the follower's own start.
        if times.len() == 10 {
            counts = Some(Counts::begin([others(), vec![pid]].concat()));
        }
        if let Some(counts) = counts.take_if(|_| times.len() == count + 10) {
            let [slept, _] = counts.each(u32::try_from(count)?)?;
            return Ok((times.split_off(10), slept));
        }
    }
    Err("the log ended too early".into())
}

/// Lines that say when they were written, one by one.
#[expect(clippy::disallowed_methods, reason = "it has nothing to wait for")]
pub fn drip(lines: usize) -> Result<()> {
    let mut stdout = std::io::stdout();
    for _ in 0..lines {
        std::thread::sleep(PAUSE);
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
        writeln!(stdout, "{MARK}{now}")?;
    }
    Ok(())
}
