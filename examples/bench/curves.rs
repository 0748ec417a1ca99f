//! How figures grow: calls with clients or with tasks, starts, memory and a daemon's return with
//! attempts, pages with the log.

use std::time::Instant;

use serde_json::{Value, json};

use crate::board::filled;
use crate::calls::{Floor, micros};
use crate::line_client::{LineClient, PreparedCall};
use crate::memory::{Memory, shims};
use crate::plot::Curve;
use crate::scratch::{Client, Scratch};
use crate::table::median;
use crate::{Result, Size};
use crate::{flood, idle};

/// Calls of each client.
const CALLS: usize = 1000;

pub async fn all(size: Size) -> Result<Vec<Curve>> {
    let mut curves = vec![clients(size)?];
    curves.extend(attempts(size).await?);
    curves.push(pages(size).await?);
    curves.push(board(size)?);
    curves.push(again(size).await?);
    Ok(curves)
}

/// Clients with a bridge each and one call in flight each.
fn clients(size: Size) -> Result<Curve> {
    let scratch = Scratch::make(1, &["say", "1"])?;
    let call = PreparedCall::new("list_projects", &json!({}));
    let answer = LineClient::start(scratch.bridge())?.call("list_projects", &json!({}))?;
    let floor = Floor::start(&scratch.home(), &json!({"list_projects": answer}))?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    let calls = size.choose(CALLS, 10);
    for clients in size.choose(vec![1_u16, 2, 4, 8, 16, 32], vec![1, 2]) {
        let bridges = (0..clients).map(|_| LineClient::start(scratch.bridge()));
        ours.push((clients.into(), rate(bridges.collect::<Result<_>>()?, &call, calls)?));
        let bridges = (0..clients).map(|_| LineClient::start(floor.bridge()?));
        bare.push((clients.into(), rate(bridges.collect::<Result<_>>()?, &call, calls)?));
    }
    Ok(Curve {
        name: "clients",
        title: "list_projects: calls a second",
        x: "clients, one call in flight each",
        y: "calls/s",
        lines: vec![("Provost", ours), ("bare rmcp", bare)],
    })
}

/// Calls a second of all clients together.
fn rate(clients: Vec<LineClient>, call: &PreparedCall, calls: usize) -> Result<f64> {
    let begun = Instant::now();
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                scope.spawn(move || client.one_by_one(call, calls).map_err(|it| it.to_string()))
            })
            .collect();
        threads
            .into_iter()
            .map(|it| it.join().map_err(|_| "a client panicked".to_owned()).flatten())
            .map(|times| times.map(|times| times.len()))
            .sum::<std::result::Result<usize, String>>()
    })?;
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
    let all = all as f64;
    Ok(all / begun.elapsed().as_secs_f64())
}

/// Attempts that live at once: how long the next start takes, and what all of them hold.
async fn attempts(size: Size) -> Result<[Curve; 2]> {
    let steps = size.choose(vec![1_u16, 25, 50, 100, 200], vec![1, 2]);
    let most = steps.iter().copied().max().unwrap_or(1);
    let scratch = Scratch::make(usize::from(most) + 1, &["tick"])?;
    let client = scratch.client().await?;
    let task = scratch.task(&client).await?;
    let (mut starts, mut memory) = (Vec::new(), Vec::new());
    let mut times = Vec::new();
    for attempts in 1..=most {
        times.push(started(&client, &task).await?);
        if steps.contains(&attempts) {
            starts.push((attempts.into(), median(std::mem::take(&mut times))));
            let held = Memory::of(scratch.daemon().await?).dirty
                + Memory::sum(&shims(&scratch.home())).dirty;
            memory.push((attempts.into(), f64::from(u32::try_from(held)?) / 1024.0));
        }
    }
    let x = "attempts that run, a line a second each";
    let [title, held] = ["from a start to the first line: median", "daemon and shims: own memory"];
    Ok([
        Curve { name: "starts", title, x, y: "ms", lines: vec![("", starts)] },
        Curve { name: "memory", title: held, x, y: "MiB", lines: vec![("", memory)] },
    ])
}

