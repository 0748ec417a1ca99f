//! What is broken, and what has to follow.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::cluster::{Cluster, FENCED, SHIPPED, UNFENCED};
use crate::oracle::{Logged, judge_log};
use crate::session::Home as _;
use crate::{Result, pause, wait_until};

/// Attempts at once, of which each worker gets some.
const ATTEMPTS: usize = 6;

/// Ticks of an attempt that is soon over.
const SHORT: u32 = 20;

/// What shows an attempt of another host.
const READS: [&str; 2] = ["get_attempt_changes", "tail_attempt_logs"];

struct Fault {
    name: &'static str,
    /// Whether the short form has it.
    is_short: bool,
    executor: &'static str,
    restarts: Restarts,
    /// Breaks something while the attempts tick. How many executions were hit.
    inject: fn(&mut Cluster, &[String]) -> Result<usize>,
}

/// How many attempts have to begin anew.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Restarts {
    None,
    Some,
    /// Either is right.
    Any,
}

const FAULTS: &[Fault] = &[
    Fault {
        name: "host-killed",
        is_short: true,
        executor: FENCED,
        restarts: Restarts::Some,
        inject: host_killed,
    },
    Fault {
        name: "cut-long",
        is_short: false,
        executor: FENCED,
        restarts: Restarts::Some,
        inject: cut_for_long,
    },
    Fault {
        name: "cut-short",
        is_short: false,
        executor: FENCED,
        restarts: Restarts::None,
        inject: cut_shortly,
    },
    Fault {
        name: "engine-killed",
        is_short: false,
        executor: FENCED,
        restarts: Restarts::None,
        inject: engine_killed,
    },
    Fault {
        name: "daemon-hung",
        is_short: false,
        executor: FENCED,
        restarts: Restarts::Some,
        inject: daemon_hung,
    },
    Fault {
        name: "two-daemons",
        is_short: false,
        executor: FENCED,
        restarts: Restarts::None,
        inject: two_daemons,
    },
    Fault {
        name: "gateway-killed",
        is_short: false,
        executor: FENCED,
        restarts: Restarts::None,
        inject: gateway_killed,
    },
    Fault {
        name: "failover",
        is_short: false,
        executor: FENCED,
        restarts: Restarts::None,
        inject: failed_over,
    },
    Fault {
        name: "cut-between",
        is_short: false,
        executor: FENCED,
        restarts: Restarts::Any,
        inject: cut_between,
    },
    Fault {
        name: "engine-restarted",
        is_short: false,
        executor: FENCED,
        restarts: Restarts::None,
        inject: engine_restarted,
    },
    Fault {
        name: "clean-restart",
        is_short: false,
        executor: FENCED,
        restarts: Restarts::None,
        inject: cleanly_restarted,
    },
    Fault {
        name: "fence-off",
        is_short: true,
        executor: UNFENCED,
        restarts: Restarts::Some,
        inject: cut_for_long,
    },
];

/// Injects the faults one after the other and prints a table.
pub fn run(program: &Path, is_short: bool, only: &[String], lease: Duration) -> Result<()> {
    let chosen: Vec<&Fault> = FAULTS
        .iter()
        .filter(|it| !is_short || it.is_short)
        .filter(|it| only.is_empty() || only.iter().any(|name| it.name == name))
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = FAULTS.iter().map(|it| it.name).collect();
        return Err(format!("no such fault; there are: {}", names.join(", ")).into());
    }
    let mut cluster = Cluster::make(program, lease)?;
    println!(
        "| fault | attempts | hit | frozen | restarts | overlaps | started twice | log lines | lost with the host | seconds |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    for fault in chosen {
        if let Err(error) = round(&mut cluster, fault) {
            let kept = cluster.keep();
            return Err(format!("{}: {error}\nkept: {}", fault.name, kept.display()).into());
        }
    }
    Ok(())
}

