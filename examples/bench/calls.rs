//! Calls of tools through `provost mcp`, beside the same answers from a bare rmcp server through a
//! bare bridge.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::Result;
use crate::line_client::{LineClient, PreparedCall};
use crate::scratch::{Scratch, command};

/// Calls one after the other in a round.
const CALLS: usize = 200;
/// Calls of a round with [`WIDTH`] in flight.
const MANY: u16 = 2000;
const WIDTH: usize = 32;
/// Of the log that is read.
const LINES: &str = "200";

pub async fn measure(rounds: usize) -> Result<()> {
    let scratch = Scratch::make(4, &["say", LINES])?;
    let client = scratch.client().await?;
    let task = scratch.task(&client).await?;
    let start = json!({"task_id": task, "executor": "self"});
    let attempt = client.call("start_task_attempt", start).await?["attempt_id"].clone();
    let wait = json!({"attempt_ids": [attempt], "timeout_ms": 60_000});
    client.call("wait_for_attempts", wait).await?;
    let calls = [
        ("get_attempt_status", json!({"attempt_id": attempt})),
        ("list_projects", json!({})),
        ("tail_attempt_logs", json!({"attempt_id": attempt, "limit": 20})),
    ];
    let mut ours = LineClient::start(scratch.bridge())?;
    let mut answers = Map::new();
    for (tool, arguments) in &calls {
        answers.insert((*tool).to_owned(), ours.call(tool, arguments)?);
    }
    let floor = Floor::start(&scratch.home(), &answers.into())?;
    let mut bare = LineClient::start(floor.bridge()?)?;
    println!(
        "| call | median | bare | ratio | {WIDTH} in flight: calls/s | bare | ratio |\n\
         |---|--:|--:|--:|--:|--:|--:|"
    );
    for (tool, arguments) in &calls {
        let call = PreparedCall::new(tool, arguments);
        let (mut one, mut many) = (Pairs::default(), Pairs::default());
        for _ in 0..rounds {
            one.add(ours.one_by_one(&call, CALLS)?, bare.one_by_one(&call, CALLS)?);
            let ours = ours.in_flight(&call, MANY.into(), WIDTH)?;
            many.add(vec![ours], vec![bare.in_flight(&call, MANY.into(), WIDTH)?]);
        }
        let ([own, floor], ratio) = one.medians();
        let ([own_many, floor_many], many_ratio) = many.medians();
        let rate = |seconds: f64| f64::from(MANY) / seconds;
        println!(
            "| {tool} | {:.0} µs | {:.0} µs | {ratio:.2} | {:.0} | {:.0} | {:.2} |",
            own * 1e6,
            floor * 1e6,
            rate(own_many),
            rate(floor_many),
            1.0 / many_ratio,
        );
    }
    Ok(())
}

/// Medians of rounds, ours and the floor's side by side.
#[derive(Default)]
struct Pairs(Vec<[f64; 2]>);

impl Pairs {
    fn add(&mut self, ours: Vec<Duration>, floor: Vec<Duration>) {
        let seconds = |times: Vec<Duration>| times.iter().map(Duration::as_secs_f64).collect();
        self.0.push([median(seconds(ours)), median(seconds(floor))]);
    }

    /// Seconds of each, and the median of the rounds' ratios.
    fn medians(&self) -> ([f64; 2], f64) {
        let of = |which: usize| median(self.0.iter().map(|pair| pair[which]).collect());
        ([of(0), of(1)], median(self.0.iter().map(|[ours, floor]| ours / floor).collect()))
    }
}

/// 0 for none.
fn median(mut of: Vec<f64>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or_default()
}

/// A bare server; dropped, it ends.
struct Floor {
    server: Child,
    socket: PathBuf,
}

impl Floor {
    /// Serves `answers`, with its files in `folder`.
    fn start(folder: &Path, answers: &Value) -> Result<Self> {
        let (socket, file) = (folder.join("floor.sock"), folder.join("answers.json"));
        std::fs::write(&file, answers.to_string())?;
        let mut server = command(std::env::current_exe()?);
        let server = server.arg("floor-server").arg(&socket).arg(&file).spawn()?;
        let floor = Self { server, socket };
        let begun = Instant::now();
        while !floor.socket.exists() {
            if begun.elapsed() > Duration::from_mins(1) {
                return Err("the bare server does not listen".into());
            }
            std::thread::yield_now();
        }
        Ok(floor)
    }

    fn bridge(&self) -> Result<std::process::Command> {
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
