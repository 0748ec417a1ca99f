//! What attempts cost that do nothing: memory, wake-ups, and the time until a new daemon has them
//! again.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::calls::Floor;
use crate::counts::sleeps;
use crate::line_client::LineClient;
use crate::memory::{Memory, shims};
use crate::scratch::{Client, Scratch, command};
use crate::table::{Row, Unit};
use crate::{Result, Size};

/// Attempts whose statuses one call gives.
const BATCH: usize = 50;

pub async fn measure(size: Size) -> Result<Vec<Row>> {
    let attempts = size.choose(100_u32, 3);
    let scratch = Scratch::make(attempts as usize, &["idle"])?;
    let client = scratch.client().await?;
    let task = scratch.task(&client).await?;
    let daemon = scratch.daemon().await?;
    let empty = Memory::of(daemon);
    let floor = Floor::start(&scratch.home(), &json!({}))?;
    let bare = Memory::of(floor.pid()?);
    let bridge = LineClient::start(scratch.bridge())?;
    let bridges = [bridge.pid()?, LineClient::start(floor.bridge()?)?.pid()?].map(Memory::of);
    let ids = started(&client, &task, attempts).await?;
    let full = Memory::of(daemon);
    let shims = shims(&scratch.home());
    let own = full.dirty.saturating_sub(empty.dirty) + Memory::sum(&shims).dirty;
    let sleeper = bare_supervisor()?;

    // Whatever the starts have left to do has to be over.
    tokio::time::sleep(size.choose(Duration::from_secs(10), Duration::ZERO)).await;
    let processes: Vec<i32> = shims.iter().copied().chain([daemon]).collect();
    let before = sleeps(&processes);
    tokio::time::sleep(size.choose(Duration::from_secs(10), Duration::from_millis(100))).await;
    let woken = sleeps(&processes) - before;

    drop(client);
    let attached = has_again(&scratch, &ids).await?;

    let kib = |memory: u64| f64::from(u32::try_from(memory).unwrap_or(u32::MAX));
    let each = kib(own) / f64::from(attempts);
    let [idle, again] = [
        format!("an idle attempt of {attempts}: the daemon's share and the shim, own memory"),
        format!("a killed daemon's successor has {attempts} attempts again"),
    ];
    let woken = f64::from(u32::try_from(woken)?);
    let own = Unit::Kibibytes;
    let daemon = "the daemon without attempts, own memory";
    Ok(vec![
        Row::informed(daemon, ("bare rmcp", kib(bare.dirty)), own, kib(empty.dirty), 8192.0),
        Row::informed(
            "a bridge, own memory",
            ("bare bridge", kib(bridges[1].dirty)),
            own,
            kib(bridges[0].dirty),
            512.0,
        ),
        Row::informed(&idle, ("`sleep` below a shell", kib(sleeper)), own, each, 250.0),
        Row::alone(&again, Unit::Milliseconds, attached, f64::from(attempts)),
        Row::alone("wake-ups of daemon and shims in 10 idle seconds", Unit::Count, woken, 20.0),
    ])
}

/// Kills the daemon, and starts another one; how many milliseconds it takes until a client sees that
/// all these attempts run.
pub async fn has_again(scratch: &Scratch, ids: &[Value]) -> Result<f64> {
    let daemon = Pid::from_raw(scratch.daemon().await?);
    kill(daemon, Signal::SIGKILL)?;
    // Its end is not measured. It is a child of this program, unless a bridge was faster.
    let _ = nix::sys::wait::waitpid(daemon, None);
    let begun = Instant::now();
    scratch.start_daemon()?;
    all_run(&scratch.client().await?, ids).await?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

/// Starts attempts that do nothing, and waits until all run.
pub async fn started(client: &Client, task: &Value, attempts: u32) -> Result<Vec<Value>> {
    let mut ids = Vec::new();
    for _ in 0..attempts {
        let start = json!({"task_id": task, "executor": "self"});
        ids.push(client.call("start_task_attempt", start).await?["attempt_id"].clone());
    }
    all_run(client, &ids).await?;
    Ok(ids)
}

async fn all_run(client: &Client, ids: &[Value]) -> Result<()> {
    for batch in ids.chunks(BATCH) {
        loop {
            let all = client.call("get_attempt_status", json!({"attempt_ids": batch})).await?;
            let all = all["attempts"].as_array().cloned().unwrap_or_default();
            if all.len() == batch.len() && all.iter().all(|it| it["phase"] == "running") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    Ok(())
}

/// KiB of a shell that waits for a `sleep`.
fn bare_supervisor() -> Result<u64> {
    let mut shell = command("sh");
    shell.args(["-c", "sleep 1000 & echo; wait"]).stdout(Stdio::piped());
    let mut shell = shell.spawn()?;
    let mut line = [0];
    if let Some(stdout) = &mut shell.stdout {
        std::io::Read::read_exact(stdout, &mut line)?;
    }
    let pid = i32::try_from(shell.id())?;
    let held = Memory::of(pid).dirty;
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    for child in children.split_ascii_whitespace() {
        kill(Pid::from_raw(child.parse()?), Signal::SIGKILL)?;
    }
    shell.wait()?;
    Ok(held)
}
