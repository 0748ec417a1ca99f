//! How fast the hosts are: whole attempts, stops and logs across hosts; then, without daemons, claims and
//! renewals through the store. All of it shares one machine, so a figure is what the path takes, and
//! no more.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cluster::{Cluster, FENCED};
use crate::host::Host;
use crate::session::{Home, Session};
use crate::{Result, TIMEOUT, store_rates, tick};

/// The lease that is the default.
pub const LEASE: Duration = Duration::from_secs(30);
/// Clients, or hosts, that ask at once.
pub const AT_ONCE: usize = 8;

pub fn run(program: &Path, is_short: bool) -> Result<()> {
    let choose = |full: usize, short: usize| if is_short { short } else { full };
    let mut cluster = Cluster::make(program, LEASE)?;
    println!(
        "| what | how many | per second | p50 | p99 | in the trial |\n|---|--:|--:|--:|--:|---|"
    );
    attempts(&mut cluster, choose(240, 48))?;
    stops(&mut cluster, choose(60, 6))?;
    tails(&mut cluster, choose(500, 20))?;
    lines(&mut cluster, choose(400, 40), true)?;
    lines(&mut cluster, choose(400, 40), false)?;
    let task = cluster.task(0, "What is claimed")?;
    cluster.lose_all()?;
    store_rates::claims(&task, choose(2000, 40))?;
    store_rates::renewals(choose(500, 50), choose(60, 5))
}

/// Prints a row; the times are sorted by this. `trial` is the figure of the trial that several hosts
/// were designed by.
pub fn row(what: &str, per_second: Option<f64>, mut times: Vec<Duration>, trial: &str) {
    times.sort_unstable();
    let at = |percent: usize| {
        let time = times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
        time.map_or_else(String::new, |it| format!("{:.1} ms", it.as_secs_f64() * 1000.0))
    };
    let rate = per_second.map_or_else(String::new, |it| format!("{it:.1}"));
    println!("| {what} | {} | {rate} | {} | {} | {trial} |", times.len(), at(50), at(99));
}

/// How many of something there were in each second.
#[expect(clippy::cast_precision_loss, reason = "a few thousand")]
pub fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// Whole attempts, with git worktrees and processes: from the first start's call until the last one is
/// settled.
fn attempts(cluster: &mut Cluster, count: usize) -> Result<()> {
    let tasks: Vec<String> =
        (0..count).map(|at| cluster.task(at % 2, &format!("Rate {at}"))).collect::<Result<_>>()?;
    let (began, transactions) = (Instant::now(), cluster.transactions()?);
    let gateways = &cluster.gateways;
    let started = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..AT_ONCE)
            .map(|client| {
                let tasks: Vec<&String> = tasks.iter().skip(client).step_by(AT_ONCE).collect();
                let gateway = &gateways[client % gateways.len()];
                scope.spawn(move || start_all(gateway, &tasks).map_err(|it| it.to_string()))
            })
            .collect();
        let mut all = Vec::new();
        for client in clients {
            all.extend(client.join().map_err(|_| "a client panicked")??);
        }
        Ok::<_, Box<dyn std::error::Error>>(all)
    })?;
    let (ids, times): (Vec<String>, Vec<Duration>) = started.into_iter().unzip();
    cluster.finish(&ids)?;
    let time = began.elapsed();
    let what = format!("whole attempts, started to settled; start calls of {AT_ONCE} clients");
    row(&what, Some(rate(count, time)), times, "");
    let each = rate(cluster.transactions()? - transactions, time) / rate(count, time);
    eprintln!("transactions that write, of all hosts, for each attempt: {each:.1}");
    Ok(())
}

/// The ids of the attempts, and how long each call took.
fn start_all(gateway: &Host, tasks: &[&String]) -> Result<Vec<(String, Duration)>> {
    let mut session = Session::default();
    let mut started = Vec::new();
    for task in tasks {
        let start = json!({"task_id": task, "executor": FENCED, "prompt": tick::prompt(1)});
        let called = Instant::now();
        let answer = session.call(gateway, "start_task_attempt", &start)?;
        let id = answer["attempt_id"].as_str().ok_or("no attempt")?.to_owned();
        started.push((id, called.elapsed()));
    }
    Ok(started)
}

