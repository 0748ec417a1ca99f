//! Executors that write as fast as they can: what the daemon holds in memory and
//! in its database meanwhile, and whether all of it arrives.

use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::calls::micros;
use crate::line_client::{LineClient, PreparedCall};
use crate::memory::{Memory, below, database};
use crate::scratch::{Client, Scratch};
use crate::table::{Budget, Row, Unit, millis};
use crate::{Result, Size};

const LINE: usize = 100;

/// What the executors do: numbered lines, so many megabytes of them.
pub fn pour(megabytes: usize) -> Result<()> {
    let mut stdout = BufWriter::with_capacity(1 << 16, std::io::stdout());
    // Digits that hardly repeat, so that compression gains little from them.
    let mut random = fastrand::Rng::with_seed(7);
    let digits: String = (0..1 << 20).map(|_| random.digit(16)).collect();
    let width = LINE - 12;
    for number in 0..megabytes * 1_000_000 / LINE {
        let from = random.usize(..digits.len() - width);
        // With its newline as long as it is to be.
        writeln!(stdout, "{number:010} {}", &digits[from..from + width])?;
    }
    Ok(stdout.flush()?)
}

/// Megabytes of the log whose pages are measured.
const LONG: u32 = 2000;
/// A variant with a sandbox.
const BOXED: &str = "[executors.self.variants.boxed]\nsandbox = \"workspace\"\n";

/// An attempt whose agent has poured out all that it had.
struct Poured {
    attempt: Value,
    /// From the call that started it until it was settled.
    took: Duration,
    /// How long after the agent's end that was.
    late: Duration,
}

impl Poured {
    async fn one(client: &Client, task: &Value, variant: Option<&str>) -> Result<Self> {
        let begun = Instant::now();
        let start = json!({"task_id": task, "executor": "self", "variant": variant});
        let attempt = client.call("start_task_attempt", start).await?["attempt_id"].clone();
        let wait = json!({"attempt_ids": [attempt], "timeout_ms": 50_000});
        while client.call("wait_for_attempts", wait.clone()).await?["timed_out"] == true {}
        let (took, settled) = (begun.elapsed(), Utc::now());
        let last = json!({"attempt_id": attempt, "limit": 1});
        let last = client.call("tail_attempt_logs", last).await?["entries"][0].take();
        let ended: DateTime<Utc> = serde_json::from_value(last["at"].clone())?;
        let late = (settled - ended).to_std().unwrap_or_default();
        Ok(Self { attempt, took, late })
    }
}

/// Floods: how soon after its end one is settled, what its log takes on the disk, and what a page
/// in the middle of a long one takes.
pub async fn rows(size: Size) -> Result<Vec<Row>> {
    let megabytes = size.choose(200_u32, 5);
    let long = format!("[executors.self.variants.long]\nargs = [\"{}\"]\n", size.choose(LONG, 5));
    let more = format!("{BOXED}{long}");
    let scratch = Scratch::make_with(1, &["pour", &megabytes.to_string()], &more)?;
    let client = scratch.client().await?;
    let task = scratch.task(&client).await?;
    let (mut late, mut held) = (Vec::new(), Vec::new());
    let mut attempt = Value::Null;
    for _ in 0..size.rounds(3) {
        let boxed = Poured::one(&client, &task, Some("boxed")).await?;
        let poured = Poured::one(&client, &task, None).await?;
        held.push([millis(boxed.took), millis(poured.took)]);
        let floor = once(&spools(&scratch, &poured.attempt)?)?;
        late.push([millis(poured.late), millis(floor)]);
        attempt = poured.attempt;
    }
    let flood = format!("a flood of {megabytes} MB: settled after its end");
    let median = |which: usize| crate::table::median(late.iter().map(|it| it[which]).collect());
    let read = ("reading it once", median(1));
    let mut rows = vec![Row::informed(&flood, read, Unit::Milliseconds, median(0), 1000.0)];
    let whole = format!("a flood of {megabytes} MB in a sandbox, from its start to its settling");
    let (unit, budget) = (Unit::Milliseconds, Budget::RatioAtMost(1.1));
    rows.push(Row::beside(&whole, "without one", unit, &held, budget));
    let folder = log(&scratch, &attempt);
    sealed(&folder).await?;
    let disk = below(&folder) / 1000;
    let disk = f64::from(u32::try_from(disk)?) / 1e3;
    let path = "its log on the disk: both channels, indexes";
    let pair = [[disk, f64::from(megabytes)]];
    let budget = Budget::RatioAtMost(2.0);
    rows.push(Row::beside(path, "its bytes", Unit::Megabytes, &pair, budget));

    rows.extend(pages(&scratch, &client, &task, size).await?);
    Ok(rows)
}

