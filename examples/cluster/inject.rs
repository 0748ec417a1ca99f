//! What breaks while attempts tick. Each function returns how many executions were hit.

use std::time::Instant;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::cluster::{Cluster, FENCED};
use crate::faults::ATTEMPTS;
use crate::oracle::Ledger;
use crate::session::Home as _;
use crate::{Result, pause, wait_until};

/// Ticks of an attempt that is soon over, and of one that only a stop ends.
const SHORT: u32 = 20;
const ENDLESS: u32 = 100_000;

/// Hosts and attempts of the board that is far away.
const FAR_WORKERS: usize = 12;
const FAR_ATTEMPTS: usize = 480;

/// What shows an attempt of another host.
const READS: [&str; 2] = ["get_attempt_changes", "tail_attempt_logs"];

pub fn host_killed(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
    let (which, hit) = cluster.busiest(attempts)?;
    cluster.workers[which].kill()?;
    cluster.finish(attempts)?;
    cluster.workers[which].start()?;
    let name = cluster.workers[which].name.clone();
    cluster.is_back(&name)?;
    Ok(hit)
}

pub fn cut_for_long(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
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
pub fn cut_shortly(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
    let (which, hit) = cluster.busiest(attempts)?;
    cluster.workers[which].machine.cut()?;
    pause(cluster.lease / 2);
    cluster.workers[which].machine.heal()?;
    Ok(hit)
}

/// For a bit longer than a lease, while others look at what the host has: it may be given up then, or not.
pub fn cut_between(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
    let (which, hit) = cluster.busiest(attempts)?;
    cluster.workers[which].machine.cut()?;
    let until = Instant::now() + cluster.lease * 6 / 5;
    for (attempt, tool) in attempts.iter().cycle().zip(READS.iter().cycle()) {
        if Instant::now() >= until {
            break;
        }
        // It may be refused for now.
        let _ = cluster.call(1, tool, &json!({"attempt_id": attempt}));
    }
    cluster.workers[which].machine.heal()?;
    cluster.finish(attempts)?;
    let name = cluster.workers[which].name.clone();
    cluster.is_back(&name)?;
    Ok(hit)
}

/// While attempts begin.
pub fn engine_restarted(cluster: &mut Cluster, _: &[String]) -> Result<usize> {
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

/// The connections of a worker carry nothing any more and none of them is closed; new ones work.
pub fn connections_fall_silent(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
    let (which, hit) = cluster.busiest(attempts)?;
    cluster.workers[which].machine.change_address()?;
    cluster.finish(attempts)?;
    let name = cluster.workers[which].name.clone();
    cluster.is_back(&name)?;
    Ok(hit)
}

/// Makes a call for each attempt, kills the engine and starts it again meanwhile, and waits for all answers.
fn answered_by_restarted_engine(
    cluster: &mut Cluster,
    attempts: &[String],
    tool: &str,
    arguments: &Value,
) -> Result<()> {
    let mut calls = Vec::new();
    for (at, attempt) in attempts.iter().enumerate() {
        let mut arguments = arguments.clone();
        arguments["attempt_id"] = json!(attempt);
        arguments["request_id"] = json!(format!("{tool}-{attempt}"));
        let gateway = at % cluster.gateways.len();
        calls.push((gateway, cluster.begin(gateway, tool, &arguments)?));
        if at % 2 == 1 {
            cluster.engine.kill()?;
            cluster.engine.start()?;
        }
    }
    calls.into_iter().try_for_each(|(gateway, call)| cluster.answer(gateway, call).map(drop))
}

/// While attempts are stopped: each of them is, and once.
pub fn engine_restarted_at_stops(cluster: &mut Cluster, _: &[String]) -> Result<usize> {
    // Some run, some wait for a slot.
    let begun = cluster.start(2 * ATTEMPTS, FENCED, ENDLESS)?;
    let first = begun[..1].to_vec();
    cluster.tick(&first)?;
    answered_by_restarted_engine(cluster, &begun, "stop_attempt", &json!({"force": true}))?;
    for attempt in &begun {
        wait_until(&format!("attempt {attempt} has stopped"), || {
            let status = cluster.status(attempt)?;
            // One that waited for a slot has never run.
            Ok(["settled", "idle"].contains(&status["phase"].as_str().unwrap_or_default()))
        })?;
    }
    let before = cluster.ledger()?;
    pause(cluster.lease);
    let after = cluster.ledger()?;
    for attempt in &begun {
        let count =
            |ledger: &Ledger| -> usize { ledger.of(attempt).iter().map(|it| it.ticks.len()).sum() };
        if count(&before) != count(&after) || after.of(attempt).len() > 1 {
            return Err(format!("attempt {attempt} ran after it was stopped").into());
        }
    }
    Ok(begun.len())
}

/// While attempts are merged: the work of each is in the target, once.
pub fn engine_restarted_at_finishes(cluster: &mut Cluster, _: &[String]) -> Result<usize> {
    let begun = cluster.start(ATTEMPTS, FENCED, SHORT)?;
    cluster.finish(&begun)?;
    let before = cluster.commits()?;
    answered_by_restarted_engine(cluster, &begun, "finish_attempt", &json!({"action": "merge"}))?;
    for attempt in &begun {
        wait_until(&format!("attempt {attempt} is merged"), || {
            let status = cluster.status(attempt)?;
            match status["finish"]["state"].as_str() {
                Some("done") => Ok(true),
                Some("open") | None => Ok(false),
                Some(other) => Err(format!("its merge has ended as {other}: {status}").into()),
            }
        })?;
    }
    let commits = cluster.commits()?;
    for attempt in &begun {
        let made = commits.iter().filter(|files| files.contains(attempt)).count();
        if made != 1 {
            return Err(format!("the work of {attempt} is in {made} commits of the target").into());
        }
    }
    if commits.len() != before.len() + begun.len() {
        return Err(format!("{} commits for {} merges", commits.len(), begun.len()).into());
    }
    Ok(begun.len())
}

/// While the attempts of a lost host are given to others.
pub fn engine_restarted_at_a_move(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
    let (which, hit) = cluster.busiest(attempts)?;
    cluster.workers[which].kill()?;
    let until = Instant::now() + cluster.lease * 2;
    while Instant::now() < until {
        pause(cluster.lease / 8);
        cluster.engine.kill()?;
        cluster.engine.start()?;
    }
    cluster.finish(attempts)?;
    cluster.workers[which].start()?;
    let name = cluster.workers[which].name.clone();
    cluster.is_back(&name)?;
    Ok(hit)
}

/// 10 ms away, with many hosts and attempts: no host loses its lease by that.
pub fn engine_far(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
    // In the ordinary network, before the engine is far for these as well.
    cluster.finish(attempts)?;
    cluster.move_engine_away()?;
    cluster.add_workers(FAR_WORKERS)?;
    let begun = cluster.start(FAR_ATTEMPTS, FENCED, SHORT)?;
    cluster.finish(&begun)?;
    let ledger = cluster.ledger()?;
    let restarts = ledger.restarts(&begun);
    if restarts > 0 || !ledger.overlaps(&begun).is_empty() {
        return Err(format!("{restarts} of {} attempts began again", begun.len()).into());
    }
    cluster.remove_workers()?;
    cluster.bring_engine_back()?;
    Ok(begun.len())
}

/// A daemon ends with all of its attempts at rest, and another host shows them before it is back.
pub fn cleanly_restarted(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
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
        let asked = json!({"attempt_id": attempt});
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

pub fn engine_killed(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
    cluster.engine.kill()?;
    pause(cluster.lease * 3 / 2);
    cluster.engine.start()?;
    let frozen = cluster.ledger()?.frozen(attempts, 1000);
    cluster.finish(attempts)?;
    let after = cluster.ledger()?.frozen(attempts, 1000);
    Ok(frozen.max(after))
}

/// The daemon stands still, and its executors do not.
pub fn daemon_hung(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
    let (which, hit) = cluster.busiest(attempts)?;
    cluster.workers[which].signal(Signal::SIGSTOP)?;
    cluster.finish(attempts)?;
    cluster.workers[which].signal(Signal::SIGCONT)?;
    let name = cluster.workers[which].name.clone();
    cluster.is_back(&name)?;
    Ok(hit)
}

/// Another home with the name of a host, and another daemon in its home: both are refused.
pub fn two_daemons(cluster: &mut Cluster, _: &[String]) -> Result<usize> {
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
pub fn gateway_killed(cluster: &mut Cluster, attempts: &[String]) -> Result<usize> {
    cluster.task(0, "Before")?;
    cluster.gateways[0].kill_daemon()?;
    // The other one serves its own clients meanwhile.
    cluster.call(1, "get_attempt_status", &json!({"attempt_id": attempts[0]}))?;
    cluster.gateways[0].start()?;
    cluster.task(0, "After")?;
    Ok(1)
}

/// What was acknowledged before is there after.
pub fn failed_over(cluster: &mut Cluster, _: &[String]) -> Result<usize> {
    cluster.add_standby()?;
    let mut acknowledged = Vec::new();
    for at in 0..50 {
        acknowledged.push(cluster.task(at % 2, &format!("Acknowledged {at}"))?);
    }
    cluster.fail_over()?;
    for task in &acknowledged {
        cluster.call(1, "get_task", &json!({"task_id": task}))?;
    }
    Ok(acknowledged.len())
}
