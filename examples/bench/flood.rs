//! Executors that write as fast as they can: what the daemon holds in memory and
//! in its database meanwhile, and whether all of it arrives.

use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;
use crate::memory::{Memory, below, database};
use crate::scratch::Scratch;

const LINE: usize = 100;

/// What the executors do: numbered lines, so many megabytes of them.
pub fn pour(megabytes: usize) -> Result<()> {
    let mut stdout = BufWriter::with_capacity(1 << 16, std::io::stdout());
    for number in 0..megabytes * 1_000_000 / LINE {
        // With its newline as long as it is to be.
        writeln!(stdout, "{number:0width$}", width = LINE - 1)?;
    }
    Ok(stdout.flush()?)
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
        let text = entry["text"].as_str().and_then(|text| text.parse::<u64>().ok());
        whole += usize::from(entry["entry_index"] == wanted && text == Some(wanted));
    }
    let megabyte = |bytes: u64| bytes / 1_000_000;
    println!("| {attempts} attempts, {megabytes} MB each, as fast as they can | |\n|---|---|");
    println!("| all written and taken in | {:.0} s |", took.as_secs_f64());
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