/// One fault, and what has followed.
fn round(cluster: &mut Cluster, fault: &Fault) -> Result<()> {
    let began = Instant::now();
    // Without a fence an execution outlasts the lease, and the time until another host begins anew.
    let lasts = cluster.lease * 5 / 2;
    let ticks = SHIPPED + usize::try_from(lasts.as_millis() / crate::tick::TICK.as_millis())?;
    let ticks = u32::try_from(ticks)?;
    let attempts = cluster.start(ATTEMPTS, fault.executor, ticks)?;
    cluster.tick(&attempts)?;
    let hit = (fault.inject)(cluster, &attempts)?;
    cluster.finish(&attempts)?;
    let ledger = cluster.ledger()?;
    let (overlaps, twice) = (ledger.overlaps(&attempts), ledger.double_starts(&attempts));
    let restarts = ledger.restarts(&attempts);
    let frozen = ledger.frozen(&attempts, 1000);
    let mut logged = Logged::default();
    for attempt in &attempts {
        let texts = cluster.log(1, attempt)?;
        let judged = judge_log(&texts, ledger.of(attempt), ticks, fault.restarts != Restarts::None);
        let Logged { lines, lost } =
            judged.map_err(|why| format!("the log of {attempt}: {why}"))?;
        logged = Logged { lines: logged.lines + lines, lost: logged.lost + lost };
    }
    println!(
        "| {} | {} | {hit} | {frozen} | {restarts} | {} | {} | {} | {} | {} |",
        fault.name,
        attempts.len(),
        overlaps.len(),
        twice.len(),
        logged.lines,
        logged.lost,
        began.elapsed().as_secs(),
    );
    if hit == 0 {
        return Err("the fault has hit nothing".into());
    }
    if !twice.is_empty() {
        return Err(format!("started twice: {twice:?}").into());
    }
    if fault.executor == UNFENCED {
        let is_blind = overlaps.is_empty();
        return if is_blind {
            Err("the check is blind: no overlap was found".into())
        } else {
            Ok(())
        };
    }
    if !overlaps.is_empty() {
        return Err(format!("ran at the same time: {overlaps:?}").into());
    }
    match fault.restarts {
        Restarts::None if restarts > 0 => Err(format!("{restarts} attempts began anew").into()),
        Restarts::Some if restarts == 0 => Err("nothing began anew".into()),
        _ => Ok(()),
    }
}

fn host_killed(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
    let (which, hit) = cluster.busiest(attempts)?;
    cluster.workers[which].kill()?;
    cluster.finish(attempts)?;
    cluster.workers[which].start()?;
    let name = cluster.workers[which].name.clone();
    cluster.is_back(&name)?;
    Ok(hit)
}

fn cut_for_long(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
    let (which, hit) = cluster.busiest(attempts)?;
    cluster.workers[which].machine.cut()?;
    // They are completed on other hosts.
    cluster.finish(attempts)?;
    cluster.workers[which].machine.heal()?;
    let name = cluster.workers[which].name.clone();
    cluster.is_back(&name)?;
    Ok(hit)
}

/// For so long that a renewal is late, and the lease is not over for so long that it is given away.
fn cut_shortly(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
    let (which, hit) = cluster.busiest(attempts)?;
    cluster.workers[which].machine.cut()?;
    pause(cluster.lease / 2);
    cluster.workers[which].machine.heal()?;
    Ok(hit)
}

/// For a bit longer than a lease, while others look at what the host has: it may be given up then, or not.
fn cut_between(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
    let (which, hit) = cluster.busiest(attempts)?;
    cluster.workers[which].machine.cut()?;
    let until = Instant::now() + cluster.lease * 6 / 5;
    for (attempt, tool) in attempts.iter().cycle().zip(READS.iter().cycle()) {
        if Instant::now() >= until {
            break;
        }
        // It may be refused for now.
        let _ = cluster.call(1, tool, &serde_json::json!({"attempt_id": attempt}));
    }
    cluster.workers[which].machine.heal()?;
    cluster.finish(attempts)?;
    let name = cluster.workers[which].name.clone();
    cluster.is_back(&name)?;
    Ok(hit)
}