fn stops(cluster: &mut Cluster, count: usize) -> Result<()> {
    let mut times = Vec::new();
    while times.len() < count {
        let running = cluster.start(6, FENCED, 10_000)?;
        cluster.tick(&running)?;
        for id in running {
            let called = Instant::now();
            cluster.call(1, "stop_attempt", &json!({"attempt_id": id, "force": true}))?;
            times.push(called.elapsed());
        }
    }
    row("stop_attempt (force) on another host, to its answer", None, times, "70-81 ms to the kill");
    Ok(())
}

fn tails(cluster: &mut Cluster, count: usize) -> Result<()> {
    let attempts = cluster.start(1, FENCED, 100)?;
    cluster.finish(&attempts)?;
    let page = json!({"attempt_id": attempts[0], "limit": 20});
    let mut times = Vec::new();
    for at in 0..count {
        let called = Instant::now();
        cluster.call(at % 2, "tail_attempt_logs", &page)?;
        times.push(called.elapsed());
    }
    row("tail_attempt_logs, 20 entries, of another host", None, times, "");
    Ok(())
}

/// A line's age: from the instant at which an executor writes it until a client that follows the log has
/// it, on a gateway or on the executor's own host.
fn lines(cluster: &mut Cluster, count: usize, is_elsewhere: bool) -> Result<()> {
    let ticks = u32::try_from(count + crate::cluster::SHIPPED + 40)?;
    let attempts = cluster.start(1, FENCED, ticks)?;
    cluster.tick(&attempts)?;
    let status = cluster.status(&attempts[0])?;
    let own = cluster.workers.iter().find(|it| status["host"] == it.name.as_str());
    let client = if is_elsewhere { &cluster.gateways[1] } else { own.ok_or("no host")? };
    let seen = follow(client, &attempts[0])?;
    cluster.finish(&attempts)?;
    let ledger = cluster.ledger()?;
    let written = &ledger.of(&attempts[0]).last().ok_or("nothing has ticked")?.ticks;
    if seen.len() != written.len() {
        return Err(format!("{} of {} lines were followed", seen.len(), written.len()).into());
    }
    let age = |&(tick, now): &(u32, u64)| {
        let tick = usize::try_from(tick).ok()?.checked_sub(1)?;
        Some(Duration::from_millis(now.saturating_sub(*written.get(tick)?)))
    };
    // Those of before the client had come are old.
    let ages = seen[seen.len() - count..].iter().filter_map(age).collect();
    if is_elsewhere {
        let trial = "p50 60-75, p99 120-186 ms, with a flush each 100 ms";
        row("a line's age in `logs -f` on another host", None, ages, trial);
    } else {
        row("a line's age in `logs -f` on its own host", None, ages, "p50 13, p99 22 ms");
    }
    Ok(())
}

/// The ticks that `logs -f` shows until it ends, each with the time at which it did.
fn follow(client: &Host, attempt: &str) -> Result<Vec<(u32, u64)>> {
    let mut follow =
        client.provost(&["logs", "-f", "--raw", attempt]).stdout(Stdio::piped()).spawn()?;
    let stdout = BufReader::new(follow.stdout.take().ok_or("no pipe")?);
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let lines = stdout.lines().map_while(std::io::Result::ok);
        for line in lines.filter_map(|line| Some((line, tick::now().ok()?))) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut seen = Vec::new();
    loop {
        match lines.recv_timeout(TIMEOUT) {
            Ok((line, now)) => {
                let found = line.find("tick ").and_then(|at| tick::parse(&line[at..]));
                seen.extend(found.map(|(tick, _)| (tick, now)));
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                follow.kill()?;
                follow.wait()?;
                return Err(format!("`logs -f` did not end; it showed {} lines", seen.len()).into());
            }
        }
    }
    let status = follow.wait()?;
    if status.success() { Ok(seen) } else { Err(format!("`logs -f` ended: {status}").into()) }
}
