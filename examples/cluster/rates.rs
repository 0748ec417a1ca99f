//! How fast the hosts are: whole attempts, stops and logs across hosts, renewals of many hosts. All of
//! it shares one machine, so a figure is what the path takes, and no more.

use std::path::Path;
use std::time::{Duration, Instant};

use provost::board::{Durability, Server, Store, TimesToLive};
use provost_actors::host::{HostRole, Registration};
use provost_actors::journal::Hosts as _;
use serde_json::json;

use crate::Result;
use crate::cluster::{Cluster, FENCED};
use crate::network::{BOARD, address};

/// The lease that is the default.
const LEASE: Duration = Duration::from_secs(30);

pub fn run(program: &Path, is_short: bool) -> Result<()> {
    let choose = |full: usize, short: usize| if is_short { short } else { full };
    let mut cluster = Cluster::make(program, LEASE)?;
    println!("| what | how many | per second | p50 | p99 |\n|---|--:|--:|--:|--:|");
    attempts(&mut cluster, choose(120, 12))?;
    stops(&mut cluster, choose(60, 6))?;
    tails(&mut cluster, choose(500, 20))?;
    renewals(choose(500, 50), choose(30, 5))
}

/// Prints a row; the times are sorted by this.
fn row(what: &str, per_second: Option<f64>, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| {
        let time = times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
        time.map_or_else(String::new, |it| format!("{:.1} ms", it.as_secs_f64() * 1000.0))
    };
    let rate = per_second.map_or_else(String::new, |it| format!("{it:.1}"));
    println!("| {what} | {} | {rate} | {} | {} |", times.len(), at(50), at(99));
}

/// From the start's call until the last one is settled.
fn attempts(cluster: &mut Cluster, count: usize) -> Result<()> {
    let began = Instant::now();
    let mut times = Vec::new();
    let mut started = Vec::new();
    for _ in 0..count {
        let called = Instant::now();
        started.extend(cluster.start(1, FENCED, 1)?);
        times.push(called.elapsed());
    }
    cluster.finish(&started)?;
    #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
    let rate = count as f64 / began.elapsed().as_secs_f64();
    row("attempts, claimed to settled; time of the calls that start one", Some(rate), times);
    Ok(())
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
    row("stop_attempt (force) on another host", None, times);
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
    row("tail_attempt_logs, 20 entries, of another host", None, times);
    Ok(())
}

/// Simulated hosts that renew their leases every five seconds, each on its own.
fn renewals(hosts: usize, seconds: usize) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let url = format!("postgres://provost@{}/postgres", address(BOARD));
        let server = Server::new(&url, None, Durability::Stated)?;
        let forever = TimesToLive { answers: None, intents: None, claims: LEASE };
        let store = Store::open_server(&server, "simulated", forever).await?;
        for host in 0..hosts {
            store.register_host(&registration(host)).await.map_err(|it| it.to_string())?;
        }
        let every = LEASE / 6;
        let rounds = (seconds / usize::try_from(every.as_secs())?).max(1);
        let renewing = (0..hosts).map(|host| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                let offset =
                    every * u32::try_from(host).unwrap_or(0) / u32::try_from(hosts).unwrap_or(1);
                let mut next = tokio::time::Instant::now() + offset;
                for _ in 0..rounds {
                    tokio::time::sleep_until(next).await;
                    next += every;
                    let called = Instant::now();
                    let renewed = store.renew_host(&format!("simulated-{host}"), 1, LEASE).await;
                    times.push(renewed.map(|_| called.elapsed()).map_err(|it| it.to_string()));
                }
                times
            })
        });
        let mut times = Vec::new();
        for task in renewing.collect::<Vec<_>>() {
            for time in task.await? {
                times.push(time?);
            }
        }
        row(&format!("renewals of {hosts} hosts, every {} s", every.as_secs()), None, times);
        Ok(())
    })
}

fn registration(host: usize) -> Registration {
    Registration {
        host_id: format!("simulated-{host}"),
        secret: String::new(),
        labels: Vec::new(),
        slots: 8,
        memory: 0,
        version: String::new(),
        role: HostRole::Worker,
        lease: Some(LEASE),
        fenced_at: None,
    }
}
