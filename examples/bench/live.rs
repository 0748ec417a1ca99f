//! Many attempts that live at once, each writing a line a second: how calls fare
//! meanwhile, what an attempt costs, and how soon a killed daemon's successor has
//! all of them again.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::Result;
use crate::memory::{Memory, open_files, shims};
use crate::scratch::{Client, Scratch};

/// Calls measured of each kind.
const CALLS: usize = 400;
/// Attempts stopped one by one while the others run.
const STOPPED: usize = 40;
/// Calls under way at once when all attempts are meant.
const AT_ONCE: usize = 16;
/// Attempts that one call can tell of.
const BATCH: usize = 50;

pub async fn measure(attempts: usize) -> Result<()> {
    let scratch = Scratch::make(attempts + 1, &["tick"])?;
    let client = scratch.client().await?;
    let task = scratch.task(&client).await?;
    let start = || json!({"task_id": task, "executor": "self"});

    // The measure of all: one settled attempt, nothing runs.
    let first = client.call("start_task_attempt", start()).await?["attempt_id"].clone();
    client.call("stop_attempt", json!({"attempt_id": first})).await?;
    let idle = calls(&client, &[first]).await?;
    let empty = Memory::of(scratch.daemon().await?);

    let begun = Instant::now();
    let starts = stream::iter(0..attempts).map(|_| client.call("start_task_attempt", start()));
    let started: Vec<Value> = starts.buffered(AT_ONCE).try_collect().await?;
    let ids: Vec<Value> = started.iter().map(|started| started["attempt_id"].clone()).collect();
    all_have_said(&client, &ids, &vec![2; ids.len()]).await?;
    let starting = begun.elapsed();

    let live = calls(&client, &ids).await?;
    let daemon = scratch.daemon().await?;
    let full = Memory::of(daemon);
    let pids = shims(&scratch.home());
    let shims = Memory::sum(&pids);
    let files = open_files(daemon);

    let said = last_indexes(&client, &ids).await?;
    kill(Pid::from_raw(daemon), Signal::SIGKILL)?;
    let begun = Instant::now();
    scratch.start_daemon()?;
    let client = scratch.client().await?;
    client.call("get_attempt_status", json!({"attempt_id": ids[0]})).await?;
    let answering = begun.elapsed();
    let more: Vec<i64> = said.iter().map(|index| index + 1).collect();
    all_have_said(&client, &ids, &more).await?;
    let attached = begun.elapsed();
    let again = calls(&client, &ids).await?;

    let mut stops = Vec::new();
    for id in &ids[..STOPPED.min(ids.len())] {
        stops.push(client.timed("stop_attempt", json!({"attempt_id": id})).await?);
    }
    let gaps = gaps(&client, &ids).await?;

    println!("| {attempts} attempts, a line a second each | |\n|---|---|");
    println!("| started, all heard of twice | {:.1} s |", starting.as_secs_f64());
    for (name, idle, live, again) in [
        ("status", &idle.status, &live.status, &again.status),
        ("tail", &idle.tail, &live.tail, &again.tail),
        ("wait, timed out at once", &idle.wait, &live.wait, &again.wait),
    ] {
        let ratio = |live: &[Duration]| at(live, 99).as_secs_f64() / at(idle, 99).as_secs_f64();
        println!(
            "| {name}: p50, p99; p99 to that of an idle daemon; after the restart | {:.2?}, {:.2?}; {:.1}; {:.1} |",
            at(live, 50),
            at(live, 99),
            ratio(live),
            ratio(again)
        );
    }
    println!(
        "| stop, of {}: p50, p99 | {:.0?}, {:.0?} |",
        stops.len(),
        at(&stops, 50),
        at(&stops, 99)
    );
    println!(
        "| daemon, private: with no attempt, with all; an attempt | {} KiB, {} KiB; {} KiB |",
        empty.private,
        full.private,
        full.private.saturating_sub(empty.private) / attempts as u64
    );
    println!(
        "| shim: private, proportional | {} KiB, {} KiB |",
        shims.private / pids.len() as u64,
        shims.proportional / pids.len() as u64
    );
    println!("| descriptors of the daemon | {files} |");
    println!(
        "| daemon killed: the next one answers, has heard of all again | {:.2} s, {:.2} s |",
        answering.as_secs_f64(),
        attached.as_secs_f64()
    );
    println!("| lines missing, twice or out of order, of all | {gaps} |");
    Ok(())
}

/// How long calls of each kind took.
struct Calls {
    status: Vec<Duration>,
    tail: Vec<Duration>,
    wait: Vec<Duration>,
}

async fn calls(client: &Client, ids: &[Value]) -> Result<Calls> {
    let mut calls = Calls { status: vec![], tail: vec![], wait: vec![] };
    // Spread over the attempts, in no order that a cache could like.
    for id in ids.iter().cycle().step_by(7).take(CALLS) {
        let this = json!({"attempt_id": id});
        calls.status.push(client.timed("get_attempt_status", this.clone()).await?);
        calls.tail.push(client.timed("tail_attempt_logs", this).await?);
        let wait = json!({"attempt_ids": [id], "until": "any_change", "timeout_ms": 1});
        calls.wait.push(client.timed("wait_for_attempts", wait).await?);
    }
    Ok(calls)
}

/// The percentile of some durations.
fn at(durations: &[Duration], percent: usize) -> Duration {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() - 1) * percent / 100]
}

/// The newest raw entry of each, -1 for none.
async fn last_indexes(client: &Client, ids: &[Value]) -> Result<Vec<i64>> {
    let mut indexes = Vec::new();
    for batch in ids.chunks(BATCH) {
        let answer = client.call("get_attempt_status", json!({"attempt_ids": batch})).await?;
        let attempts = answer["attempts"].as_array().cloned().unwrap_or_default();
        let index = |status: &Value| status["latest_entry_index"]["raw"].as_i64().unwrap_or(-1);
        indexes.extend(attempts.iter().map(index));
    }
    Ok(indexes)
}

/// Waits until each log has come to an entry.
async fn all_have_said(client: &Client, ids: &[Value], entries: &[i64]) -> Result<()> {
    while last_indexes(client, ids).await?.iter().zip(entries).any(|(is, wanted)| is < wanted) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Entries of all logs that are not the line that comes next.
async fn gaps(client: &Client, ids: &[Value]) -> Result<usize> {
    let mut gaps = 0;
    for id in ids {
        let page = json!({"attempt_id": id, "channel": "raw", "after_entry_index": -1,
            "limit": 1000, "max_bytes": 1_000_000});
        let page = client.call("tail_attempt_logs", page).await?;
        let entries = page["entries"].as_array().cloned().unwrap_or_default();
        let lines = entries.iter().map(|entry| entry["text"].clone());
        gaps += (1..).zip(lines).filter(|(number, text)| *text != format!("line {number}")).count();
    }
    Ok(gaps)
}