/// What a page in the middle of a long log takes.
async fn pages(scratch: &Scratch, client: &Client, task: &Value, size: Size) -> Result<Vec<Row>> {
    let attempt = Poured::one(client, task, Some("long")).await?.attempt;
    sealed(&log(scratch, &attempt)).await?;
    let megabytes = size.choose(LONG, 5);
    let mut reader = LineClient::start(scratch.bridge())?;
    let status = PreparedCall::new("get_attempt_status", &json!({"attempt_id": attempt}));
    let mut rows = Vec::new();
    for channel in ["raw", "normalized"] {
        let middle = u64::from(megabytes) * 1_000_000 / LINE as u64 / 2;
        let page = json!({"attempt_id": attempt, "channel": channel, "limit": 20,
            "after_entry_index": middle});
        let page = PreparedCall::new("tail_attempt_logs", &page);
        let mut pairs = Vec::new();
        for _ in 0..size.rounds(15) {
            let page = micros(&reader.one_by_one(&page, 50)?);
            pairs.push([page, micros(&reader.one_by_one(&status, 50)?)]);
        }
        let path = format!("20 entries in the middle of {megabytes} MB, {channel}");
        let budget = Budget::RatioAtMost(2.0);
        rows.push(Row::beside(&path, "a status call", Unit::Microseconds, &pairs, budget));
    }
    Ok(rows)
}

/// The folder of an attempt's log.
pub fn log(scratch: &Scratch, attempt: &Value) -> PathBuf {
    scratch.home().join("attempts").join(attempt.as_str().unwrap_or_default())
}

/// Waits until all segments but the newest are compressed.
pub async fn sealed(folder: &Path) -> Result<()> {
    while unsealed(folder)? > 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// How many segments of the normalized channel are not compressed: in the end the newest alone.
fn unsealed(folder: &Path) -> Result<usize> {
    let names = fs::read_dir(folder)?.flatten().map(|it| it.file_name());
    Ok(names.filter(|it| it.to_string_lossy().ends_with(".jsonl")).count())
}

/// The segments of an attempt's spools.
fn spools(scratch: &Scratch, attempt: &Value) -> Result<Vec<PathBuf>> {
    let dir = log(scratch, attempt);
    let mut found = Vec::new();
    for process in fs::read_dir(dir)?.flatten().filter(|it| it.path().is_dir()) {
        let files = fs::read_dir(process.path())?.flatten().map(|it| it.path());
        found.extend(files.filter(|it| {
            it.file_name().is_some_and(|name| name.to_string_lossy().starts_with("stdout"))
        }));
    }
    Ok(found)
}

/// How long it takes to read files once.
fn once(files: &[PathBuf]) -> Result<Duration> {
    let begun = Instant::now();
    for file in files {
        std::io::copy(&mut File::open(file)?, &mut std::io::sink())?;
    }
    Ok(begun.elapsed())
}

pub async fn measure(attempts: usize, megabytes: usize) -> Result<()> {
    let scratch = Scratch::make(attempts, &["pour", &megabytes.to_string()])?;
    let client = scratch.client().await?;
    let task = scratch.task(&client).await?;
    let daemon = scratch.daemon().await?;
    let before = Memory::of(daemon);
    let begun = Instant::now();
    let mut running: Vec<Value> = Vec::new();
    for _ in 0..attempts {
        let start = json!({"task_id": task, "executor": "self"});
        running.push(client.call("start_task_attempt", start).await?["attempt_id"].clone());
    }
    let ids = running.clone();
    let (mut most, mut slowest) = (before, Duration::ZERO);
    while !running.is_empty() {
        let asked = Instant::now();
        let status = client.call("get_attempt_status", json!({"attempt_id": running[0]})).await?;
        slowest = slowest.max(asked.elapsed());
        if status["phase"] == "settled" {
            running.remove(0);
            continue;
        }
        let now = Memory::of(daemon);
        most.private = most.private.max(now.private);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let took = begun.elapsed();
    let wanted = (megabytes * 1_000_000 / LINE).saturating_sub(1) as u64;
    let mut whole = 0;
    for id in &ids {
        let page = json!({"attempt_id": id, "channel": "raw", "limit": 1});
        let page = client.call("tail_attempt_logs", page).await?;
        let entry = &page["entries"][0];
        let number = entry["text"].as_str().and_then(|text| text.split(' ').next()?.parse().ok());
        whole += usize::from(entry["entry_index"] == wanted && number == Some(wanted));
    }
    let megabyte = |bytes: u64| bytes / 1_000_000;
    println!("| {attempts} attempts, {megabytes} MB each, as fast as they can | |\n|---|---|");
    println!("| all written and taken in | {:.1} s |", took.as_secs_f64());
    println!("| daemon, private: before, at most | {} KiB, {} KiB |", before.private, most.private);
    println!("| slowest status meanwhile | {slowest:.0?} |");
    println!("| database | {} KB |", database(&scratch.home()) / 1000);
    println!(
        "| spools and logs on disk | {} MB |",
        megabyte(below(&scratch.home().join("attempts")))
    );
    println!("| logs whole | {whole} of {attempts} |");
    Ok(())
}