/// While attempts begin.
fn engine_restarted(cluster: &mut Cluster, _: &[String]) -> Result<usize> {
    let mut begun = Vec::new();
    for _ in 0..3 {
        begun.extend(cluster.start(ATTEMPTS, FENCED, SHORT)?);
        cluster.engine.kill()?;
        cluster.engine.start()?;
        // What is refused meanwhile is asked again.
        wait_until("the board takes changes", || Ok(cluster.task(0, "Between").is_ok()))?;
    }
    cluster.finish(&begun)?;
    Ok(begun.len())
}

/// A daemon ends with all of its attempts at rest, and another host shows them before it is back.
fn cleanly_restarted(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
    cluster.finish(attempts)?;
    let host = |cluster: &mut Cluster, attempt: &String| -> Result<String> {
        Ok(cluster.status(attempt)?["host"].as_str().unwrap_or_default().to_owned())
    };
    let name = cluster.workers[0].name.clone();
    let mut own = Vec::new();
    for attempt in attempts {
        if host(cluster, attempt)? == name {
            own.push(attempt.clone());
        }
    }
    crate::run(&mut cluster.workers[0].provost(&["shutdown"]))?;
    wait_until("its daemon has ended", || cluster.workers[0].has_ended())?;
    for attempt in &own {
        let asked = serde_json::json!({"attempt_id": attempt});
        cluster.call(1, "get_attempt_changes", &asked)?;
    }
    cluster.workers[0].start()?;
    cluster.is_back(&name)?;
    for attempt in &own {
        let now = host(cluster, attempt)?;
        if now != name {
            return Err(format!("{attempt} has left {name}, and is on {now:?}").into());
        }
    }
    Ok(own.len())
}

fn engine_killed(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
    cluster.engine.kill()?;
    pause(cluster.lease * 3 / 2);
    cluster.engine.start()?;
    let frozen = cluster.ledger()?.frozen(attempts, 1000);
    cluster.finish(attempts)?;
    let after = cluster.ledger()?.frozen(attempts, 1000);
    Ok(frozen.max(after))
}

/// The daemon stands still, and its executors do not.
fn daemon_hung(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
    let (which, hit) = cluster.busiest(attempts)?;
    cluster.workers[which].signal(Signal::SIGSTOP)?;
    cluster.finish(attempts)?;
    cluster.workers[which].signal(Signal::SIGCONT)?;
    let name = cluster.workers[which].name.clone();
    cluster.is_back(&name)?;
    Ok(hit)
}

/// Another home with the name of a host, and another daemon in its home: both are refused.
fn two_daemons(cluster: &mut Cluster, _: &[String]) -> Result<usize> {
    let name = cluster.workers[0].name.clone();
    let other = cluster.root().join("other");
    std::fs::create_dir(&other)?;
    std::fs::write(other.join("config.toml"), cluster.config(&name, "worker")?)?;
    let homes = [other, cluster.workers[0].home().to_owned()];
    let mut refused = 0;
    for home in homes {
        let mut second = cluster.workers[0].spawn(&home)?;
        wait_until("a second daemon is refused", || Ok(second.try_wait()?.is_some()))?;
        if second.wait()?.success() {
            return Err("a second daemon ran".into());
        }
        refused += 1;
    }
    Ok(refused)
}

/// The client's session goes on through the gateway that is started again.
fn gateway_killed(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
    cluster.task(0, "Before")?;
    cluster.gateways[0].kill_daemon()?;
    // The other one serves its own clients meanwhile.
    cluster.call(1, "get_attempt_status", &serde_json::json!({"attempt_id": attempts[0]}))?;
    cluster.gateways[0].start()?;
    cluster.task(0, "After")?;
    Ok(1)
}

/// What was acknowledged before is there after.
fn failed_over(cluster: &mut Cluster, _: &[String]) -> Result<usize> {
    cluster.add_standby()?;
    let mut acknowledged = Vec::new();
    for at in 0..50 {
        acknowledged.push(cluster.task(at % 2, &format!("Acknowledged {at}"))?);
    }
    cluster.fail_over()?;
    for task in &acknowledged {
        cluster.call(1, "get_task", &serde_json::json!({"task_id": task}))?;
    }
    Ok(acknowledged.len())
}
