//! Calls of tools through `provost mcp`, beside the same answers from a bare rmcp server through a
//! bare bridge.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::counts::Counts;
use crate::line_client::{LineClient, PreparedCall};
use crate::scratch::{Scratch, command};
use crate::table::{Budget, Row, Unit, median};
use crate::{Result, Size};

/// Calls one after the other in a round.
const CALLS: usize = 200;
/// Calls of a round with [`WIDTH`] in flight.
const MANY: u16 = 2000;
const WIDTH: usize = 32;
/// Of the log that is read.
const LINES: &str = "200";

pub async fn measure(size: Size) -> Result<Vec<Row>> {
    let scratch = Scratch::make(4, &["say", LINES])?;
    let client = scratch.client().await?;
    let task = scratch.task(&client).await?;
    let start = json!({"task_id": task, "executor": "self"});
    let attempt = client.call("start_task_attempt", start).await?["attempt_id"].clone();
    let wait = json!({"attempt_ids": [attempt], "timeout_ms": 60_000});
    client.call("wait_for_attempts", wait).await?;
    let calls = [
        ("get_attempt_status", json!({"attempt_id": attempt}), 1.6),
        ("list_projects", json!({}), 1.6),
        ("tail_attempt_logs", json!({"attempt_id": attempt, "limit": 20}), 2.0),
    ];
    let mut ours = LineClient::start(scratch.bridge())?;
    let mut answers = Map::new();
    for (tool, arguments, _) in &calls {
        answers.insert((*tool).to_owned(), ours.call(tool, arguments)?);
    }
    let floor = Floor::start(&scratch.home(), &answers.into())?;
    let mut bare = LineClient::start(floor.bridge()?)?;
    let mut rounds: [(Vec<_>, Vec<_>); 3] = Default::default();
    // All tools in each round, so that what else goes on disturbs each as much.
    for _ in 0..size.rounds(15) {
        for ((tool, arguments, _), (one, many)) in calls.iter().zip(&mut rounds) {
            let call = PreparedCall::new(tool, arguments);
            one.push([
                micros(&ours.one_by_one(&call, CALLS)?),
                micros(&bare.one_by_one(&call, CALLS)?),
            ]);
            let rate = |time: Duration| f64::from(MANY) / time.as_secs_f64();
            many.push([
                rate(ours.in_flight(&call, MANY.into(), WIDTH)?),
                rate(bare.in_flight(&call, MANY.into(), WIDTH)?),
            ]);
        }
    }
    let daemon = scratch.daemon().await?;
    let mut rows = Vec::new();
    for ((tool, arguments, budget), (one, many)) in calls.iter().zip(&rounds) {
        let budget = Budget::RatioAtMost(*budget);
        rows.push(Row::beside(tool, "bare rmcp", Unit::Microseconds, one, budget));
        let path = format!("{tool}, {WIDTH} in flight");
        let budget = Budget::RatioAtLeast(0.5);
        rows.push(Row::beside(&path, "bare rmcp", Unit::PerSecond, many, budget));
        let call = PreparedCall::new(tool, arguments);
        let counted = size.choose(1000, 10);
        let count = |client: &mut LineClient, server: i32| {
            let counts = Counts::begin(vec![server, client.pid()?]);
            client.one_by_one(&call, counted as usize)?;
            counts.each(counted)
        };
        rows.extend(Row::counts(
            tool,
            "bare rmcp",
            [count(&mut ours, daemon)?, count(&mut bare, floor.pid()?)?],
        ));
    }
    Ok(rows)
}

/// The median.
pub fn micros(times: &[Duration]) -> f64 {
    median(times.iter().map(|time| time.as_secs_f64() * 1e6).collect())
}

/// A bare server; dropped, it ends.
pub struct Floor {
    server: Child,
    socket: PathBuf,
}

impl Floor {
    /// Serves `answers`, with its files in `folder`.
    pub fn start(folder: &Path, answers: &Value) -> Result<Self> {
        let (socket, file) = (folder.join("floor.sock"), folder.join("answers.json"));
        std::fs::write(&file, answers.to_string())?;
        let mut server = command(std::env::current_exe()?);
        let server = server.arg("floor-server").arg(&socket).arg(&file).spawn()?;
        let floor = Self { server, socket };
        let begun = Instant::now();
        // A socket that is there may not listen yet.
        while UnixStream::connect(&floor.socket).is_err() {
            if begun.elapsed() > Duration::from_mins(1) {
                return Err("the bare server does not listen".into());
            }
            std::thread::yield_now();
        }
        Ok(floor)
    }

    pub fn pid(&self) -> Result<i32> {
        Ok(i32::try_from(self.server.id())?)
    }

    pub fn bridge(&self) -> Result<std::process::Command> {
        let mut bridge = command(std::env::current_exe()?);
        bridge.arg("floor-bridge").arg(&self.socket);
        Ok(bridge)
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