/// Milliseconds from a start to the first line that a client sees.
async fn started(client: &Client, task: &Value) -> Result<f64> {
    let begun = Instant::now();
    let start = json!({"task_id": task, "executor": "self"});
    let attempt = client.call("start_task_attempt", start).await?["attempt_id"].clone();
    loop {
        let status = client.call("get_attempt_status", json!({"attempt_id": attempt})).await?;
        if status["latest_entry_index"]["raw"].is_u64() {
            return Ok(begun.elapsed().as_secs_f64() * 1e3);
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// A page in the middle of logs of some sizes.
async fn pages(size: Size) -> Result<Curve> {
    let (mut raw, mut normalized) = (Vec::new(), Vec::new());
    for megabytes in size.choose(vec![1_u16, 10, 100, 500, 2000], vec![1]) {
        let scratch = Scratch::make(1, &["pour", &megabytes.to_string()])?;
        let client = scratch.client().await?;
        let task = scratch.task(&client).await?;
        let start = json!({"task_id": task, "executor": "self"});
        let attempt = client.call("start_task_attempt", start).await?["attempt_id"].clone();
        let settled = json!({"attempt_ids": [attempt], "timeout_ms": 50_000});
        while client.call("wait_for_attempts", settled.clone()).await?["timed_out"] == true {}
        flood::sealed(&flood::log(&scratch, &attempt)).await?;
        let mut reader = LineClient::start(scratch.bridge())?;
        for (channel, points) in [("raw", &mut raw), ("normalized", &mut normalized)] {
            let page = json!({"attempt_id": attempt, "channel": channel, "limit": 20,
                "after_entry_index": u32::from(megabytes) * 5_000});
            let call = PreparedCall::new("tail_attempt_logs", &page);
            points
                .push((megabytes.into(), micros(&reader.one_by_one(&call, size.choose(300, 3))?)));
        }
    }
    Ok(Curve {
        name: "pages",
        title: "tail_attempt_logs: 20 entries in the middle, median",
        x: "size of the log, in MB",
        y: "µs",
        lines: vec![("raw", raw), ("normalized", normalized)],
    })
}

/// Calls in projects of some sizes.
fn board(size: Size) -> Result<Curve> {
    let (mut next, mut made) = (Vec::new(), Vec::new());
    for tasks in size.choose(vec![100_u16, 1000, 10_000], vec![50]) {
        let scratch = filled(usize::from(tasks))?;
        let mut client = LineClient::start(scratch.bridge())?;
        let project = client.call("list_projects", &json!({}))?["projects"][0]["project_id"].take();
        let make = json!({"project_id": project, "title": "Something that is to be made"});
        let (make, ask) =
            (PreparedCall::new("create_task", &make), PreparedCall::new("getNextTask", &json!({})));
        let (mut asked, mut taken) = (Vec::new(), Vec::new());
        for _ in 0..size.choose(50, 2) {
            // After a commit nothing that was read before still holds.
            taken.extend(client.one_by_one(&make, 1)?);
            asked.extend(client.one_by_one(&ask, 1)?);
        }
        next.push((tasks.into(), micros(&asked) / 1e3));
        made.push((tasks.into(), micros(&taken) / 1e3));
    }
    Ok(Curve {
        name: "board",
        title: "getNextTask and create_task, median",
        x: "tasks of the project",
        y: "ms",
        lines: vec![("getNextTask", next), ("create_task", made)],
    })
}

/// How soon a killed daemon's successor has its attempts again.
async fn again(size: Size) -> Result<Curve> {
    let mut points = Vec::new();
    for attempts in size.choose(vec![10_u16, 100, 300, 1000], vec![2]) {
        let scratch = Scratch::make(attempts.into(), &["idle"])?;
        let client = scratch.client().await?;
        let task = scratch.task(&client).await?;
        let ids = idle::started(&client, &task, attempts.into()).await?;
        drop(client);
        points.push((attempts.into(), idle::has_again(&scratch, &ids).await?));
    }
    Ok(Curve {
        name: "again",
        title: "a killed daemon's successor has its attempts again",
        x: "attempts that run",
        y: "ms",
        lines: vec![("", points)],
    })
}
